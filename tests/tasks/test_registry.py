"""A task is one file: the task defined here is fine-tuned, saved, loaded and used like the others."""

import csv
import json
from dataclasses import dataclass, field
from typing import ClassVar

import keras
import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import SentenceEmbedder, finetune, load_task, predict, save_pretrained
from keras_bert_rebuild.data.labelled.example_kinds import Kind
from keras_bert_rebuild.data.labelled.labelled_examples import Example, ScoredPair
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks import registry
from keras_bert_rebuild.tasks.objectives import OBJECTIVES, Cosine
from keras_bert_rebuild.tasks.registry import finetune_task, register_task, setting_types, task_class, task_kinds, task_names
from keras_bert_rebuild.tasks.task import Task
from keras_bert_rebuild.tasks.text_rows import Encoded, weighted_mean

QUICK = {"batch_size": 4, "jit_compile": keras.config.backend() == "jax", "max_len": 16}


@dataclass(frozen=True)
class CountedText(Example):
    """A text and its number of words."""

    target: ClassVar = "count"
    text: str
    count: float | None = None
    where: str = field(default="", compare=False, metadata={"shown": False})


def counted_text(parts, where):
    return CountedText(parts["text"], None if parts.get("count") is None else float(parts["count"]), where)


class WordCount(Task):
    """The number of words of a text."""

    kind = "word_count"
    heads = ("classification",)
    examples = Kind("counted", {"text": ("text",), "count": ("count",)}, ("text",), "count", {1: ("text",)}, counted_text)
    metrics = ("mean_absolute_error",)
    lower_is_better = metrics

    @classmethod
    def settings_for(cls, examples, options, **settings):
        return {"labels": ["count"]}

    def encode(self, examples):
        windows = self.windows([one.text for one in examples])
        counts = [one.count for one in examples]
        return Encoded(windows, None if None in counts else np.array(counts, "float32")[windows.examples, None])

    def loss(self):
        return keras.losses.MeanSquaredError()

    def predict_examples(self, examples, batch_size=32, progress=None):
        windows = self.encode(examples).windows
        return weighted_mean(self.predict_windows(windows, batch_size, progress), windows)[:, 0].tolist()

    def scores(self, examples, answers):
        return {"mean_absolute_error": float(np.mean([abs(one.count - said) for one, said in zip(examples, answers, strict=True)]))}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "model"
    save_pretrained(small_encoder(), folder, vocabulary=list(TOKENIZER.vocabulary))
    return folder


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    return register_task(WordCount)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_custom_task_is_trained_evaluated_and_used(encoder, tmp_path):
    texts = ["the cat", "the dog sat on the mat", "anna", "ben likes the red cat"]
    (tmp_path / "train.tsv").write_text("text\tcount\n" + "".join(f"{text}\t{len(text.split())}\n" for text in texts))
    (tmp_path / "new.txt").write_text("the dog\nanna and ben sat\n")
    given = {"steps": 30, "learning_rate": 3e-2, "evaluate_steps": 10, **QUICK}
    done = finetune("word-count", encoder, tmp_path / "train.tsv", tmp_path / "train.tsv", tmp_path / "run", given)
    assert done.report["task"] == "word_count"
    assert done.report["metric"] == "mean_absolute_error"
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        curve = [float(row["dev_mean_absolute_error"]) for row in csv.DictReader(file) if row["dev_mean_absolute_error"]]
    assert len(curve) == 3
    assert done.scores["mean_absolute_error"] == pytest.approx(min(curve), rel=1e-3)
    assert min(curve) < 2
    assert "| mean_absolute_error |" in (tmp_path / "run" / "report.md").read_text()
    again = load_task(tmp_path / "run" / "model")
    assert type(again) is WordCount
    assert predict(tmp_path / "run" / "model", tmp_path / "new.txt", tmp_path / "out.jsonl") is None
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["the dog", "anna and ben sat"]
    assert [row["answer"] for row in rows] == pytest.approx(done.task.predict_examples([CountedText(row["text"]) for row in rows]))
    scores = predict(done.task, tmp_path / "train.tsv", tmp_path / "out.tsv", "word_count")
    assert scores == pytest.approx(done.scores, abs=1e-4)
    with pytest.raises(ValueError, match="expected a model for regression; got one for word_count"):
        predict(done.task, tmp_path / "new.txt", tmp_path / "other.jsonl", "regression")


