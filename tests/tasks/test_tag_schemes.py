"""Tag schemes, and the entities of their tags, against a plain reading of how each tags the words of an entity."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics.entities import canonical, entities_of, entity_scores, notation_of
from keras_bert_rebuild.tasks.metrics.entities import written as label_of
from keras_bert_rebuild.tasks.tag_schemes import (
    SCHEMES,
    best_tags,
    check_scheme,
    in_scheme,
    is_legal,
    nearest_tag,
    recognised,
    spans_of_tags,
    tags_for,
    tags_of_spans,
)
from keras_bert_rebuild.tasks.tag_schemes import tags_of_entities as written

ENDS = {"BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES", "BMEWO": "BMEW"}


def plain_tags(scheme, entities, count):
    """The tags of entities, scheme by scheme."""
    tags = ["O"] * count
    for kind, first, last in entities:
        touches_before = any(other == kind and end == first - 1 for other, _, end in entities)
        touches_behind = any(other == kind and start == last + 1 for other, start, _ in entities)
        for i in range(first, last + 1):
            if scheme == "IO":
                prefix = "I"
            elif scheme == "IOB2":
                prefix = "B" if i == first else "I"
            elif scheme == "IOB1":
                prefix = "B" if i == first and touches_before else "I"
            elif scheme == "IOE2":
                prefix = "E" if i == last else "I"
            elif scheme == "IOE1":
                prefix = "E" if i == last and touches_behind else "I"
            else:
                begin, inside, end, single = ENDS[scheme]
                prefix = begin if i == first else end if i == last else inside
                prefix = single if first == last else prefix
            tags[i] = f"{prefix}-{kind}"
    return tags


def structures(count, first=0):
    """All ways to place entities of a and b in `count` words."""
    if first >= count:
        yield []
        return
    yield from structures(count, first + 1)
    for last in range(first, count):
        for rest in structures(count, last + 1):
            for kind in "ab":
                yield [(kind, first, last), *rest]


@functools.cache
def legal(scheme, count):
    """All the tag sequences that are legal in a scheme."""
    return {tuple(plain_tags(scheme, entities, count)) for entities in structures(count)}


def labels_of(scheme):
    return ["O", *(f"{prefix}-{kind}" for kind in "ab" for prefix in SCHEMES[scheme])]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_tags_are_those_of_some_entities(scheme):
    for count in range(4):
        tags = itertools.product(labels_of(scheme), repeat=count)
        assert {row for row in tags if is_legal(scheme, row)} == legal(scheme, count)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_round_trip_through_their_tags_in_any_scheme(scheme):
    for entities in structures(4):
        tags = written(scheme, entities, 4)
        assert tags == plain_tags(scheme, entities, 4)
        if scheme == "IO" and any(a[0] == b[0] and a[2] + 1 == b[1] for a, b in itertools.pairwise(entities)):
            continue  # two adjacent ones are one in IO
        assert entities_of(tags) == entities
        assert in_scheme("IOB2", tags) == plain_tags("IOB2", entities, 4)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(words=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_the_best_tags_are_the_best_of_all_that_the_scheme_allows(scheme, words, seed):
    labels = labels_of(scheme)
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(labels)) * 0.3, words) + 1e-9)
    got = best_tags(scores, labels, scheme)
    assert tuple(labels[i] for i in got) in legal(scheme, words)
    sums = [sum(scores[i, labels.index(tag)] for i, tag in enumerate(row)) for row in legal(scheme, words)]
    assert scores[np.arange(words), got].sum() == pytest.approx(max(sums))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_scheme_is_recognised_from_labels_and_sentences(scheme):
    sentences = [plain_tags(scheme, entities, 4) for entities in structures(4)]
    assert recognised(set(itertools.chain(*sentences)), sentences) == scheme
    stray = [*sentences * 5, ["I-a", "O", "O", "O"]]  # an annotation mistake changes nothing
    assert recognised({"I-a", *itertools.chain(*sentences)}, stray) == scheme or scheme in ("BMES", "BMEWO")


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["B-LOC", "B-MISC", "B-ORG", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O"], "IOB1"),  # dbmdz's, of CoNLL-2003
        (["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "IOB2"),
        (["O", "B-PER", "B-LOC"], "IOB2"),
        (["O", "I-PER", "I-LOC"], "IO"),
        (["O", "I-PER", "E-PER"], "IE"),  # of IOE1 or IOE2
        (["O", "B-PER", "I-PER", "E-PER", "S-PER"], "BIOES"),
        (["O", "S-PER", "B-PER", "E-PER"], "BES"),
        (["O", "B-PER", "I-PER", "L-PER", "U-PER"], "BILOU"),
        (["O", "B", "I"], "IOB2"),
        (["NOUN", "VERB"], None),
        (["O", "X", "Y"], "IO"),
        (["O", "B-PER", "I-PER", "X"], "IOB2"),
        (["O", "B-PER", "X-PER"], "IOB2"),
        (["O", "PER-B", "PER-I", "LOC-B", "X"], "IOB2"),
        (["PER-S", "PER-B", "PER-I"], "BIS"),
        (["NOUN", "VERB", "E-MAIL"], None),
        (["O"], None),
        ([], None),
    ],
)
def test_the_scheme_is_recognised_from_labels_alone(labels, scheme):
    assert recognised(labels) == scheme


def test_one_missing_b_does_not_change_the_scheme():
    sentences = [["B-a", "I-a", "O"], ["B-b", "B-b", "O"], ["I-b", "O", "O"]]
    assert recognised({"O", "B-a", "I-a", "B-b", "I-b"}, sentences) == "IOB2"
    assert recognised({"O", "I-a", "I-b"}, [["I-a", "I-a", "O"], ["I-b", "O"]]) == "IO"
    assert recognised({"O", "B-a", "I-a"}, [["I-a", "I-a", "O"], ["I-a", "B-a"]]) == "IOB1"


def test_tags_for_labels_are_those_of_the_scheme_and_those_seen():
    assert tags_for("IOB1", {"a", "b"}, {"B-a"}) == {"O", "I-a", "B-a", "I-b"}
    assert tags_for("BILOU", {"a"}) == {"O", "B-a", "I-a", "L-a", "U-a"}
    assert nearest_tag("IOB1", "B-b", {"I-b"}) == "I-b"
    assert nearest_tag("IOB2", "I-b", {"B-b"}) == "I-b"


@given(st.lists(st.sampled_from(labels_of("BIOES")), max_size=6))
def test_the_entities_of_any_tags_are_the_same_in_another_scheme(tags):
    other = in_scheme("IOB2", tags)
    assert is_legal("IOB2", other)
    assert entities_of(other) == entities_of(tags)
    assert entity_scores([other], [other], "IOB2") == entity_scores([tags], [tags])


def test_without_an_allowed_sequence_each_word_has_its_best_tag():
    assert best_tags(np.log([[0.9, 0.1]]), ["E-a", "I-a"], "BIOES").tolist() == [0]
    assert best_tags(np.zeros((0, 5)), labels_of("IOB2"), "IOB2").tolist() == []
    assert best_tags(np.log([[0.1, 0.9], [0.6, 0.4]]), ["NOUN", "VERB"], None).tolist() == [1, 0]


def test_another_scheme_is_one_sentence():
    with pytest.raises(ValueError, match=r"scheme must be one of IO, IOB2, IOB1, .*; got 'BIO'"):
        check_scheme("BIO", ["O", "B-a"])
    with pytest.raises(ValueError, match="must have all the tags; 'IOB2' does not have the tag 'E-a'"):
        check_scheme("IOB2", ["O", "B-a", "E-a"])
    with pytest.raises(ValueError, match="'IOB2' does not have the tag 'a'"):
        check_scheme("IOB2", ["O", "a"])
    assert check_scheme("IO", ["O", "a"]) == "IO"
    assert check_scheme("BIS", ["O", "a-B", "a-S"]) == "BIS"


TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]


def plain_spans(tags):
    """Word by word: which entity does it belong to, and is it the first word?"""
    spans = []
    for i, tag in enumerate(tags):
        if tag == "O":
            continue
        before = tags[i - 1] if i else "O"
        goes_on = tag.startswith("I-") and before != "O" and before[2:] == tag[2:]
        if goes_on:
            spans[-1][2] = i + 1
        else:
            spans.append([tag[2:], i, i + 1])
    return [tuple(span) for span in spans]


@given(st.lists(st.sampled_from(TAGS), max_size=8))
def test_entities_are_those_of_the_rules_word_by_word(tags):
    assert [tuple(span) for span in spans_of_tags(tags)] == plain_spans(tags)


def follows_iob2(tags):
    return all(
        not tag.startswith("I-") or (before != "O" and before[2:] == tag[2:]) for before, tag in itertools.pairwise(["O", *tags])
    )


@given(st.integers(1, 5), st.integers(0, 10_000))
def test_the_best_tags_are_the_best_of_all_legal_sequences(words, seed):
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(TAGS)) * 0.3, words))
    got = best_tags(scores, TAGS, "IOB2")
    legal = [row for row in itertools.product(range(len(TAGS)), repeat=words) if follows_iob2([TAGS[i] for i in row])]
    assert follows_iob2([TAGS[i] for i in got])
    assert scores[np.arange(words), got].sum() == pytest.approx(max(scores[np.arange(words), row].sum() for row in legal))


def test_entities_of_labels_without_b_begin_with_i():
    scores = np.log([[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    assert best_tags(scores, ["O", "I-a", "B-b", "I-b"], "IOB1").tolist() == [1, 3]


@given(st.lists(st.sampled_from(TAGS), max_size=8).filter(follows_iob2))
def test_tags_round_trip_through_spans_of_characters(tags):
    starts = np.arange(len(tags)) * 4
    spans = [(int(starts[start]), int(starts[end - 1]) + 3, label) for label, start, end in spans_of_tags(tags)]
    assert tags_of_spans(starts.tolist(), (starts + 3).tolist(), spans) == tags


def test_a_word_belongs_to_the_span_that_covers_most_of_it():
    assert tags_of_spans([0, 5], [4, 9], [(2, 3, "a")]) == ["B-a", "O"]
    # "one pmnear x": words that users ran together are still separated
    assert tags_of_spans([0, 4, 11], [3, 10, 12], [(0, 6, "time"), (6, 10, "near"), (11, 12, "x")]) == ["B-time", "B-near", "B-x"]
    assert tags_of_spans([0, 2, 5], [1, 4, 6], [(0, 3, "a"), (3, 6, "b")]) == ["B-a", "I-a", "B-b"]  # one character each: the first


def test_overlapping_spans_and_spans_without_a_word_are_refused():
    with pytest.raises(ValueError, match=r"must not overlap; \(2, 4, 'b'\) begins within the previous one"):
        tags_of_spans([0, 5], [4, 9], [(2, 4, "b"), (0, 3, "a")])
    with pytest.raises(ValueError, match=r"must have a word that belongs to no other; \(2, 4, 'b'\) has none"):
        tags_of_spans([0, 5], [4, 9], [(0, 2, "a"), (2, 4, "b")])


# The tags that entities of one, two and three words have, by the prefixes of a model.
PERFECT = """
I I II III, BI B BI BII, BE B BE BBE, BS S BB BBB, BIS S BI BII, BIE B BE BIE, BIES S BE BIE, BL B BL BBL, BU U BB BBB,
BIL B BL BIL, BILU U BL BIL, BM B BM BMM, BMES S BE BME, BMEW W BE BME, BES S BE BBE, IE I IE IIE, IS S II III, IES S IE
IIE, BW W BB BBB, BMS S BM BMM, BME B BE BME, BLU U BL BBL, BEW W BE BBE, BIU U BI BII, ILU U IL IIL, IL I IL IIL, ME M
ME MME, MS S MM MMM, M M MM MMM, BMW W BM BMM, MES S ME MME, MEW W ME MME, IU U II III, MW W MM MMM, BIEU U BE BIE, BIEL
B BE BIE
"""


@pytest.mark.parametrize(("prefixes", "rows"), [(row.split()[0], row.split()[1:]) for row in PERFECT.replace("\n", " ").split(",")])
def test_tags_of_any_set_of_prefixes_are_unchanged_and_their_entity_is_found(prefixes, rows):
    labels = ["O", *(f"{prefix}-{kind}" for kind in "ab" for prefix in prefixes)]
    scheme = recognised(labels)
    for row, around in itertools.product(rows, ([], ["O"], [f"{rows[0]}-b"])):
        tags = [*around, *(f"{prefix}-a" for prefix in row), *around]
        scores = np.log(0.9 * np.eye(len(labels))[[labels.index(tag) for tag in tags]] + 0.01)
        assert [labels[i] for i in best_tags(scores, labels, scheme)] == tags
        first, count = len(around), len(row)
        assert ("a", first, first + count) in spans_of_tags(tags, scheme)
        assert len(spans_of_tags(tags, scheme)) == (3 if around and around != ["O"] else 1)
        assert in_scheme(scheme, tags) == tags


@given(st.data())
def test_labels_that_are_a_legal_sequence_are_never_changed(data):
    prefixes = data.draw(st.sets(st.sampled_from("BIESMLUW"), min_size=1))
    labels = ["O", "X", *(f"{prefix}-{kind}" for kind in "ab" for prefix in sorted(prefixes))]
    scheme, tags = recognised(labels), [canonical(label, "prefix") for label in labels]
    scores = np.log(data.draw(st.integers(0, 999).map(lambda seed: np.random.default_rng(seed).dirichlet(np.ones(len(labels)), 4))))
    legal = is_legal(scheme, [tags[i] for i in scores.argmax(-1)])
    got = best_tags(scores, tags, scheme)
    assert (got == scores.argmax(-1)).all() == legal
    assert is_legal(scheme, [tags[i] for i in got])


@given(st.sets(st.text("BIESOX-a", max_size=5) | st.sampled_from(["O", "B-a", "a-B", "a-E", "B", "S"]), max_size=6))
def test_labels_round_trip_through_their_canonical_tags(labels):
    notation = notation_of(labels)
    if notation is not None:
        tags = [canonical(label, notation) for label in labels]
        assert [label_of(tag, notation) for tag in tags] == list(labels)
        assert len(set(tags)) == len(tags)
        entities_of(tags)
