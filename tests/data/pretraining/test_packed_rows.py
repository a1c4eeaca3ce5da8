"""Packed rows hold several sequences that do not see each other, pieces or pairs, and hardly any padding."""

import itertools

import keras
import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, PAD, SEP, SPECIAL, document_of, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.document_groups import documents_of
from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.packing import packing_plan
from keras_bert_rebuild.data.pretraining.packed_rows import MORE, WINDOW, PackedPairs, PackedRows
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.pretraining.segment_pairs import Segments
from keras_bert_rebuild.layers.masks import most_sequences

SEQ_LEN = 64


@pytest.fixture(scope="module")
def corpus():
    """Documents of 4 to 112 tokens."""
    return small_corpus(documents=150, passages=4, longest=28)


def batches(corpus, batch_size=8, **settings):
    defaults = {"short_seq_prob": 0.0, "next_sentence": None, "packed": True}
    return pretraining_batches(corpus, batch_size, SEQ_LEN, 10, **{**defaults, **settings})


def batches_of_pairs(corpus, batch_size=8, next_sentence="nsp", **settings):
    return batches(corpus, batch_size, **{"next_sentence": next_sentence, "short_seq_prob": 0.1, **settings})


BOTH = pytest.mark.parametrize("make", [batches, batches_of_pairs], ids=["pieces", "pairs"])


# What pieces and pairs have in common.


@BOTH
def test_a_batch_depends_on_seed_epoch_and_index_alone(corpus, make):
    data = make(corpus, seed=1)
    wanted = data.batch(2, 3)
    data.batch(0, 0)
    for one, other in zip(*(keras.tree.flatten(batch) for batch in (wanted, data.batch(2, 3))), strict=True):
        np.testing.assert_array_equal(one, other)
    for other in (data.batch(2, 2), data.batch(1, 3), make(corpus, seed=2).batch(2, 3)):
        assert (other[0][0] != wanted[0][0]).any()


@BOTH
@pytest.mark.parametrize("draws", [False, True])
def test_processes_share_the_rows_of_a_batch(corpus, make, draws):
    whole = keras.tree.flatten(make(corpus, draws=draws).batch(1, 2))
    parts = [keras.tree.flatten(make(corpus, draws=draws, process_index=i, process_count=2).batch(1, 2)) for i in range(2)]
    for array, *shares in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(np.concatenate(shares), array)


@pytest.mark.parametrize(("make", "rows"), [(batches, lambda made: len(made)), (batches_of_pairs, lambda made: made._rows)])
def test_a_batch_may_begin_in_one_pass_or_window_and_end_in_the_next(corpus, make, rows):
    data, of_one = (make(corpus, size, steps_per_epoch=10**6, short_seq_prob=0.3) for size in (8, 1))
    index = rows(data.examples) // 8
    alone = np.concatenate([of_one.batch(0, 8 * index + i)[0][0] for i in range(8)])
    np.testing.assert_array_equal(data.batch(0, index)[0][0], alone)


@BOTH
def test_the_work_of_a_batch_counts_its_sequences(corpus, make):
    data = make(corpus)
    inputs, labels = batch = data.batch(0, 0)
    ids = keras.tree.flatten(labels)[0][..., 0]
    lengths, predictions = data.work(batch)
    assert lengths.sum() == (ids != PAD).sum()
    assert len(lengths) == (ids == CLS).sum()
    assert predictions == inputs[2].sum()


