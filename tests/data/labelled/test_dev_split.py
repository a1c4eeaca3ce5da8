"""Dev examples are a tenth, stratified, and share no text with training."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, Question, ScoredPair, TaggedWords, TextGroup
from keras_bert_rebuild.recipes.finetuning.data_parts import take_dev

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
