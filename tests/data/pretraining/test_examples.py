"""Spans have every token once, pairs are made as in the papers, and sentences begin where a plain reading of the tokens says."""

import math

import numpy as np
import pytest
from helpers.small_corpus import SPECIAL, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.document_groups import documents_of
from keras_bert_rebuild.data.corpora.documents import TokenCorpus, encode_documents
from keras_bert_rebuild.data.pretraining.examples import Examples, shortened
from keras_bert_rebuild.data.pretraining.segment_pairs import OTHER_SPAN, next_sentence_pairs, sentence_order_pairs, single_segments
from keras_bert_rebuild.data.pretraining.vocabulary_tables import (
    BEFORE,
    CLOSES,
    EITHER,
    ENDS,
    OTHER,
    sentence_begins,
    sentence_marks,
    vocabulary_tables,
)
from keras_bert_rebuild.data.random_numbers import Stream, uniform_at

LENGTH = 21


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(documents=40, passages=12)


def one_epoch(store, number=0, length=LENGTH, seed=0):
    examples = Examples(documents_of(store), length, seed)
    return examples.at(number * len(examples) + np.arange(len(examples)))


def within(rate, expected, count):
    """Whether a rate is within five standard deviations of what a binomial draw gives."""
    return abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.integers(2, 40), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_an_epoch_has_every_token_of_every_document_once(sizes, length, number, seed):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    store = TokenCorpus(np.zeros(starts[-1], "int32"), starts, starts, SPECIAL)
    spans = one_epoch(store, number, length, seed)
    lengths = spans.ends - spans.starts
    assert lengths.min() >= 1
    assert lengths.max() <= length
    tokens = np.concatenate([np.arange(s, e) for s, e in zip(spans.starts, spans.ends, strict=True)])
    assert sorted(tokens) == list(range(starts[-1]))
    assert (np.searchsorted(starts, spans.starts, side="right") - 1 == spans.documents).all()
    assert (np.searchsorted(starts, spans.ends - 1, side="right") - 1 == spans.documents).all()


def test_spans_are_full_except_the_first_and_last_of_a_document(corpus):
    spans = one_epoch(corpus)
    for document in range(40):
        own = np.sort(spans.starts[spans.documents == document]), np.sort(spans.ends[spans.documents == document])
        assert ((own[1] - own[0])[1:-1] == LENGTH).all()


@pytest.mark.parametrize("size", [2 * LENGTH, 2 * LENGTH + 1, 3 * LENGTH - 1])
def test_every_epoch_cuts_at_other_offsets(size):
    starts = np.array([0, size])
    store = TokenCorpus(np.zeros(size, "int32"), starts, starts, SPECIAL)
    firsts = {int(one_epoch(store, number).ends.min()) for number in range(300)}
    assert len(firsts) >= LENGTH // 2 - 1


def test_every_epoch_has_another_order(corpus):
    documents = [one_epoch(corpus, number, length=1000).documents.tolist() for number in range(3)]
    assert documents[0] != documents[1] != documents[2]
    assert one_epoch(corpus, 0, 1000, seed=1).documents.tolist() != documents[0]


def test_a_span_does_not_depend_on_the_others(corpus):
    examples = Examples(documents_of(corpus), LENGTH, seed=4)
    together, alone = examples.at(np.arange(1000)), examples.at([777])
    assert (alone.starts[0], alone.ends[0], alone.keys[0]) == (together.starts[777], together.ends[777], together.keys[777])


def test_documents_without_tokens_are_an_error():
    with pytest.raises(ValueError, match="at least one token each; document 1 has none"):
        Examples(documents_of(TokenCorpus(np.zeros(3, "int32"), np.array([0, 2, 2, 3]), np.array([0, 2, 2, 3]), SPECIAL)), 8)
    with pytest.raises(ValueError, match="it has no documents"):
        Examples(documents_of(encode_documents([[""]], list, SPECIAL)), 8)


def test_some_spans_are_shortened_to_lengths_from_2():
    starts = np.array([0, 10**7])
    spans = Examples(documents_of(TokenCorpus(np.zeros(10**7, "int32"), starts, starts, SPECIAL)), 100).at(np.arange(50000))
    short, targets = shortened(spans, 0.1, 100)
    cut = targets[targets < 100]
    assert within(len(cut) / 50000, 0.1 * 98 / 99, 50000)
    assert (cut.min(), cut.max()) == (2, 99)
    assert abs(cut.mean() - 50.5) < 5 * 28.3 / math.sqrt(len(cut))
    assert (short.ends - short.starts <= targets).all()
    assert (shortened(spans, 0, 100)[0].ends == spans.ends).all()


