"""A pretraining run turns a corpus into a model, and after any stop ends with the same weights."""

import csv
import os
import shutil
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.reference import cross_entropy
from helpers.small_corpus import small_corpus

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.pretrain import held_out_batches, pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError, StoppedError, columns
from keras_bert_rebuild.training.state.callbacks import StopOnSignal
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

TINY = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
SETTINGS = {**small_runs.SETTINGS, "model": TINY, "steps": 6, "warmup_steps": 2, "evaluate_steps": 3, "save_steps": 3}


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    """The folder of an uninterrupted run, its rows and its weights."""
    folder, rows, model = small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)
    return folder, rows, model.get_weights()


def same_weights(model, weights):
    return all(np.array_equal(a, b) for a, b in zip(model.get_weights(), weights, strict=True))


def newest(folder):
    checkpoint = CheckpointFolder(folder / "checkpoints").newest()
    source = checkpoint.arrays()
    return checkpoint.step, {name: source.read(name) for name in source.names}


def test_a_run_leaves_settings_versions_curve_checkpoints_and_model(undisturbed):
    folder, rows, _ = undisturbed
    assert sorted(os.listdir(folder)) == ["checkpoints", "metrics.csv", "model", "settings.yaml", "versions.yaml"]
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    assert settings["phases"] == [{"steps": 6, "batch_size": 4, "seq_len": 16, "max_predictions": 4}]
    (start,) = yaml.safe_load((folder / "versions.yaml").read_text())["starts"]
    assert start["keras"] == keras.__version__
    assert start["backend"] == keras.config.backend()
    assert [row["step"] for row in rows] == [0, 2, 3, 4, 6]
    with (folder / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == columns(PretrainSettings().learned)
    assert [int(row["step"]) for row in table] == [2, 3, 4, 6]
    assert [bool(row["held_out_mlm_loss"]) for row in table] == [False, True, False, True]
    np.testing.assert_allclose(float(table[-1]["mlm_perplexity"]), np.exp(float(table[-1]["mlm_loss"])), rtol=1e-4)
    np.testing.assert_allclose([float(row["learning_rate"]) for row in table], [5e-3, 1e-2, 7.5e-3, 2.5e-3], atol=1e-9)


def test_the_saved_model_is_the_average(undisturbed):
    folder, _, weights = undisturbed
    written = from_pretrained(folder / "model").get_weights()
    assert [a.shape for a in written] == [a.shape for a in weights]
    assert not all(np.array_equal(a, b) for a, b in zip(written, weights, strict=True))


def test_the_rate_of_a_row_is_the_rate_of_its_step(monkeypatch, corpus, tmp_path):
    rates = []

    class Watch(StopOnSignal):
        def on_train_batch_begin(self, batch, logs=None):
            rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))

    monkeypatch.setattr(training_run, "StopOnSignal", Watch)
    rows = []
    pretrain(corpus, tmp_path / "run", SETTINGS, log_steps=1, held_out=0, report=rows.append)
    accumulation = SETTINGS["gradient_accumulation_steps"]
    assert len(rates) == 6 * accumulation
    assert [row["learning_rate"] for row in rows[1:]] == rates[accumulation - 1 :: accumulation]  # the last batch of the step
    assert len(set(rates)) == 5  # 5e-3 on its way up and on its way down


