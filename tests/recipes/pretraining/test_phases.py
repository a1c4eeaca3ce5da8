"""Phases of a run: short rows before long ones, batches that grow, and rows of several sequences; each resumed exactly."""

import csv

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.small_corpus import FIRST, small_corpus
from keras import ops

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches
from keras_bert_rebuild.recipes.pretraining import pretrain as pretrain_module
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.pretrain import batches_of_phases, pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

PHASES = [{"steps": 2, "batch_size": 8, "seq_len": 8}, {"steps": 2, "batch_size": 4, "seq_len": 16}]
SETTINGS = {
    **{name: value for name, value in small_runs.FOUR_STEPS.items() if name not in ("steps", "batch_size", "seq_len")},
    "packing": True,
    "phases": PHASES,
}


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)


@pytest.mark.slow
def test_the_phases_follow_one_another_with_about_as_many_tokens(whole):
    folder, rows, _ = whole
    with (folder / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(int(row["step"]), int(row["phase"])) for row in table] == [(2, 0), (4, 1)]
    assert all(float(row["held_out_mlm_loss"]) > 0 for row in table)
    places = 2 * 8 * 8
    assert [0.8 * places <= int(row["tokens"]) <= places for row in table] == [True, True]
    assert rows[-1]["step"] == 4


@pytest.mark.slow(torch=True)
def test_a_run_stopped_between_two_phases_ends_with_the_same_bits(whole, corpus, tmp_path):
    small_runs.check_resumption(whole, corpus, tmp_path / "run", SETTINGS)


SHORT = small_corpus(documents=60, passages=4, longest=3)  # documents of 8 to 12 tokens, each an example of its own at any length
IN_TURN = [{"steps": 12, "batch_size": 4, "seq_len": length} for length in (16, 32, 32, 16)]


def masked_documents(batches):
    """The rows of all batches of a phase: the tokens of each, and which of them are masked."""
    for index in range(len(batches)):
        (_, _, chosen), labels = batches.batch(0, index)
        for of_row, row in zip(chosen, labels[..., 0], strict=True):
            yield tuple(row[row >= FIRST]), tuple(of_row[row >= FIRST])


def test_a_phase_of_another_length_draws_order_and_masks_anew(tmp_path):
    settings = PretrainSettings(phases=IN_TURN, next_sentence="none")
    rows = [list(masked_documents(batches)) for batches in batches_of_phases(SHORT, settings)]
    assert [len(of_phase) for of_phase in rows] == [48] * 4
    for one, other in ((0, 1), (0, 3), (1, 3)):
        assert sum(a == b for a, b in zip(rows[one], rows[other], strict=True)) < 5
        shared = dict(rows[one]).keys() & dict(rows[other]).keys()
        assert len(shared) > 30
        assert sum(dict(rows[one])[text] == dict(rows[other])[text] for text in shared) < len(shared) / 2
    assert rows[1] == rows[2]  # one length: the run continues where the previous phase ended