def test_other_spans_are_drawn_in_proportion_to_their_number():
    starts = np.array([0, 100, 250, 500, 850])
    store = TokenCorpus(np.zeros(850, "int32"), starts, starts, SPECIAL)
    examples = Examples(documents_of(store), LENGTH)
    spans = examples.at(np.arange(40000))
    other = examples.from_other_documents(spans, uniform_at(spans.keys, 0, Stream.CUT))
    assert (other.documents != spans.documents).all()
    assert (other.keys == spans.keys).all()
    assert (other.passes == spans.passes).all()
    same_pass = [one_epoch(store, number) for number in range(3)]
    for number, each in enumerate(same_pass):
        there = set(zip(each.starts, each.ends, strict=True))
        assert set(zip(*(places[spans.passes == number] for places in (other.starts, other.ends)), strict=True)) <= there
    for document in range(4):
        share = (spans.documents == document).mean()
        assert within((other.documents == document).mean(), share, 40000)


def test_a_document_of_more_than_half_the_tokens_is_drawn_for_all_others():
    starts = np.array([0, 900, 1000])
    examples = Examples(documents_of(TokenCorpus(np.zeros(1000, "int32"), starts, starts, SPECIAL)), LENGTH)
    spans = examples.at(np.arange(500))
    assert (examples.from_other_documents(spans, uniform_at(spans.keys, 0, Stream.CUT)).documents == 1 - spans.documents).all()


def pairs_of(store, count=20000, random_next_rate=0.5, targets=None):
    examples = Examples(documents_of(store), LENGTH)
    spans = examples.at(np.arange(count))
    others = examples.from_other_documents(spans, uniform_at(spans.keys, OTHER_SPAN, Stream.PAIR))
    targets = np.full(count, LENGTH) if targets is None else targets
    tables = vocabulary_tables([*store.vocabulary, "a"])
    return spans, others, next_sentence_pairs(store, tables, spans, others, targets, random_next_rate)


def test_half_of_the_second_segments_are_from_another_document(corpus):
    spans, others, pairs = pairs_of(corpus)
    assert within(pairs.labels.mean(), 0.5, 20000)
    documents = np.searchsorted(corpus.document_starts, pairs.second_starts, side="right") - 1
    assert (documents == np.where(pairs.labels == 1, others.documents, spans.documents)).all()
    first = np.searchsorted(corpus.document_starts, pairs.first_starts, side="right") - 1
    assert (first == spans.documents).all()


def test_only_the_source_of_the_second_segment_depends_on_the_label(corpus):
    _, _, follows = pairs_of(corpus, random_next_rate=0)
    _, _, random = pairs_of(corpus, random_next_rate=1)
    for name in ("first_starts", "first_lengths", "second_lengths"):
        assert (getattr(follows, name) == getattr(random, name)).all()
    assert (follows.second_starts == follows.first_starts + follows.first_lengths).all()
    assert (follows.second_starts != random.second_starts).all()
    kinds = [np.isin(pairs.second_starts, corpus.passage_starts) for pairs in (follows, random)]
    assert (kinds[0] == kinds[1]).all()
    assert kinds[0].mean() > 0.7


def test_both_segments_fit_and_stay_within_their_documents(corpus):
    targets = np.random.default_rng(0).integers(2, LENGTH + 1, 20000)
    _, _, pairs = pairs_of(corpus, targets=targets)
    total = pairs.first_lengths + pairs.second_lengths
    assert (total <= targets).all()
    assert pairs.first_lengths.min() >= 1
    assert pairs.second_lengths.min() >= 1
    # Full except for one token where no document ends too early.
    assert np.mean(total >= targets - 1) > 0.8
    for starts, lengths in ((pairs.first_starts, pairs.first_lengths), (pairs.second_starts, pairs.second_lengths)):
        first, last = (np.searchsorted(corpus.document_starts, x, side="right") for x in (starts, starts + lengths - 1))
        assert (first == last).all()


def test_after_a_document_of_one_token_the_next_segment_is_random():
    starts = np.array([0, 1, 2, 40])
    store = TokenCorpus(np.zeros(40, "int32"), starts, starts, SPECIAL)
    spans, _, pairs = pairs_of(store, 300, random_next_rate=0)
    assert (pairs.labels == (spans.documents < 2)).all()
    assert (pairs.second_lengths >= 1).all()


