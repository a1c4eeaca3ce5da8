"""The parts of a fine-tuning's data: splits, a dev set taken from training, what is said of them, and texts in both."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    ScoredPair,
    TaggedText,
    TaggedWords,
    TextGroup,
)
from keras_bert_rebuild.recipes.finetuning.data_parts import read_data, take_dev
from keras_bert_rebuild.recipes.finetuning.finetune_data import count_in_training
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks.registry import finetune_task

LABELS = st.sampled_from("abc")


@given(st.lists(st.tuples(st.integers(0, 60), LABELS), min_size=20, max_size=200), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_no_text_is_in_both_and_every_label_stays_in_training(rows, seed):
    examples = [ClassifiedText(f"Text {number}", label=label) for number, label in rows]
    if len({example.text for example in examples}) < 12:
        return
    train, dev = take_dev(examples, seed)
    assert not {one.text for one in train} & {one.text for one in dev}
    assert Counter(train) + Counter(dev) == Counter(examples)
    assert {one.label for one in train} == {one.label for one in examples}
    assert (train, dev) == take_dev(examples, seed)


@pytest.mark.parametrize(("many", "few"), [(900, 100), (500, 500), (990, 10)])
def test_every_label_has_its_tenth(many, few):
    examples = [ClassifiedText(str(i), label="many" if i < many else "few") for i in range(many + few)]
    counts = Counter(one.label for one in take_dev(examples)[1])
    assert abs(counts["many"] - many / 10) <= 1
    assert abs(counts["few"] - few / 10) <= 1


def test_scores_have_their_tenth_in_every_range():
    dev = take_dev([ScoredPair(str(i), "b", i % 100 / 20) for i in range(1000)])[1]
    assert all(abs(sum(low <= one.score < low + 1 for one in dev) - 20) <= 1 for low in range(5))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: Question(str(i), f"question {i}", f"context {i // 4}", ((0, "c"),)),
        lambda i: TextGroup(f"query {i // 4}", f"positive {i}"),
        lambda i: TaggedWords((f"word {i // 4}",), ("O",)),
        lambda i: ClassifiedText("  Text" if i % 2 else "text ", label="x") if i < 8 else ClassifiedText(str(i), label="x"),
    ],
)
def test_what_has_one_text_stays_together(make):
    train, dev = take_dev([make(i) for i in range(80)])
    assert len(dev) == 8
    assert not {one.split_text().strip().lower() for one in train} & {one.split_text().strip().lower() for one in dev}


@pytest.mark.parametrize("texts", [["a"], ["a"] * 50, ["a", "b"]])
def test_what_cannot_be_split_is_one_sentence(texts):
    with pytest.raises(ValueError, match=rf"a tenth can be taken as dev; got {len(texts)}: give dev as well"):
        take_dev([ClassifiedText(text, label=f"{i}") for i, text in enumerate(texts)])


@pytest.mark.parametrize(
    ("example", "same", "other"),
    [
        (ClassifiedText("a", label="x"), {"label": "y", "where": "line 2"}, {"text": "b"}),
        (ClassifiedText("a", "b", label="x"), {"label": None}, {"pair": None}),
        (TaggedWords(("a", "b"), ("O", "O")), {"words": ["a", "b"], "tags": None}, {"words": ("b", "a")}),
        (TaggedText("a b", ((0, 1, "x"),)), {"spans": ()}, {"text": "b a"}),
        (Question("1", "who", "a and b", ((0, "a"),)), {"id": "2", "answers": ()}, {"context": "b and a"}),
        (ChoiceQuestion("who", ("a", "b"), 0), {"label": 1}, {"choices": ("b", "a")}),
        (ScoredPair("a", "b", 0.5), {"score": None}, {"second": "a"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_an_example_is_in_training_if_its_model_inputs_are_the_same(example, same, other):
    train = [example, replace(example, **other)]
    assert count_in_training([replace(example, **same)] * 3 + [replace(train[1], **same)], train) == 4
    assert count_in_training([example, replace(example, **other)], [example]) == 1
    assert count_in_training([example], []) == 0


class Split:
    """A split of a dataset."""

    def __init__(self, count, label="x"):
        self.column_names, self.count, self.label = ["sentence", "label"], count, label

    def to_dict(self):
        labels = [self.label if self.label is None or i % 2 else "y" for i in range(self.count)]
        return {"sentence": [f"text {i}" for i in range(self.count)], "label": labels}


def read(train, dev=None, test=None, **settings):
    return read_data(train, dev, test, finetune_task("classification"), FinetuneSettings(**settings))


def test_the_splits_of_a_dataset_are_found_and_a_test_set_without_labels_is_left_out():
    data = read({"train": Split(6), "validation": Split(3), "test": Split(4)})
    assert data.line == "train 6, dev 3, test 4; text = sentence, label = label; 2 labels: x, y"
    assert data.sources == {"train": "6 examples", "dev": "3 examples", "test": "4 examples"}
    assert list(read({"train": Split(6), "valid": Split(3), "test": Split(4, None)}).examples) == ["train", "dev"]
    assert len(read({"train": Split(6), "valid": Split(3)}, dev=[("a", "x")]).examples["dev"]) == 1
    with pytest.raises(ValueError, match=r"expected a split named train; train has validation, test\."):
        read({"validation": Split(3), "test": Split(4)})


def test_without_dev_a_tenth_is_taken_and_reported():
    rows = [(f"text {i}", str(i % 20)) for i in range(400)]
    data = read(rows, seed=3)
    assert data.line.startswith("train 360, dev 40 (a tenth of train, stratified, equal texts together); text = column 1, label")
    assert data.line.endswith("; 20 labels: 0, 1, 10, 11, 12, 13, 14, 15 and 12 more")
    assert data.sources["dev"] == "a tenth of train"
    assert data == read(rows, seed=3) != read(rows, seed=4)
    assert count_in_training(data.examples["dev"], data.examples["train"]) == 0
