"""Entities are found and counted as in a plain reading of the rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics.entities import STRICT, entities_of, entity_scores, entity_type_scores, strict_entities_of
from keras_bert_rebuild.tasks.tag_schemes import tags_of_entities

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


# For one label, one letter per word: a complete entity, and an entity as far as it goes.
PATTERNS = {"IOB2": "BI*", "IOE2": "I*E", "BIOES": "BI*E|S", "BILOU": "BI*L|U"}


def tags_of(scheme):
    prefixes = [letter for letter in scheme if letter.isalpha() and letter != "O"]
    return ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in "xy")]


@pytest.mark.parametrize("scheme", PATTERNS)
@given(data=st.data())
def test_entities_are_those_of_a_regular_expression(scheme, data):
    tags = data.draw(st.lists(st.sampled_from(tags_of(scheme)), max_size=8))
    expected = []
    for kind in "xy":
        letters = "".join(tag[0] if tag[2:] == kind else "O" for tag in tags)
        expected += [(kind, found.start(), found.end() - 1) for found in re.finditer(PATTERNS[scheme], letters)]
    assert sorted(strict_entities_of(tags, scheme)) == sorted(expected)


@pytest.mark.parametrize(
    ("scheme", "tags", "expected"),
    [
        ("IOB1", "I-x O I-x I-x B-x I-x I-y", [(0, 0), (2, 3), (4, 5), (6, 6)]),
        ("IOB1", "O B-x I-x O", [(2, 2)]),  # a B after O opens nothing
        ("IOB1", "I-x B-y O", [(0, 0)]),
        ("IOE1", "I-x O I-x E-x I-x I-y", [(0, 0), (2, 3), (4, 4), (5, 5)]),
        ("IOE1", "O E-x I-x", [(2, 2)]),  # like seqeval, which requires an I or an E before an E
        ("IOB2", "I-x B-x I-y I-x", [(1, 1)]),
    ],
)
def test_tags_that_break_the_rules_are_no_entity(scheme, tags, expected):
    assert [span[1:] for span in strict_entities_of(tags.split(), scheme)] == expected


@pytest.mark.parametrize("scheme", sorted(STRICT))
@given(lengths=st.lists(st.tuples(st.sampled_from("xyO"), st.integers(1, 3)), max_size=6))
def test_tags_that_follow_the_rules_have_the_same_entities_in_both_modes(scheme, lengths):
    entities, at = [], 0
    for kind, length in lengths:
        if kind != "O":
            entities.append((kind, at, at + length - 1))
        at += length
    tags = tags_of_entities(scheme, entities, at)
    assert entities_of(tags) == entities
    alone = {i for i, tag in enumerate(tags) if tag[0] == "E" and not (i and tags[i - 1] in (tag, f"I{tag[1:]}"))}
    if scheme != "IOE1" or not alone:
        assert strict_entities_of(tags, scheme) == entities


def test_scores_count_entities_that_follow_the_rules():
    true, predicted = [["B-x", "I-x", "O", "B-y"]], [["I-x", "I-x", "O", "B-y"]]
    assert entity_scores(true, predicted)["f1"] == 1
    assert entity_scores(true, predicted, "IOB2")["recall"] == 0.5
    assert entity_scores(true, predicted, "IOB2")["precision"] == 1


def test_other_schemes_and_tags_are_one_sentence():
    with pytest.raises(ValueError, match="scheme must be one of IOB1, IOB2, IOE1, IOE2, BIOES, BILOU; got 'IO'"):
        strict_entities_of(["O"], "IO")
    with pytest.raises(ValueError, match="expected tags of IOB2; got 'E-x'"):
        strict_entities_of(["B-x", "E-x"], "IOB2")
