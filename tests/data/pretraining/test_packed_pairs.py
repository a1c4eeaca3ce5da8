"""Packed rows of pairs have the pairs of unpacked rows, in windows, and hardly any padding."""

import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, PAD, SEP, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.pretraining.packed_rows import MORE, WINDOW, PackedPairs
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.pretraining.segment_pairs import Segments
from keras_bert_rebuild.layers.masks import most_sequences

SEQ_LEN = 64


@pytest.fixture(scope="module")
def corpus():
    """Documents of 4 to 112 tokens."""
    return small_corpus(documents=150, passages=4, longest=28)


def batches(corpus, batch_size=8, next_sentence="nsp", **settings):
    return pretraining_batches(corpus, batch_size, SEQ_LEN, 10, next_sentence=next_sentence, **{"packed": True, **settings})


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
    data = batches(corpus, WINDOW, packed=False, steps_per_epoch=10**3, **settings)
    found = []
    for index in range(first // WINDOW, -(-(first + count) // WINDOW)):
        (_, segments, _), (labels, classes) = data.batch(0, index)
        for ids, of_pair, label in zip(labels[..., 0], segments, classes[:, 0], strict=True):
            found.append((tuple(ids[ids != PAD]), tuple(of_pair[ids != PAD]), int(label)))
    return found[first % WINDOW :][:count]


def test_every_row_of_a_window_has_random_numbers_of_its_own(corpus):
    examples = batches(corpus).examples
    keys, _ = examples.at(np.arange(examples._rows))
    assert len(np.unique(keys)) == len(keys)


@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_a_window_has_the_first_of_the_pairs_that_unpacked_rows_have(corpus, next_sentence):
    rows = batches(corpus, 1, next_sentence).examples._rows
    data = batches(corpus, rows, next_sentence, steps_per_epoch=10**3)
    for window in (0, 1):
        packed = sequences(data.batch(0, window))
        expected = unpacked(corpus, window * WINDOW, WINDOW + MORE, next_sentence=next_sentence)
        assert sorted(packed) == sorted(expected[: len(packed)])
        assert WINDOW - 2 * MORE < len(packed) <= WINDOW + MORE


@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_rows_are_full_of_pairs_between_their_special_tokens(corpus, next_sentence):
    data = batches(corpus, 64, next_sentence)
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


def test_a_batch_depends_on_seed_epoch_and_index_alone(corpus):
    data = batches(corpus, seed=1)
    wanted = data.batch(2, 3)
    data.batch(0, 0)
    for one, other in zip((*wanted[0], *wanted[1]), (lambda x, y: (*x, *y))(*data.batch(2, 3)), strict=True):
        np.testing.assert_array_equal(one, other)
    for other in (data.batch(2, 2), data.batch(1, 3), batches(corpus, seed=2).batch(2, 3)):
        assert (other[0][0] != wanted[0][0]).any()


def test_processes_share_the_rows_of_a_batch(corpus):
    whole = batches(corpus).batch(1, 2)
    parts = [batches(corpus, process_index=i, process_count=2).batch(1, 2) for i in range(2)]
    for i, arrays in enumerate(whole):
        for j, array in enumerate(arrays):
            assert (np.concatenate([part[i][j] for part in parts]) == array).all()


def test_a_batch_may_begin_in_one_window_and_end_in_the_next(corpus):
    data, of_one = (batches(corpus, size, steps_per_epoch=10**6) for size in (8, 1))
    index = data.examples._rows // 8
    rows = [of_one.batch(0, 8 * index + i)[0][0] for i in range(8)]
    assert (data.batch(0, index)[0][0] == np.concatenate(rows)).all()


def test_an_epoch_is_about_a_pass(corpus):
    data = batches(corpus, 1)
    pairs = sum(len(sequences(data.batch(0, i))) for i in range(len(data)))
    assert pairs == pytest.approx(len(batches(corpus, 1, packed=False)), rel=0.1)


def test_the_work_of_a_batch_counts_its_pairs(corpus):
    data = batches(corpus)
    batch = data.batch(0, 0)
    lengths, predictions = data.work(batch)
    assert sorted(lengths) == sorted(len(ids) for ids, _, _ in sequences(batch))
    assert predictions == batch[0][2].sum()


def test_rows_have_pairs_of_several_corpora_by_their_shares(corpus):
    parts = [SomeDocuments(corpus, np.arange(*ends)) for ends in ((0, 50), (50, 150))]
    found = sequences(batches(MixedCorpus(parts, [3, 1]), 64).batch(0, 0))
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