def test_a_row_of_the_curve_is_the_mean_over_the_labels_since_the_last_row(corpus, tmp_path):
    changes = {"gradient_accumulation_steps": 1, "lengths": [8, 12], "short_seq_prob": 0.5, "mask_rate": 0.3, "ema": None}
    changes |= {"learning_rate": 1e-12, "warmup_steps": 0, "log_steps": 3, "evaluate_steps": 6, "save_steps": 6}
    config = {**TINY, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 1.0}
    settings, rows = PretrainSettings.from_dict({**SETTINGS, **changes, "model": config}), []
    model = pretrain(corpus, tmp_path / "run", settings, report=rows.append)
    train, held_out = split_documents(corpus, settings.held_out, settings.seed)
    (phase,) = settings.all_phases
    data = [training_batches(train, phase, settings), held_out_batches(held_out, phase, settings)]
    expected = [
        label_means(model, [data[i].batch(0, n) for n in numbers])
        for i, numbers in ((0, range(3)), (0, range(3, 6)), (1, range(2)))
    ]
    assert [row["step"] for row in rows[1:]] == [3, 6]
    got = [(rows[1], ""), (rows[2], ""), (rows[2], "held_out_")]
    for (row, kind), (mlm, pair) in zip(got, expected, strict=True):
        found = {name: row[f"{kind}{name}"] for name in ("loss", "mlm_loss", "pair_loss", "mlm_perplexity")}
        assert found == pytest.approx(
            {"loss": mlm + pair, "mlm_loss": mlm, "pair_loss": pair, "mlm_perplexity": np.exp(mlm)}, rel=1e-5
        )


def label_means(model, batches):
    """The mean losses of both heads over all labels of some batches, from probabilities."""
    losses = [], []
    for x, (labels, pairs) in batches:
        mlm, pair = (np.log(np.asarray(p, "float64")) for p in model.predict_on_batch(x))
        losses[0].extend(cross_entropy(mlm, labels[..., 0])[x[2] == 1])
        losses[1].extend(cross_entropy(pair, pairs[:, 0]))
    return np.mean(losses[0]), np.mean(losses[1])


class FallError(Exception):
    pass


@pytest.mark.slow(torch=True)
def test_a_run_stopped_repeatedly_with_checkpoints_in_the_background_ends_with_the_same_weights(corpus, undisturbed, tmp_path):
    folder, rows = tmp_path / "run", []

    def fall_at(step):
        def report(row):
            rows.append(row["step"])
            if row["step"] == step:
                raise FallError

        return report

    def ask_at(step, number):
        return lambda row: os.kill(os.getpid(), number) if row["step"] == step else None

    with pytest.raises(StoppedError, match="Stopped after step 2 of 6") as stopped:
        pretrain(corpus, folder, SETTINGS, report=ask_at(2, signal.SIGTERM), workers=2, save_in_background=True)
    assert stopped.value.signal == signal.SIGTERM
    with pytest.raises(FallError):
        pretrain(corpus, folder, SETTINGS, report=fall_at(4), workers=5, save_in_background=True)
    model = pretrain(corpus, folder, SETTINGS, workers=1, save_in_background=True)
    assert rows == [2, 3, 4]
    assert same_weights(model, undisturbed[2])
    for (step, state), (expected_step, expected) in [(newest(folder), newest(undisturbed[0]))]:
        assert step == expected_step
        assert state.keys() == expected.keys()
        assert all(np.array_equal(state[name], expected[name]) for name in expected)
    with (folder / "metrics.csv").open(newline="") as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == [2, 3, 4, 6]
    assert len(yaml.safe_load((folder / "versions.yaml").read_text())["starts"]) == 3


def test_a_finished_run_only_loads_its_model(corpus, undisturbed):
    folder, _, weights = undisturbed
    rows = []
    assert same_weights(pretrain(corpus, folder, SETTINGS, report=rows.append), weights)
    assert rows == [{"step": 6}]


def test_other_settings_in_the_folder_of_a_run_are_an_error(corpus, undisturbed):
    with pytest.raises(ValueError, match=r"other settings: learning_rate was 0\.01 and is 0\.02; seed was 0 and is 3\."):
        pretrain(corpus, undisturbed[0], SETTINGS, learning_rate=0.02, seed=3, workers=1)


def test_another_corpus_in_the_folder_of_a_run_is_an_error(undisturbed):
    with pytest.raises(ValueError, match=r"holds a run on another corpus: tokens was \d+ and is \d+; .* or the same corpus\.$"):
        pretrain(small_corpus(documents=17, passages=4, longest=10), undisturbed[0], SETTINGS)


