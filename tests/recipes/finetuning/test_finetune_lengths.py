"""The lengths of a fine-tuning: few where each is compiled, and the same in training and evaluation."""

import keras
import numpy as np
import pytest
from helpers.kernel_checks import compiled_programs
from helpers.small_tasks import TOKENIZER, VOCABULARY, sentence, small_encoder

from keras_bert_rebuild import TextClassifier, TokenClassifier, save_pretrained
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion, ClassifiedText, TaggedWords
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.finetuning.finetune import finetune
from keras_bert_rebuild.recipes.finetuning.finetune_data import LENGTHS, shared_lengths
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks import text_rows
from keras_bert_rebuild.tasks.task import Task


@pytest.fixture
def compiled(monkeypatch):
    """As on JAX and a processor."""
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: True)
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: False)


@pytest.fixture
def task():
    return TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog"))


@pytest.fixture
def encoded(rng, task):
    counts = {"train": 500, "dev": 77}
    texts = {name: [" ".join(["cat"] * words) for words in rng.integers(1, 38, count)] for name, count in counts.items()}
    return {name: task.encode([ClassifiedText(text, label="cat") for text in rows]) for name, rows in texts.items()}


def test_a_short_training_has_fewer_lengths_than_a_long_one(encoded, compiled):
    short = shared_lengths(encoded, FinetuneSettings(epochs=1), 40)
    long = shared_lengths(encoded, FinetuneSettings(epochs=100), 40)
    assert 1 <= len(short) < len(long) == LENGTHS
    assert short[-1] == long[-1] == 40
    steps = FinetuneSettings(steps=100 * 500 // 32, batch_size=32)
    assert shared_lengths(encoded, steps, 40) == long


def test_a_training_on_few_examples_has_few_lengths_too(task, compiled):
    texts = [" ".join(["cat"] * words) for words in range(1, 38)]
    few = {"train": task.encode([ClassifiedText(text, label="cat") for text in texts])}
    assert shared_lengths(few, FinetuneSettings(epochs=1), 40) == [40]
    assert len(shared_lengths(few, FinetuneSettings(epochs=1000), 40)) == LENGTHS


def test_training_and_evaluation_have_at_most_five_shapes(task, encoded, compiled, monkeypatch):
    task.row_lengths = shared_lengths(encoded, FinetuneSettings(epochs=100), 40)
    batches = task.batches(encoded["train"], 32, seed=0, filling=task.ignored_label)
    trained = {batches[index][0][0].shape for index in range(len(batches))}
    assert len(trained) <= 4  # 500 is no multiple of 32
    evaluated, begin = [], text_rows.dispatched
    monkeypatch.setattr(
        text_rows, "dispatched", lambda model, x, *known: evaluated.append(np.shape(x[0])) or begin(model, x, *known)
    )
    answers = task.predict_windows(encoded["dev"].windows, batch_size=32)
    assert len(answers) == 77
    assert set(evaluated) <= trained  # the last batch is filled up


LABELS = ("bad", "good")
CLASSIFIED = [ClassifiedText(sentence(np.random.default_rng(n), 3 + n), label=LABELS[n % 3 == 0]) for n in range(11)]
TAGGED = [TaggedWords(tuple(e.text.split()), tuple(LABELS[len(word) > 3] for word in e.text.split())) for e in CLASSIFIED]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "examples", "class_weights", "settings"),
    [
        (TextClassifier, CLASSIFIED, {"good": 3.0}, {}),
        (TokenClassifier, TAGGED, None, {}),
        (TokenClassifier, TAGGED, None, {"crf": True}),
    ],
    ids=["labels", "tags", "crf"],
)
def test_the_smaller_batch_trains_the_same_when_it_is_filled_up(cls, examples, class_weights, settings):
    losses, weights, rows = [], [], []
    for filling in (None, cls.from_encoder(small_encoder(), TOKENIZER, labels=LABELS, **settings).ignored_label):
        task = cls.from_encoder(small_encoder(), TOKENIZER, labels=LABELS, seed=1, **settings)
        task.row_lengths = [40]
        task.compile(keras.optimizers.SGD(0.1), class_weights=class_weights)
        batches = task.batches(task.encode(examples), 4, seed=0, filling=filling)
        rows.append(sorted(len(batches[index][1]) for index in range(3)))
        losses += task.training_model.fit(batches, epochs=2, shuffle=False, verbose=0).history["loss"]
        weights.append([variable.numpy() for variable in task.training_model.weights])
    assert rows == [[3, 4, 4], [4, 4, 4]]
    np.testing.assert_allclose(losses[:2], losses[2:], rtol=1e-5)
    for smaller, filled in zip(*weights, strict=True):
        np.testing.assert_allclose(filled, smaller, atol=1e-5)


def test_only_a_fine_tuning_fills_up_its_batches_and_only_where_each_shape_is_compiled(monkeypatch, tmp_path):
    rows = {}

    def batches(self, encoded, batch_size, seed, **kwargs):
        made = Task.batches(self, encoded, batch_size, seed, **kwargs)
        rows[is_compiled] = sorted(len(made[index][1]) for index in range(len(made)))
        return made

    save_pretrained(small_encoder(), tmp_path / "model", vocabulary=VOCABULARY)
    monkeypatch.setattr(TextClassifier, "batches", batches)
    for is_compiled in (False, True):
        monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: is_compiled)  # noqa: B023
        settings = {"epochs": 1, "batch_size": 4, "workers": 0, "max_len": 40}
        finetune("classification", tmp_path / "model", CLASSIFIED, CLASSIFIED, tmp_path / str(is_compiled), settings)
    assert rows == {False: [3, 4, 4], True: [4, 4, 4]}
    monkeypatch.undo()
    task = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=LABELS)
    plain = task.batches(task.encode(CLASSIFIED), 4, seed=0)
    assert min(label for index in range(3) for label in plain[index][1]) == 0


MULTI = [ClassifiedText(each.text, label=(each.label,)) for each in CLASSIFIED]
CHOICES = [ChoiceQuestion(each.text, ("the cat", "the dog sat"), number % 2) for number, each in enumerate(CLASSIFIED)]


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
@pytest.mark.parametrize(
    ("task", "examples", "steps"),
    [("classification", CLASSIFIED, 1), ("multi_label", MULTI, 2), ("multiple_choice", CHOICES, 2)],  # the last batch is smaller
)
def test_an_accelerator_compiles_steps_and_predictions_side_by_side_and_none_twice(task, examples, steps, monkeypatch, tmp_path):
    save_pretrained(small_encoder(), tmp_path / "model", vocabulary=VOCABULARY)
    settings = {"epochs": 2, "batch_size": 4, "workers": 2, "max_len": 40}
    names, weights = [], []
    for is_accelerator, thread in ((False, "MainThread"), (True, "compile-ahead")):
        monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)  # noqa: B023
        with compiled_programs() as programs:
            done = finetune(task, tmp_path / "model", examples, examples, tmp_path / thread, settings)
        of_model = [program for program in programs if program[0] in ("jit(answer)", "jit(train_step)")]
        assert {thread for _, thread in of_model} == {thread}
        names.append(sorted(name for name, _ in of_model))
        weights.append([weight.numpy() for weight in done.task.model.weights])
    assert names[0] == names[1]
    assert names[0].count("jit(train_step)") == steps
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_backend_has_the_usual_lengths(encoded, monkeypatch):
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: False)
    assert shared_lengths(encoded, FinetuneSettings(), 40) == [16, 24, 32, 40]