@pytest.mark.parametrize(
    "settings",
    [
        {"next_sentence": "none"},
        {"next_sentence": "none", "packing": True},
        {"next_sentence": "nsp"},
        {"next_sentence": "sop", "packing": True},
        {"objective": "electra", "gradient_accumulation_steps": 2},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@pytest.mark.parametrize("mixed", [False, True])
def test_no_random_number_of_a_phase_returns_in_one_of_another_length(mixed, settings):
    corpus = MixedCorpus([SomeDocuments(SHORT, range(10)), SomeDocuments(SHORT, range(10, 60))], [1, 3]) if mixed else SHORT
    phases = batches_of_phases(corpus, PretrainSettings(phases=IN_TURN, **settings))
    found = [batches.examples.at(np.arange(3000))[0] for batches in phases]
    assert (found[1] == found[2]).all()
    assert not any(np.intersect1d(found[one], found[other]).size for one, other in ((0, 1), (0, 3), (1, 3)))


class MadeError(Exception):
    """Ends a run whose batches exist."""


@pytest.fixture
def seeds(monkeypatch):
    """A function from the arguments of `pretrain` to a random number of every phase."""

    def made(model, settings, folder, batches, *_):
        raise MadeError([int(data.examples.at([0])[0][0]) for data in batches])

    monkeypatch.setattr(pretrain_module, "TrainingRun", made)

    def seeds(*args, **kwargs):
        with pytest.raises(MadeError) as found:
            pretrain(*args, **kwargs)
        return found.value.args[0]

    return seeds


def test_phases_of_other_lengths_draw_from_other_seeds_also_after_the_decay_of_another_run(corpus, tmp_path, seeds):
    of_phases = seeds(corpus, tmp_path / "new", SETTINGS)
    assert len(set(of_phases)) == len(of_phases) == 2
    (tmp_path / "long" / "checkpoints" / "step-00000004").mkdir(parents=True)
    settings = PretrainSettings(**{**SETTINGS, "schedule": "trapezoidal"}).resolved()
    (tmp_path / "long" / "settings.yaml").write_text(yaml.safe_dump(settings))
    for _ in range(2):  # the second time from its own folder
        decayed = seeds(corpus, tmp_path / "run", decay_from=str(tmp_path / "long"), decay_step=2, steps=4)
        assert len(set(decayed)) == 2


# Growing batches: phases of one length, each of which continues after the examples of the previous phase.


GROWING = {
    **small_runs.FOUR_STEPS,
    "batch_size": 8,
    "batch_warmup": [2, 4],
    "batch_warmup_steps": 2,
    "gradient_accumulation_steps": 2,
}


def test_the_sizes_have_equal_shares_of_the_warmup():
    settings = PretrainSettings(steps=100, batch_size=32, batch_warmup=[8, 16], batch_warmup_steps=30)
    assert [(phase.steps, phase.batch_size, phase.seq_len) for phase in settings.all_phases] == [
        (15, 8, 128),
        (15, 16, 128),
        (70, 32, 128),
    ]
    tenth = PretrainSettings(steps=100, batch_warmup=[8, 16, 24])
    assert [phase.steps for phase in tenth.all_phases] == [3, 4, 3, 90]
    assert settings.resolved()["warmup_steps"] == 10
    assert "batch_warmup" not in settings.resolved()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_warmup_steps": 5}, "needs the sizes in batch_warmup"),
        ({"batch_warmup": 8}, "batch_warmup must be a list"),
        ({"batch_warmup": [0]}, "batch_warmup must be whole numbers of at least 1"),
        ({"batch_warmup": [8, 16], "steps": 10}, "batch_warmup_steps must be from 2, one for each size of batch_warmup, to 9"),
        ({"batch_warmup": [8], "steps": 10, "batch_warmup_steps": 10}, "to 9, all steps but one; got 10"),
        ({"batch_warmup": [8], "phases": [{"steps": 1, "batch_size": 2, "seq_len": 16}]}, "must be left out with phases"),
        ({"batch_warmup": [8], "minutes": 2, "batch_warmup_steps": 3}, "batch_warmup_steps must be left out with minutes"),
        ({"batch_warmup": [7], "gradient_accumulation_steps": 2}, "must be a multiple of gradient_accumulation_steps=2; got 7"),
    ],
)
def test_sizes_that_cannot_be_are_errors(settings, said):
    with pytest.raises(ValueError, match=said):
        PretrainSettings(**settings)


def test_batches_may_begin_with_any_example():
    corpus = small_corpus()
    whole, later = (PretrainingBatches(corpus, 4, 16, 4, first_example=first, steps_per_epoch=9) for first in (0, 8))
    for (x, y), (later_x, later_y) in ((whole.batch(0, i + 2), later.batch(0, i)) for i in range(3)):
        for one, other in zip((*x, *y), (*later_x, *later_y), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_run_sees_every_example_once_and_is_resumed_bit_by_bit(monkeypatch, corpus, tmp_path):
    seen, made = [], training_run.SpanOfBatches.batch

    def noting(self, epoch, index):
        data = self._batches
        seen.extend(data._positions(0, self._start + index))
        return made(self, epoch, index)

    monkeypatch.setattr(training_run.SpanOfBatches, "batch", noting)
    whole = small_runs.whole_run(corpus, tmp_path / "run", {**GROWING, "evaluate_steps": 2})
    assert list(dict.fromkeys(seen)) == list(range(2 + 4 + 8 + 8))
    assert [row["phase"] for row in whole[1][1:]] == [0, 1, 2]
    small_runs.check_resumption(whole, corpus, tmp_path / "resumed", {**GROWING, "evaluate_steps": 2})


# Pretraining on rows of several sequences: exact resumption, and a result for rows of one.


PACKED = {**small_runs.FOUR_STEPS, "packing": True}


@pytest.fixture(scope="module")
def packed(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", PACKED)


def test_the_result_takes_rows_of_one_sequence(packed):
    folder, rows, model = packed
    assert [tensor.name for tensor in model.inputs] == ["Input-Token", "Input-Segment", "Input-Masked"]
    loaded = from_pretrained(folder / "model", heads=["mlm"])
    ids = np.array([[1, 7, 8, 9, 2, 0]])
    given = [ids, ids * 0, ids * 0 + 1]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(each(given)) for each in (loaded, model)))
    assert rows[-1]["held_out_mlm_loss"] > 0
    assert rows[-1]["flop_utilisation"] > 0