def exchanged(corpus):
    """The same except for its last two tokens."""
    ids = corpus.ids.copy()
    ids[-2:] = ids[:-3:-1]
    return replace(corpus, ids=ids)


def test_a_corpus_with_the_same_counts_and_start_is_another_corpus(corpus, undisturbed):
    with pytest.raises(ValueError, match=r"holds a run on another corpus: sha256 was '\w{64}' and is '\w{64}'\. Choose"):
        pretrain(exchanged(corpus), undisturbed[0], SETTINGS)


def test_a_run_without_a_digest_resumes_and_records_it(corpus, undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[0], folder)
    noted = yaml.safe_load((folder / "settings.yaml").read_text())
    without = {**noted, "corpus": {name: value for name, value in noted["corpus"].items() if name != "sha256"}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(without))
    pretrain(corpus, folder, SETTINGS)
    assert yaml.safe_load((folder / "settings.yaml").read_text()) == noted
    with pytest.raises(ValueError, match="another corpus: sha256"):
        pretrain(exchanged(corpus), folder, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "huge"}, "one of the sizes"),
        ({"model": {**TINY, "hiden_size": 8}}, "must have fields of a BertConfig; got hiden_size"),
        ({"model": {**TINY, "max_position_embeddings": 8}}, "the model has 8 positions; a phase has examples of 16 tokens"),
        ({"lengths": [3]}, "lengths must be from"),
    ],
)
def test_impossible_settings_leave_no_folder_that_would_refuse_the_next_attempt(corpus, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        pretrain(corpus, tmp_path / "run", SETTINGS, **changes)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_a_number_stops_the_run_and_saves_the_batch(corpus, tmp_path):
    changes = {"learning_rate": 1e30, "warmup_steps": 0, "clip_norm": None, "ema": None, "gradient_accumulation_steps": 1}
    with (
        pytest.warns(UserWarning, match="the loss became"),
        pytest.raises(NonFiniteLossError, match=r"at step \d+: training stops"),
    ):
        pretrain(corpus, tmp_path / "run", SETTINGS, **changes)
    (kept,) = (tmp_path / "run").glob("non-finite-*.npz")
    with np.load(kept) as arrays:
        assert {array.shape[0] for array in arrays.values()} == {4}
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").newest() is None


def test_phases_lengths_sentence_order_lamb_and_layer_rates_in_one_run(corpus, tmp_path):
    phases = [{"steps": 2, "batch_size": 4, "seq_len": 12}, {"steps": 1, "batch_size": 2, "seq_len": 20, "max_predictions": 5}]
    changes = {"phases": phases, "lengths": [8, 16], "next_sentence": "sop", "optimizer": "lamb", "layer_decay": 0.9, "ema": None}
    rows = []
    model = pretrain(corpus, tmp_path / "run", SETTINGS, **changes, masking="ngram", report=rows.append)
    assert [(row["step"], row["phase"]) for row in rows[1:]] == [(2, 0), (3, 1)]
    assert model.output_names == ["MLM", "SOP"]
    assert all(np.isfinite(array).all() for array in model.get_weights())


def test_a_run_can_start_from_a_checkpoint(corpus, undisturbed, tmp_path):
    changes = {"init": str(undisturbed[0] / "model"), "next_sentence": "none", "learning_rate": 1e-30, "ema": None, "steps": 1}
    model = pretrain(corpus, tmp_path / "run", SETTINGS, **changes)
    expected = {v.path: keras.ops.convert_to_numpy(v.value) for v in from_pretrained(undisturbed[0] / "model").weights}
    for variable in model.weights:
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable.value), expected[variable.path])


def test_a_checkpoint_of_another_vocabulary_is_an_error(undisturbed, tmp_path):
    other = small_corpus(documents=30, passages=4, longest=10)
    with pytest.raises(ValueError, match="must match the store: expected"):
        pretrain(other, tmp_path / "run", SETTINGS, init=str(undisturbed[0] / "model"))