@pytest.mark.usefixtures("registered")
def test_its_name_is_listed_with_the_others():
    assert task_kinds()[-1] == task_names()[-1] == "word_count"
    assert finetune_task("word-count").task_class is WordCount
    with pytest.raises(ValueError, match="sparse_retrieval, word_count; got 'word_cont'; did you mean word_count"):
        finetune_task("word_cont")
    assert register_task(WordCount) is WordCount  # registering it again is no error


class LimitedCount(WordCount):
    """Counts up to a limit, a setting."""

    kind = "limited_count"

    def __init__(self, model, tokenizer=None, *, limit: int = 9, verbose: bool = False, max_len=None, stride=None) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        self.limit = limit


@pytest.mark.usefixtures("registered")
def test_the_settings_of_a_custom_task_are_the_keywords_of_its_constructor(tmp_path):
    register_task(LimitedCount)
    task = LimitedCount.from_encoder(small_encoder(), TOKENIZER, labels=["count"], limit=5, max_len=16)
    assert task.settings() == {"max_len": 16, "stride": 4, "limit": 5}  # `verbose` is no attribute
    task.save(tmp_path / "task")
    assert load_task(tmp_path / "task").limit == 5
    (tmp_path / "task" / "task.json").write_text('{"task": "limited_count", "limit": "many"}')
    with pytest.raises(ValueError, match="must have a whole number as limit; got 'many'"):
        load_task(tmp_path / "task")


@pytest.mark.parametrize("kind", registry._BUILT_IN)
def test_every_setting_of_a_task_is_saved_or_said_not_to_be(kind):
    cls = task_class(kind)
    given = {"labels": ["O", "B-x"]} if kind.endswith("classification") else {}
    task = small_task(cls, **given, **({"example_kind": "retrieval"} if kind == "embedding" else {}))
    assert task.settings().keys() == setting_types(cls).keys() - {*task.unsaved}


@pytest.mark.parametrize("kind", ["regression", "embedding", "word_count"])
def test_the_name_of_another_task_is_refused(registered, kind):
    other = type("Other", (WordCount,), {"kind": kind})
    with pytest.raises(ValueError, match=f"the kind and names of a task must be unique; '{kind}' of Other belongs to another task"):
        register_task(other)
    assert task_names()[-1] == "word_count"


def test_the_table_of_tasks_agrees_with_their_classes():
    for kind, (_, name, words) in registry._BUILT_IN.items():
        cls = task_class(kind)
        assert (cls.kind, cls.__name__, tuple(word.name for word in cls.words())) == (kind, name, words)
        for word in cls.words():
            assert word.metrics
            assert {*word.options} <= FinetuneSettings().resolved().keys()


class SquaredCosine(Cosine):
    """A custom objective: cosines that are the squares of the scores."""

    def target(self, score, where):
        return super().target(score, where) ** 2


@pytest.mark.slow
def test_an_objective_may_be_an_object_everywhere(monkeypatch, encoder, tmp_path):
    monkeypatch.setitem(OBJECTIVES, "squared", SquaredCosine)
    pairs = [ScoredPair("the cat", "a cat", 4.0), ScoredPair("the dog", "red", 0.0), ScoredPair("a dog", "a cat", 2.0)]
    done = finetune("similarity", encoder, pairs, pairs, tmp_path / "run", objective="squared", epochs=1, **QUICK)
    assert done.task.encode(pairs).targets.tolist() == [1.0, 0.0, 0.25]
    assert load_task(tmp_path / "run" / "model").objective == "squared"
    with pytest.raises(ValueError, match="objective must be cosine or in_batch_negatives or cosent or squared for similarity"):
        SentenceEmbedder.from_encoder(encoder, objective="other")
    with pytest.raises(ValueError, match=r"objective must be one of 'cosine'.*'squared'.*, None; got 'other'"):
        FinetuneSettings(objective="other")
