"""Entities are counted as in a plain reading of the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics.entities import entities_of, entity_scores, entity_type_scores

tags = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("x", "y"))])
sentences = st.lists(st.lists(st.tuples(tags, tags), max_size=8), min_size=1, max_size=6)


def joined(before, now):
    """Whether two neighbours belong to one entity."""
    return before[0] in "BI" and now[0] in "IE" and before[2:] == now[2:]


def plain_entities(words):
    """Every maximal span of words whose neighbours are joined."""
    found = []
    for start in range(len(words)):
        for end in range(start, len(words)):
            inside = all(tag != "O" for tag in words[start : end + 1])
            whole = all(joined(words[i], words[i + 1]) for i in range(start, end))
            apart = not (start and joined(words[start - 1], words[start])) and not (
                end + 1 < len(words) and joined(words[end], words[end + 1])
            )
            if inside and whole and apart:
                found.append((words[start][2:], start, end))
    return found


@given(st.lists(tags, max_size=10))
def test_entities_are_the_spans_of_joined_words(words):
    assert entities_of(words) == plain_entities(words)


@given(sentences)
def test_scores_are_those_of_the_sets_of_spans(rows):
    true, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    a, b = ({(i, *span) for i, row in enumerate(side) for span in plain_entities(row)} for side in (true, predicted))
    scores = entity_scores(true, predicted)
    assert scores["support"] == len(a)
    assert scores["precision"] == pytest.approx(len(a & b) / len(b) if b else 0)
    assert scores["recall"] == pytest.approx(len(a & b) / len(a) if a else 0)
    precision, recall = scores["precision"], scores["recall"]
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall) if a & b else 0)
    of_types = entity_type_scores(true, predicted)
    assert sum(of_type["support"] for of_type in of_types.values()) == len(a)
    assert of_types.keys() == {span[1] for span in a | b}


def test_words_without_a_tag_and_other_tags_are_errors():
    with pytest.raises(ValueError, match="a tag for each of the 2 words of sentence 1; got 1"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="expected tags B-x, I-x, E-x, S-x or O; got 'NOUN'"):
        entities_of(["NOUN"])
