"""The examples of a fine-tuning: their splits, what is said of them, and checks before a model is trained on them."""

from dataclasses import replace

import pytest

from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    ScoredPair,
    TaggedText,
    TaggedWords,
)
from keras_bert_rebuild.recipes.finetuning.data_parts import read_data
from keras_bert_rebuild.recipes.finetuning.finetune_data import count_in_training
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks.registry import finetune_task


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
