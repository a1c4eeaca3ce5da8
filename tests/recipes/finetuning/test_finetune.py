"""A fine-tuning turns files into a task, retains the best weights, and refuses impossible settings before it writes."""

import csv
import json
import os
import re

import keras
import numpy as np
import pytest
import yaml
from helpers.reference import cross_entropy
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import finetune, load_task, predict, save_pretrained
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion, ClassifiedText, Question, ScoredPair, TaggedWords
from keras_bert_rebuild.recipes.finetuning import finetune_callback
from keras_bert_rebuild.recipes.finetuning.finetune import adapt, compile_task, make_task
from keras_bert_rebuild.recipes.finetuning.finetune_callback import Evaluation, chosen_metric, evaluate_task, is_better
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks.registry import finetune_task

# XLA takes longer to compile such a step than TensorFlow to run it.
QUICK = {"batch_size": 4, "jit_compile": keras.config.backend() == "jax", "max_len": 16}
ROWS = [
    f"the {pet} {verb} the {place}\t{pet}"
    for pet in ("cat", "dog")
    for verb in ("likes", "sat on")
    for place in ("mat", "paris", "london")
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "model"
    save_pretrained(small_encoder(), folder, vocabulary=list(TOKENIZER.vocabulary))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "train.tsv").write_text("\n".join(ROWS))
    (folder / "dev.tsv").write_text("\n".join(ROWS[::5]))
    return folder


