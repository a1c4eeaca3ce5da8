"""Checks of examples before a model is trained on them."""

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
from keras_bert_rebuild.recipes.finetuning.finetune_data import count_in_training


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