@pytest.mark.parametrize("settings", [{"lengths": [32, 64]}, {"order": True}])
def test_what_packed_rows_cannot_have_is_refused(corpus, settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be None or left out for packed rows"):
        batches(corpus, **settings)


# Pieces of documents.


def labels_of(batch):
    return batch[1][..., 0]


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_has_every_token_once(corpus, epoch):
    data = batches(corpus, 1, seed=2)
    labels = np.concatenate([labels_of(data.batch(epoch, i)).ravel() for i in range(len(data))])
    assert sorted(labels[labels >= FIRST]) == list(range(FIRST, FIRST + corpus.num_tokens))


@pytest.mark.parametrize("short", [0.0, 0.9])
def test_a_sequence_is_a_piece_of_one_document_with_its_first_column_as_number(corpus, short):
    data = batches(corpus, short_seq_prob=short)
    (tokens, segments, chosen, numbers), labels = data.batch(0, 0)
    labels, several = labels[..., 0], 0
    for row, of_row in zip(labels, numbers, strict=True):
        assert ((of_row == 0) == (row == PAD)).all()
        several += len(set(of_row) - {0}) > 1
        for number in set(of_row) - {0}:
            own = np.flatnonzero(of_row == number)
            assert own.tolist() == list(range(number - 1, number - 1 + len(own)))
            assert row[own[0]] == CLS
            assert row[own[-1]] == SEP
            assert (np.diff(row[own[1:-1]]) == 1).all()
            assert len(set(document_of(corpus, row[own[1:-1]]))) == 1
    assert several
    assert all(array.dtype == np.int32 and array.shape == (8, SEQ_LEN) for array in (tokens, segments, chosen, numbers))
    assert not segments.any()
    assert 1 <= chosen.sum(axis=1).min() <= chosen.sum(axis=1).max() <= 10


def test_some_full_rows_are_cut_in_two_at_any_place(corpus):
    whole, cut = (batches(corpus, 1, short_seq_prob=rate) for rate in (0.0, 0.5))
    full, lengths = 0, []
    for index in range(len(whole)):
        found = np.bincount(whole.batch(0, index)[0][-1][0])[1:].max()
        if found < SEQ_LEN:
            continue
        full += 1
        counts = np.bincount(cut.batch(0, index)[0][-1][0])
        lengths += [counts[1]] if counts[1] < SEQ_LEN else []
        assert counts.sum() - counts[0] == SEQ_LEN
    assert 0.3 < len(lengths) / full < 0.7
    assert min(lengths) >= 3
    assert max(lengths) - min(lengths) > SEQ_LEN / 2


def test_which_sequences_share_a_row_differs_between_epochs(corpus):
    data = batches(corpus, 1)

    def meetings(epoch):
        rows = (labels_of(data.batch(epoch, i))[0] for i in range(len(data)))
        return {frozenset(document_of(corpus, row[row >= FIRST])) for row in rows}

    first, second = ({meeting for meeting in meetings(epoch) if len(meeting) > 1} for epoch in (0, 1))
    assert len(first & second) < len(first) / 2


def test_the_order_of_the_rows_differs_between_passes():
    starts = np.arange(0, 201 * (SEQ_LEN - 2), SEQ_LEN - 2)  # every document fills a row
    full = TokenCorpus(np.zeros(starts[-1], "int32"), starts, starts, SPECIAL)
    shared = small_corpus(documents=400, passages=1, longest=30)
    for store, what in ((full, "starts"), (shared, "lengths")):
        rows = PackedRows(documents_of(store), SEQ_LEN, seed=3)
        passes = [getattr(rows.at(np.arange(len(rows)) + number * len(rows)), what).tolist() for number in range(3)]
        assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
        for one, other in itertools.combinations(passes, 2):
            assert sum(a == b for a, b in zip(one, other, strict=True)) < len(one) / 4


@pytest.mark.parametrize("documents", [1, 600])
@pytest.mark.parametrize("full", [0, 1, 3])
def test_the_remainder_of_a_document_comes_equally_often_before_between_and_after_its_full_pieces(full, documents):
    length, passes = SEQ_LEN - 2, 600 // documents
    size = full * length + 7
    starts = np.arange(documents + 1) * size
    rows = PackedRows(documents_of(TokenCorpus(np.zeros(starts[-1], "int32"), starts, starts, SPECIAL)), SEQ_LEN)
    pieces = rows.at(np.arange(len(rows) * passes))
    before = pieces.starts[pieces.lengths == 7] % size / length
    counts = np.bincount(before.astype(int), minlength=full + 1)
    assert (before == np.rint(before)).all()
    assert len(before) == counts.sum() == 600
    assert len(counts) == full + 1
    expected = 600 / (full + 1)
    assert ((counts - expected) ** 2 / expected).sum() <= full + 5 * np.sqrt(2 * full)


# Pairs.


def sequences(batch):
    """The tokens, segment ids and label of every sequence of a packed batch, row by row."""
    (_, segments, _, numbers), (labels, classes) = batch
    found = []
    for row in range(len(numbers)):
        begins = np.flatnonzero(numbers[row] == 1 + np.arange(SEQ_LEN))
        for slot, begin in enumerate(begins):
            own = numbers[row] == begin + 1
            found.append((tuple(labels[row, own, 0]), tuple(segments[row, own]), int(classes[row, slot])))
        assert not classes[row, len(begins) :].any()
    return found


def unpacked(corpus, first, count, **settings):
    """The same for pairs without packing."""
    data = batches_of_pairs(corpus, WINDOW, packed=False, steps_per_epoch=10**3, **settings)
    found = []
    for index in range(first // WINDOW, -(-(first + count) // WINDOW)):
        (_, segments, _), (labels, classes) = data.batch(0, index)
        for ids, of_pair, label in zip(labels[..., 0], segments, classes[:, 0], strict=True):
            found.append((tuple(ids[ids != PAD]), tuple(of_pair[ids != PAD]), int(label)))
    return found[first % WINDOW :][:count]


def test_every_row_of_a_window_has_random_numbers_of_its_own(corpus):
    examples = batches_of_pairs(corpus).examples
    keys, _ = examples.at(np.arange(examples._rows))
    assert len(np.unique(keys)) == len(keys)


@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_a_window_has_the_first_of_the_pairs_that_unpacked_rows_have(corpus, next_sentence):
    rows = batches_of_pairs(corpus, 1, next_sentence).examples._rows
    data = batches_of_pairs(corpus, rows, next_sentence, steps_per_epoch=10**3)
    for window in (0, 1):
        packed = sequences(data.batch(0, window))
        expected = unpacked(corpus, window * WINDOW, WINDOW + MORE, next_sentence=next_sentence)
        assert sorted(packed) == sorted(expected[: len(packed)])
        assert WINDOW - 2 * MORE < len(packed) <= WINDOW + MORE


@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_rows_are_full_of_pairs_between_their_special_tokens(corpus, next_sentence):
    data = batches_of_pairs(corpus, 64, next_sentence)
    (tokens, segments, chosen, numbers), (labels, classes) = data.batch(0, 0)
    assert (numbers > 0).mean() > 0.9
    assert ((numbers > 0) == (labels[..., 0] != PAD)).all()
    for ids, of_pair, _ in sequences(((tokens, segments, chosen, numbers), (labels, classes))):
        assert ids[0] == CLS
        assert ids[-1] == SEP
        assert sum(token < FIRST for token in ids) == 3
        assert of_pair[ids.index(SEP) + 1] == 1
        assert list(of_pair) == sorted(of_pair)
    assert all(array.dtype == np.int32 for array in (tokens, segments, chosen, numbers, labels, classes))
    assert classes.shape == (64, most_sequences(SEQ_LEN))
    assert 1 <= chosen.sum(axis=1).min() <= chosen.sum(axis=1).max() <= 10


def test_an_epoch_is_about_a_pass(corpus):
    data = batches_of_pairs(corpus, 1)
    pairs = sum(len(sequences(data.batch(0, i))) for i in range(len(data)))
    assert pairs == pytest.approx(len(batches_of_pairs(corpus, 1, packed=False)), rel=0.1)


def test_rows_have_pairs_of_several_corpora_by_their_shares(corpus):
    parts = [SomeDocuments(corpus, np.arange(*ends)) for ends in ((0, 50), (50, 150))]
    found = sequences(batches_of_pairs(MixedCorpus(parts, [3, 1]), 64).batch(0, 0))
    of_first = [max(ids) < FIRST + parts[0].num_tokens for ids, _, label in found if not label]
    assert np.mean(of_first) == pytest.approx(0.75, abs=0.15)


class _Pairs:
    """Pairs of given sizes, again and again."""

    def __init__(self, sizes):
        self.sizes = np.array(sizes)

    def __len__(self):
        return len(self.sizes)

    def at(self, positions):
        sizes = self.sizes[positions % len(self.sizes)]
        return positions.astype("uint64"), Segments(positions, np.ones_like(sizes), positions, sizes - 4, np.ones_like(sizes))


@given(st.lists(st.integers(5, 40), min_size=1, max_size=60), st.integers(0, 5))
def test_no_row_is_empty_or_too_long_whatever_the_sizes(sizes, window):
    rows = PackedPairs(_Pairs(sizes), 40)
    _, segments = rows.at(np.arange(window * rows._rows, (window + 1) * rows._rows))
    there = segments.first_lengths > 0
    lengths = np.where(there, segments.first_lengths + segments.second_lengths + 3, 0)
    assert there[:, 0].all()
    assert (lengths.sum(axis=1) <= 40).all()
    pairs = np.sort(segments.first_starts[there]) - window * WINDOW
    assert pairs.tolist() == list(range(len(pairs)))
    assert (segments.labels == there).all()


# The plan of what shares a row.


@given(st.lists(st.integers(0, 30), min_size=2, max_size=40))
def test_a_plan_has_every_piece_once_in_rows_that_hold_it(histogram):
    capacity = len(histogram) - 1
    plan = packing_plan(histogram, capacity)
    assert (plan.lengths.sum(axis=1) <= capacity).all()
    for length in range(1, capacity + 1):
        of_length = plan.lengths == length
        counts = np.repeat(plan.counts, of_length.sum(axis=1))
        numbers = [first + i for first, count in zip(plan.firsts[of_length], counts, strict=True) for i in range(count)]
        assert sorted(numbers) == list(range(histogram[length]))


def test_a_piece_goes_to_the_fullest_row_with_room_for_it():
    plan = packing_plan(np.bincount([14, 12, 6, 5, 3]), 20)
    assert sorted(map(tuple, plan.lengths)) == [(12, 5, 3), (14, 6, 0)]  # in the emptiest row, 6 would leave no room for 3
    assert plan.counts.tolist() == [1, 1]


@pytest.mark.parametrize(("lengths", "capacity"), [((3, 129), 128), ((4, 14), 512)])
def test_rows_are_nearly_full_also_of_very_short_texts(rng, lengths, capacity):
    sizes = rng.integers(*lengths, 5000)
    plan = packing_plan(np.bincount(sizes, minlength=capacity + 1), capacity)
    assert sizes.sum() / (plan.counts.sum() * capacity) > 0.97