@pytest.mark.slow(torch=True)
def test_a_stopped_run_ends_with_the_same_bits(packed, corpus, tmp_path):
    small_runs.check_resumption(packed, corpus, tmp_path / "run", PACKED)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_a_stopped_run_on_pairs_ends_with_the_same_bits(next_sentence, corpus, tmp_path):
    settings = {**PACKED, "next_sentence": next_sentence}
    run = small_runs.whole_run(corpus, tmp_path / "packed", settings)
    folder, rows, model = run
    assert rows[-1]["held_out_pair_loss"] > 0
    assert 0 <= rows[-1]["pair_accuracy"] <= 1
    small_runs.check_resumption(run, corpus, tmp_path / "run", settings)
    assert [tensor.name for tensor in model.inputs] == ["Input-Token", "Input-Segment", "Input-Masked"]
    ids = np.array([[1, 7, 8, 2, 9, 2]])
    given = [ids, np.array([[0, 0, 0, 0, 1, 1]]), ids * 0 + 1]
    loaded = from_pretrained(folder / "model", heads=["mlm", next_sentence])
    for found, expected in zip(loaded(given), model(given), strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (found, expected)))


@pytest.mark.slow(torch=True)
def test_a_run_may_start_from_a_checkpoint(packed, corpus, tmp_path):
    folder, _, model = packed
    settings = {name: value for name, value in PACKED.items() if name != "model"}
    changes = {"init": str(folder / "model"), "learning_rate": 1e-30, "weight_decay": 0.0, "steps": 1, "ema": None}
    again = pretrain(corpus, tmp_path / "run", settings, **changes)
    for one, other in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)


@pytest.mark.slow(torch=True)
def test_a_discriminator_learns_from_packed_rows(corpus, tmp_path):
    model = pretrain(corpus, tmp_path / "run", PACKED, objective="electra", steps=2)
    assert [tensor.name for tensor in model.inputs][-1] == "Input-Mask"
    for name in ("model", "generator"):
        assert "Input-Mask" not in [tensor.name for tensor in from_pretrained(tmp_path / "run" / name).inputs]


def test_rows_are_fuller_than_those_of_one_sequence(corpus):
    real = {}
    for packing in (True, False):
        settings = PretrainSettings.from_dict({**PACKED, "packing": packing, "next_sentence": "none", "batch_size": 64})
        batches = training_batches(corpus, settings.all_phases[0], settings)
        real[packing] = sum(batches.work(batches.batch(0, index))[0].sum() for index in range(8))
    assert real[True] > 1.05 * real[False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": [8]}, r"lengths must be left out with packing, whose rows are full; got \[8\]"),
        ({"objective": "xlnet"}, "packing must be left out with objective='xlnet'"),
        ({"packing": 3}, "packing must be one of True, False; got 3"),
    ],
)
def test_settings_that_packing_cannot_have_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainSettings.from_dict({**PACKED, **settings})


def test_a_run_without_packing_has_the_settings_it_had_before():
    assert "packing" not in PretrainSettings().resolved()
    assert PretrainSettings(packing=True).resolved()["packing"] is True
    assert PretrainSettings(packing=True).heads == ("mlm",)
    assert PretrainSettings(packing=True, next_sentence="nsp").heads == ("mlm", "nsp")
