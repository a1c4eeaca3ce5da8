"""Spans have every token once; pairs are made as the papers say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import SPECIAL, small_corpus

from keras_bert_rebuild.data.corpus import TokenCorpus, encode_documents
from keras_bert_rebuild.data.examples import Examples, Spans, from_passage_starts, shortened
from keras_bert_rebuild.data.random_numbers import keys
from keras_bert_rebuild.data.segment_pairs import _fit, next_sentence_pairs, sentence_order_pairs, single_segments

LENGTH = 21


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(documents=40, passages=12)


def one_pass(store, number=0, length=LENGTH, seed=0):
    examples = Examples(store, length, seed)
    return examples.at(number * len(examples) + np.arange(len(examples)))


def many_spans(store, count=20000):
    return Examples(store, LENGTH).at(np.arange(count))


def within(rate, expected, count):
    """Whether a rate is within five standard deviations of what a binomial draw gives."""
    return abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


def has_inner_boundary(store, spans):
    return np.array(
        [np.isin(store.passage_starts, np.arange(s + 1, e)).any() for s, e in zip(spans.starts, spans.ends, strict=True)]
    )


@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.integers(2, 40), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_a_pass_has_every_token_of_every_document_once(sizes, length, number, seed):
    starts = np.concatenate([[0], np.cumsum(sizes)])
    store = TokenCorpus(np.zeros(starts[-1], "int32"), starts, starts, SPECIAL)
    spans = one_pass(store, number, length, seed)
    lengths = spans.ends - spans.starts
    assert lengths.min() >= 1
    assert lengths.max() <= length
    tokens = np.concatenate([np.arange(s, e) for s, e in zip(spans.starts, spans.ends, strict=True)])
    assert sorted(tokens) == list(range(starts[-1]))
    assert (np.searchsorted(starts, spans.starts, side="right") - 1 == spans.documents).all()
    assert (np.searchsorted(starts, spans.ends - 1, side="right") - 1 == spans.documents).all()


def test_spans_are_full_but_for_the_first_and_the_last_of_a_document(corpus):
    spans = one_pass(corpus)
    for document in range(40):
        own = np.sort(spans.starts[spans.documents == document]), np.sort(spans.ends[spans.documents == document])
        assert ((own[1] - own[0])[1:-1] == LENGTH).all()


@pytest.mark.parametrize("size", [2 * LENGTH, 2 * LENGTH + 1, 3 * LENGTH - 1])
def test_every_pass_cuts_elsewhere(size):
    starts = np.array([0, size])
    store = TokenCorpus(np.zeros(size, "int32"), starts, starts, SPECIAL)
    firsts = {int(one_pass(store, number).ends.min()) for number in range(300)}
    assert len(firsts) >= LENGTH // 2 - 1


def test_passes_have_other_orders(corpus):
    documents = [one_pass(corpus, number, length=1000).documents.tolist() for number in range(3)]
    assert documents[0] != documents[1] != documents[2]
    assert one_pass(corpus, 0, 1000, seed=1).documents.tolist() != documents[0]


def test_a_span_does_not_depend_on_the_others(corpus):
    examples = Examples(corpus, LENGTH, seed=4)
    together, alone = examples.at(np.arange(1000)), examples.at([777])
    assert (alone.starts[0], alone.ends[0], alone.keys[0]) == (together.starts[777], together.ends[777], together.keys[777])


def test_documents_without_tokens_are_an_error():
    with pytest.raises(ValueError, match="at least one token each; document 1 has none"):
        Examples(TokenCorpus(np.zeros(3, "int32"), np.array([0, 2, 2, 3]), np.array([0, 2, 2, 3]), SPECIAL), 8)
    with pytest.raises(ValueError, match="it has no documents"):
        Examples(encode_documents([[""]], list, SPECIAL), 8)


def test_a_part_of_the_spans_is_cut_to_lengths_from_2_on():
    starts = np.array([0, 10**7])
    spans = Examples(TokenCorpus(np.zeros(10**7, "int32"), starts, starts, SPECIAL), 100).at(np.arange(50000))
    short, targets = shortened(spans, 0.1, 100)
    cut = targets[targets < 100]
    assert within(len(cut) / 50000, 0.1 * 98 / 99, 50000)
    assert (cut.min(), cut.max()) == (2, 99)
    assert abs(cut.mean() - 50.5) < 5 * 28.3 / math.sqrt(len(cut))
    assert (short.ends - short.starts <= targets).all()
    assert (shortened(spans, 0, 100)[0].ends == spans.ends).all()


def test_half_of_the_second_segments_are_of_another_document(corpus):
    spans = many_spans(corpus)
    pairs = next_sentence_pairs(corpus, spans, np.full(len(spans.keys), LENGTH))
    inner, single = has_inner_boundary(corpus, spans), spans.ends - spans.starts == 1
    for kind in (inner, ~inner & ~single):
        assert within(pairs.labels[kind].mean(), 0.5, kind.sum())
    assert pairs.labels[single].all()
    other = np.searchsorted(corpus.document_starts, pairs.second_starts, side="right") - 1
    assert (other != spans.documents)[pairs.labels == 1].all()
    assert (other == spans.documents)[pairs.labels == 0].all()


def test_random_documents_are_drawn_evenly_of_all_but_the_own():
    store = small_corpus(documents=5, passages=4)
    spans = many_spans(store, 20000)
    pairs = next_sentence_pairs(store, spans, np.full(20000, LENGTH), random_next_rate=1)
    other = np.searchsorted(store.document_starts, pairs.second_starts, side="right") - 1
    for own in range(5):
        drawn = np.bincount(other[spans.documents == own], minlength=5)
        assert drawn[own] == 0
        assert all(within(n / drawn.sum(), 0.25, drawn.sum()) for i, n in enumerate(drawn) if i != own)


def test_segments_that_follow_are_the_two_parts_of_a_span(corpus):
    spans = many_spans(corpus)
    pairs = next_sentence_pairs(corpus, spans, np.full(len(spans.keys), LENGTH), random_next_rate=0)
    follows = pairs.labels == 0
    assert (pairs.first_starts == spans.starts)[follows].all()
    assert (pairs.first_starts + pairs.first_lengths == pairs.second_starts)[follows].all()
    assert (pairs.second_starts + pairs.second_lengths == spans.ends)[follows].all()
    assert np.isin(pairs.second_starts, corpus.passage_starts)[follows & has_inner_boundary(corpus, spans)].all()
    assert (pairs.second_lengths >= 1).all()


def test_random_segments_fill_the_room_that_is_left(corpus):
    spans = many_spans(corpus)
    targets = np.full(len(spans.keys), LENGTH)
    pairs = next_sentence_pairs(corpus, spans, targets, random_next_rate=1)
    total = pairs.first_lengths + pairs.second_lengths
    ends = pairs.second_starts + pairs.second_lengths
    assert total.max() <= LENGTH
    assert pairs.second_lengths.min() >= 1
    assert pairs.first_lengths.min() >= 1
    assert ((total == LENGTH) | np.isin(ends, corpus.document_starts)).all()
    inner = has_inner_boundary(corpus, spans) & (spans.ends - spans.starts < LENGTH)
    assert np.isin(pairs.second_starts, corpus.passage_starts)[inner & (total < LENGTH)].all()


def google_lengths(first, second, room):
    """The lengths that `truncate_seq_pair` leaves."""
    while first + second > room:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 30), st.integers(0, 2**64 - 1))
def test_the_longer_segment_is_cut_first(first, second, room, seed):
    starts, lengths, second_starts, second_lengths = (np.array([n]) for n in (100, first, 200, second))
    _fit(keys(seed, 0, np.arange(1)), starts, lengths, second_starts, second_lengths, np.array([room]))
    assert (lengths[0], second_lengths[0]) == google_lengths(first, second, room)
    assert 100 <= starts[0] <= 100 + first - lengths[0]
    assert 200 <= second_starts[0] <= 200 + second - second_lengths[0]


def test_tokens_go_from_the_front_as_often_as_from_the_back():
    count = 4000
    starts, lengths, second_starts, second_lengths = (np.full(count, n) for n in (0, 30, 0, 40))
    _fit(keys(0, 0, np.arange(count)), starts, lengths, second_starts, second_lengths, np.full(count, 40))
    assert set(lengths) == {20}
    for cut, of in ((starts, 10), (second_starts, 20)):
        assert abs(cut.mean() - of / 2) < 5 * math.sqrt(of / 4 / count)
        assert abs(cut.var() - of / 4) < 0.15 * of / 4


def test_half_of_the_parts_of_a_span_are_swapped(corpus):
    spans = many_spans(corpus)
    pairs = sentence_order_pairs(corpus, spans)
    whole = spans.ends - spans.starts > 1
    assert within(pairs.labels[whole].mean(), 0.5, whole.sum())
    swapped = pairs.labels == 1
    first, second = (pairs.first_starts, pairs.first_lengths), (pairs.second_starts, pairs.second_lengths)
    begin, size = (np.where(swapped, b, a) for a, b in zip(first, second, strict=True))
    middle, rest = (np.where(swapped, a, b) for a, b in zip(first, second, strict=True))
    assert (begin == spans.starts).all()
    assert (begin + size == middle).all()
    assert (middle + rest == spans.ends).all()
    assert np.isin(middle, corpus.passage_starts)[has_inner_boundary(corpus, spans)].all()
    assert (size >= 1).all()
    assert (rest >= 1)[whole].all()


def test_a_span_of_one_token_is_not_swapped():
    spans = Spans(keys(0, 0, np.arange(50)), *(np.full(50, n) for n in (0, 3, 4)))
    pairs = sentence_order_pairs(small_corpus(), spans, swap_rate=1)
    assert not pairs.labels.any()
    assert set(pairs.second_lengths) == {0}


def test_a_single_segment_is_the_span(corpus):
    spans = one_pass(corpus)
    single = single_segments(spans)
    assert (single.first_starts == spans.starts).all()
    assert (single.first_lengths == spans.ends - spans.starts).all()
    assert not single.second_lengths.any()


def test_spans_of_pairs_begin_where_passages_do_or_half_a_length_away_from_it():
    store = small_corpus(documents=8, seed=5)
    length = 16
    spans = Examples(store, length, seed=1).at(np.arange(200))
    moved = from_passage_starts(store, spans, length)
    begin = np.array([store.passage_starts[store.passage_starts <= start].max() for start in spans.starts])
    near = spans.starts - begin <= length // 2
    assert near.any()
    assert (moved.starts == np.where(near, begin, spans.starts)).all()
    ends = store.document_starts[moved.documents + 1]
    assert (moved.ends == np.minimum(moved.starts + length, ends)).all()
    assert (store.document_starts[moved.documents] <= moved.starts).all()