def orders_of(store, count=20000, swap_rate=0.5):
    spans = Examples(documents_of(store), LENGTH).at(np.arange(count))
    return spans, sentence_order_pairs(store, vocabulary_tables([*store.vocabulary, "a"]), spans, np.full(count, LENGTH), swap_rate)


def test_half_of_the_parts_of_a_window_are_swapped(corpus):
    spans, pairs = orders_of(corpus)
    assert within(pairs.labels.mean(), 0.5, 20000)
    assert (pairs.first_lengths + pairs.second_lengths <= LENGTH).all()
    swapped = pairs.labels == 1
    first, second = (pairs.first_starts, pairs.first_lengths), (pairs.second_starts, pairs.second_lengths)
    begin, size = (np.where(swapped, b, a) for a, b in zip(first, second, strict=True))
    middle, rest = (np.where(swapped, a, b) for a, b in zip(first, second, strict=True))
    assert (begin + size == middle).all()
    assert (np.searchsorted(corpus.document_starts, begin, side="right") - 1 == spans.documents).all()
    assert (np.searchsorted(corpus.document_starts, middle + rest - 1, side="right") - 1 == spans.documents).all()
    assert size.min() >= 1
    assert rest.min() >= 1


def test_the_edges_of_swapped_parts_are_of_one_kind(corpus):
    _, pairs = orders_of(corpus)
    edges = [pairs.first_starts, pairs.first_starts + pairs.first_lengths]
    edges += [pairs.second_starts, pairs.second_starts + pairs.second_lengths]
    kinds = np.stack([np.isin(edge, corpus.passage_starts) for edge in edges])
    assert (kinds.all(axis=0) | ~kinds.any(axis=0)).all()
    assert kinds[0].mean() > 0.3
    assert not np.isin(edges, corpus.document_starts).any()


def test_all_words_of_a_document_are_seen_except_some_at_its_edges(corpus):
    _, pairs = orders_of(corpus)
    seen = np.zeros(corpus.num_tokens + 1, int)
    for starts, lengths in ((pairs.first_starts, pairs.first_lengths), (pairs.second_starts, pairs.second_lengths)):
        np.add.at(seen, starts, 1)
        np.add.at(seen, starts + lengths, -1)
    missed = np.flatnonzero(np.cumsum(seen)[:-1] == 0)
    begins, ends = corpus.document_starts[:-1], corpus.document_starts[1:]
    assert np.isin(missed, [begins, begins + 1, ends - 1, ends - 2]).all()


def test_a_document_of_one_token_is_not_swapped():
    starts = np.array([0, 1, 40])
    store = TokenCorpus(np.zeros(40, "int32"), starts, starts, SPECIAL)
    spans, pairs = orders_of(store, 200, swap_rate=1)
    assert (pairs.labels == spans.documents).all()
    assert set(pairs.second_lengths[spans.documents == 0]) == {0}


def test_a_single_segment_is_the_span(corpus):
    spans = one_epoch(corpus)
    single = single_segments(spans)
    assert (single.first_starts == spans.starts).all()
    assert (single.first_lengths == spans.ends - spans.starts).all()
    assert not single.second_lengths.any()


# Sentences start after the marks that end one, compared with a plain reading of the tokens.


TOKENS = ["a", "b", "##c", ".", "?", "”", ")", '"']


def plainly(tokens, place):
    """Whether a sentence starts at an index: an end before it, at most two closing marks between, and no mark there."""
    if tokens[place] in ENDS | CLOSES | EITHER:
        return False
    before = place - 1
    while before >= 0 and tokens[before] in CLOSES and place - before <= 2:
        before -= 1
    return before >= 0 and tokens[before] in ENDS


def begins(tokens):
    marks = sentence_marks(TOKENS)[[TOKENS.index(token) for token in tokens]]
    return sentence_begins(np.concatenate([[OTHER] * BEFORE, marks])[None].astype("uint8"))[0].tolist()


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=30))
def test_a_sentence_begins_where_a_plain_reading_says(tokens):
    assert begins(tokens) == [plainly(tokens, place) for place in range(len(tokens))]


def test_rows_are_independent():
    rows = sentence_marks(TOKENS)[[[0, 0, 0, 3, 1], [3, 0, 3, 5, 0]]]
    assert sentence_begins(rows).tolist() == [[False, True], [False, True]]


def test_no_sentence_begins_at_an_ambiguous_quotation_mark():
    assert not any(begins(["a", ".", '"', "b"]))
    assert begins(["a", ".", "”", "b"]) == [False, False, False, True]