@pytest.fixture(scope="module")
def run(encoder, files, tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("runs") / "run", []
    given = {"epochs": 12, "learning_rate": 1e-2, "log_steps": 2, "class_weights": "balanced", "layer_decay": 0.98}
    train, dev = files / "train.tsv", files / "dev.tsv"
    done = finetune("classification", encoder, train, dev, folder, given, test=train, report=rows.append, **QUICK)
    return folder, rows, done


def test_a_run_learns_and_leaves_model_curve_report_and_picture(run):
    folder, rows, done = run
    names = ["confusion.svg", "metrics.csv", "model", "report.json", "report.md", "settings.yaml", "versions.yaml"]
    assert sorted(os.listdir(folder)) == names
    assert done.test_scores["accuracy"] == 1
    assert done.task(["the dog sat on the mat"])[0].label == "dog"
    report = json.loads((folder / "report.json").read_text())
    assert report["confusion"] == [[6, 0], [0, 6]]
    assert report["classes"]["cat"] == {"precision": 1, "recall": 1, "f1": 1, "support": 6}
    assert report["examples"] == {"train": 12, "dev": 3, "test": 12}
    assert report["in_train"]["test"] == 12
    assert rows[0] == {
        "step": 0,
        "steps": 36,
        "data": "train 12, dev 3, test 12; text = column 1, label = column 2; 2 labels: cat, dog",
    }
    assert "| accuracy | 1.0000 | 1.0000 |" in (folder / "report.md").read_text()
    assert (folder / "confusion.svg").read_text().count("<rect") == 4


def test_the_curve_has_the_mean_loss_since_the_last_row_and_the_scores(run):
    with (run[0] / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in table]
    assert steps == sorted({*range(2, 37, 2), *range(3, 37, 3)})
    assert [bool(row["dev_accuracy"]) for row in table] == [int(row["step"]) % 3 == 0 for row in table]
    losses = [float(row["loss"]) for row in table]
    assert losses[-1] < 0.2 < 0.6 < losses[0]
    rates = [float(row["learning_rate"]) for row in table]
    # A tenth of all steps, 3, have a rising rate, from 0 in the first step; the final 0 comes after the last step.
    np.testing.assert_allclose(rates, [1e-2 * min((n - 1) / 3, (37 - n) / 33) for n in steps], rtol=1e-5)


def test_a_row_of_the_curve_is_the_mean_over_the_labels_since_the_last_row(encoder, tmp_path, rng):
    words, rows = ["the", "cat", "dog", "mat", "paris"], []
    lengths = [1, 9, 2, 11, 1, 3, 12, 1, 5, 1]
    examples = [TaggedWords(tuple(rng.choice(words, n)), tuple(rng.choice(["O", "x"], n))) for n in lengths]
    weights = {"O": 1.0, "x": 3.0}
    still = {"learning_rate": 1e-12, "dropout": 0.0, "epochs": 2, "log_steps": 2, "class_weights": weights, "metric": "f1"}
    given = (encoder, examples, examples[:4], tmp_path / "run")
    done = finetune("token_classification", *given, still, report=rows.append, **{**QUICK, "batch_size": 2})
    batches = done.task.batches(done.task.encode(examples), 2, seed=FinetuneSettings().seed)
    sums = []  # the loss of a batch and the sum of the weights of its labels
    for epoch in (0, 1):
        for index in range(len(batches)):
            x, labels = batches.batch(epoch, index)
            known = np.maximum(labels, 0)
            counts = np.where(labels >= 0, np.array([weights[label] for label in done.task.labels])[known], 0)
            losses = cross_entropy(done.task.model.predict_on_batch(x), known)
            sums.append([(losses * counts).sum(), counts.sum()])
    rows = [row for row in rows if "loss" in row]
    assert [row["step"] for row in rows] == [2, 4, 5, 6, 8, 10]
    parts = [np.sum(part, axis=0) for part in np.split(np.array(sums), [2, 4, 5, 6, 8])]
    assert [row["loss"] for row in rows] == pytest.approx([total / count for total, count in parts], rel=1e-5)


def test_tags_are_learned_in_their_scheme_with_a_random_field_and_measured_as_entities(encoder, tmp_path):
    rows = [
        ("anna likes london", "I-per O I-loc"),
        ("ben anna likes red paris", "I-per B-per O I-loc I-loc"),
        ("the cat sat in london paris", "O O O O I-loc B-loc"),
    ]
    examples = [TaggedWords(tuple(words.split()), tuple(tags.split())) for words, tags in rows]
    settings = {"epochs": 40, "learning_rate": 1e-2, "crf": True, **QUICK}
    done = finetune("token_classification", encoder, examples, examples, tmp_path / "run", settings)
    again = load_task(tmp_path / "run" / "model")
    assert again.scheme == done.task.scheme == "IOB1"
    assert [tuple(answer.tags) for answer in again.predict_examples(examples)] == [example.tags for example in examples]
    assert np.abs(again.crf.transitions).max() > 0.1
    assert done.scores["f1"] == 1
    assert {name: row["support"] for name, row in done.report["classes"].items()} == {"loc": 4, "per": 3}
    assert done.report["labels"] == ["loc", "per", "O"]


def test_the_folder_gives_the_answers_of_the_task(run, tmp_path):
    folder, _, done = run
    (tmp_path / "in.tsv").write_text("text\tlabel\nthe cat likes the mat\tcat\nthe dog\t\n")
    assert predict(folder / "model", tmp_path / "in.tsv", tmp_path / "out.jsonl") is None
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    answers = done.task(["the cat likes the mat", "the dog"])
    assert [row["label"] for row in rows] == [answer.label for answer in answers]
    np.testing.assert_allclose([row["probability"] for row in rows], [answer.probability for answer in answers], atol=1e-5)
    (tmp_path / "in.tsv").write_text("the cat likes the mat\tcat\n")
    assert predict(folder / "model", tmp_path / "in.tsv", tmp_path / "out.tsv", "classification")["accuracy"] == 1
    assert (tmp_path / "out.tsv").read_text().splitlines()[0] == "text\tlabel\tprobability"


def test_the_best_weights_are_saved_and_training_stops_without_improvement(monkeypatch, encoder, files, tmp_path):
    scores, weights = iter([0.2, 0.9, float("nan"), 0.9, 0.95]), []

    def evaluated(task, examples, *args, **kwargs):
        weights.append(task.model.get_weights())
        return Evaluation({"accuracy": next(scores), "macro_f1": 0.0}, evaluate_task(task, examples, 4).answers)

    monkeypatch.setattr(finetune_callback, "evaluate_task", evaluated)
    given = {"epochs": 9, "patience": 2, "learning_rate": 1e-2, **QUICK}
    done = finetune("classification", encoder, files / "train.tsv", files / "dev.tsv", tmp_path / "run", given)
    assert len(weights) == 4
    assert done.report["best_step"] == 6
    assert done.report["steps"] == 12
    for kept, best in zip(done.task.model.get_weights(), weights[1], strict=True):
        np.testing.assert_allclose(kept, best, atol=1e-7)


TASKS = {
    "multi_label": [
        ClassifiedText("the cat", label=("a", "b")),
        ClassifiedText("the dog", label=()),
        ClassifiedText("red", label=("b",)),
    ],
    "regression": [ClassifiedText("the cat", "red", 1.0), ClassifiedText("dog", "blue", 3.0), ClassifiedText("mat", "and", 2.5)],
    "token_classification": [TaggedWords(("anna", "sat"), ("B-x", "O")), TaggedWords(("in", "london", "a"), ("O", "B-y", "I-y"))],
    "question_answering": [
        Question("1", "who sat", "anna sat on the mat", ((0, "anna"),)),
        Question("2", "where", "ben likes london", ((10, "london"),)),
        Question("3", "who", "the red mat", ()),
    ],
    "similarity": [ScoredPair("cat", "the cat", 4.0), ScoredPair("dog", "london", 1.0), ScoredPair("a cat", "red", 0.5)],
    "multiple_choice": [ChoiceQuestion("the cat", ("sat", "red"), 0), ChoiceQuestion("anna", ("mat", "likes ben"), 1)],
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_created_for_its_examples_and_evaluated(name, encoder):
    spec, settings = finetune_task(name), FinetuneSettings(max_len=16)
    task = make_task(spec, encoder, TASKS[name], settings)
    task.encode(TASKS[name])
    evaluation = evaluate_task(task, TASKS[name], 4, choose_threshold=True)
    assert chosen_metric(spec, evaluation.scores) in spec.metrics
    for example, answer in zip(TASKS[name], evaluation.answers, strict=True):
        assert json.dumps(task.row(example, answer))


@pytest.mark.parametrize("name", ["question_answering", "similarity"])
def test_tasks_with_their_own_rows_are_trained_saved_and_evaluated(name, encoder, tmp_path):
    examples = TASKS[name]
    done = finetune(name.replace("_", "-"), encoder, examples, examples, tmp_path / "run", epochs=1, **QUICK)
    again = evaluate_task(load_task(tmp_path / "run" / "model"), examples, 4)
    for metric, value in done.scores.items():
        assert again.scores[metric] == pytest.approx(value, abs=1e-4, nan_ok=True), metric
    assert done.report["metric"] in done.scores


def test_adapters_are_saved_separately_and_frozen_weights_stay(encoder, files, tmp_path):
    train = files / "train.tsv"
    done = finetune("classification", encoder, train, train, tmp_path / "a", lora_rank=2, steps=2, learning_rate=1e-2, **QUICK)
    assert (tmp_path / "a" / "adapters.safetensors").stat().st_size < 20_000
    answers = load_task(tmp_path / "a" / "model")(["the cat"])[0].probabilities
    assert done.task(["the cat"])[0].probabilities == pytest.approx(answers, abs=1e-5)
    frozen = finetune(
        "classification", encoder, train, train, tmp_path / "b", freeze=["^Embedding-", "^Encoder-"], steps=2, **QUICK
    )
    table = frozen.task.model.get_layer("Embedding-Token").embeddings
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(table), keras.ops.convert_to_numpy(small_encoder().get_layer("Embedding-Token").embeddings)
    )


HEADS = {
    "regression": "Classification",
    "token_classification": "Token-Classification",
    "question_answering": "Question-Answering",
    "multiple_choice": "Multiple-Choice",
}


def rates_of(encoder, name, **changes):
    """The learning rate factor of every trained variable, by path."""
    settings = FinetuneSettings(max_len=16, **changes)
    task = make_task(finetune_task(name), encoder, TASKS[name], settings)
    adapt(task.model, settings)
    compile_task(task, settings, 1e-3)
    model = task.training_model
    return {variable.path: model.optimizer.rate_multiplier(variable) for variable in model.trainable_variables}


@pytest.mark.parametrize(("name", "head"), HEADS.items())
def test_the_head_has_its_given_rate_and_otherwise_that_of_the_model(name, head, encoder):
    assert FinetuneSettings().head_rate == 1
    assert set(rates_of(encoder, name).values()) == {1.0}
    rates = rates_of(encoder, name, head_rate=10)
    assert {path: rate for path, rate in rates.items() if rate != 1} == {f"{head}/kernel": 10.0, f"{head}/bias": 10.0}


def test_the_rates_of_head_and_layers_can_be_combined(encoder):
    rates = rates_of(encoder, "regression", head_rate=4, layer_decay=0.5)
    expected = {"Classification": 4.0, "NSP-Dense": 1.0, "Encoder-2": 1.0, "Encoder-1": 0.5, "Embedding": 0.25}
    for path, rate in rates.items():
        assert rate == next(factor for part, factor in expected.items() if path.startswith(part)), path


def test_a_rate_for_frozen_weights_is_no_error(encoder):
    assert set(rates_of(encoder, "regression", head_rate=4, freeze=["^Classification"]).values()) == {1.0}
    assert set(rates_of(encoder, "similarity", head_rate=4).values()) == {1.0}
    assert set(rates_of(encoder, "regression", layer_decay=0.5, freeze=["^Embedding-", "^Encoder-"]).values()) == {1.0}


WRONG = [
    ("classification", {}, "a\tcat\nb\tcat\n", "", "at least two labels; all 2 of .*train.tsv have 'cat'"),
    ("token_classification", {"format": "conll"}, "a O\nb O\n", "", "at least two labels; all 1 of .*train.tsv have 'O'"),
    ("classification", {}, "", "the\tmouse\n", r"a label must be one of cat, dog; .*dev\.tsv, line 1 has 'mouse'"),
    (
        "classification",
        {"class_weights": {"mouse": 2}},
        "",
        "",
        "class_weights must be for labels of the examples, cat, dog; got mouse",
    ),
    ("classification", {"freeze": ["nothing"]}, "", "", "'nothing' matches none"),
    ("regression", {}, "", "", r"expected a number as score; got 'cat' in .*train\.tsv, line 1"),
    ("regression", {"class_weights": "balanced"}, "a\t1\nb\t2\n", "b\t2\n", "class_weights must be for a classification"),
    ("clasification", {}, "", "", "did you mean classification"),
    ("classification", {"learning_rat": 1}, "", "", "got learning_rat; did you mean learning_rate"),
    ("classification", {"learning_rate": 0}, "", "", "learning_rate must be a number above 0; got 0"),
    ("classification", {"metric": "fame"}, "", "", "metric must be one of accuracy, macro_f1, matthews; got 'fame'"),
    ("classification", {"max_len": 99}, "", "", "max_len must be from 8 to 40"),
    ("classification", {"log_to": "paper"}, "", "", "log_to must be one of 'tensorboard', 'mlflow', 'wandb', None; got 'paper'"),
]


@pytest.mark.parametrize(("task", "changes", "train", "dev", "message"), WRONG)
def test_impossible_settings_are_reported_before_anything_is_written(encoder, tmp_path, task, changes, train, dev, message):
    (tmp_path / "train.tsv").write_text(train or "\n".join(ROWS))
    (tmp_path / "dev.tsv").write_text(dev or "\n".join(ROWS))
    with pytest.raises(ValueError, match=message):
        finetune(task, encoder, tmp_path / "train.tsv", tmp_path / "dev.tsv", tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_rows_without_dev_are_trained_on_in_one_line_with_callbacks_and_answered_in_their_form(encoder, tmp_path, capsys):
    rows = [dict(zip(("text", "label"), row.split("\t"), strict=True)) for row in ROWS]

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    done = finetune("classification", encoder, rows, output=tmp_path / "run", callbacks=[Stop()], epochs=3, **QUICK)
    note = "train 11, dev 1 (a tenth of train, stratified, equal texts together); text = text, label = label; 2 labels: cat, dog"
    assert capsys.readouterr().out == f"data     {note}\n"
    assert done.report["data"] == note
    assert done.report["steps"] == done.report["best_step"] == 1
    columns = {"id": [3, 1], "note": ["a", None], "text": ["the cat", "the dog"]}
    answers = predict(done.task, columns)
    assert list(answers) == ["id", "note", "text", "label", "probability", "probabilities"]
    assert (answers["id"], answers["note"]) == (columns["id"], columns["note"])
    assert answers["label"] == [answer.label for answer in done.task(columns["text"])]
    with pytest.raises(ValueError, match=r"a label must be one of cat, dog; input\[0\] has 'mouse'"):
        predict(done.task, [("the cat", "mouse")], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_list_without_examples_is_refused_before_anything_is_written(encoder, tmp_path):
    with pytest.raises(ValueError, match="expected at least one example; dev has none"):
        finetune("similarity", encoder, TASKS["similarity"], [], tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_another_run_in_the_folder_is_not_changed(run, encoder, files):
    folder = run[0]
    with pytest.raises(ValueError, match="holds a run with other settings: epochs was 12 and is 3"):
        finetune("classification", encoder, files / "train.tsv", files / "dev.tsv", folder, test=files / "train.tsv", **QUICK)
    assert load_task(folder / "model")


def test_scores_are_compared_in_the_right_direction():
    assert is_better("accuracy", 0.5, None)
    assert is_better("accuracy", 0.5, 0.4)
    assert not is_better("accuracy", 0.5, 0.5)
    assert not is_better("accuracy", float("nan"), 0.1)
    assert is_better("spearman", 0.1, float("nan"))
    assert is_better("mean_squared_error", 0.4, 0.5)


def test_settings_are_the_same_from_a_file_and_from_python():
    settings = FinetuneSettings(learning_rate=2e-5, freeze=("^Embedding-",), class_weights={"a": 2})
    file = yaml.safe_load("learning_rate: 2e-5\nfreeze: ['^Embedding-']\nclass_weights: {a: 2}\n")
    assert FinetuneSettings.from_dict(file) == settings
    assert yaml.safe_load(yaml.safe_dump(settings.resolved())) == settings.resolved()


def test_tuples_and_numpy_numbers_round_trip_through_the_settings_file():
    resolved = FinetuneSettings(columns={"choices": ("u", "v")}, epochs=np.int64(2), learning_rate=np.float64(2e-5)).resolved()
    assert resolved["columns"] == {"choices": ["u", "v"]}
    assert yaml.safe_load(yaml.safe_dump(resolved)) == resolved


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1; got 0."),
        ({"head_rate": 0}, "head_rate must be a number above 0; got 0."),
        ({"warmup": 2}, "warmup must be a number from 0 to 1; got 2."),
        ({"dtype": "int8"}, "dtype must be one of 'float32', 'mixed_bfloat16'; got 'int8'."),
        ({"freeze": "^Embedding"}, "freeze must be a list of regular expressions; got '^Embedding'."),
        ({"class_weights": {"a": -1}}, "class_weights must be numbers above 0; got {'a': -1}."),
        ({"class_weights": "heavy"}, "class_weights must be weights by label, or 'balanced'; got 'heavy'."),
        ({"columns": "text"}, "columns must be names or numbers by part; got 'text'."),
    ],
)
def test_invalid_settings_are_an_error(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        FinetuneSettings.of(given)
