"""Packed rows hold several sequences that do not see each other, and hardly any padding."""

import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, PAD, SEP, document_of, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.pretraining.packed_batches import PackedBatches, block_diagonal_mask, packing_plan

SEQ_LEN = 64


@pytest.fixture(scope="module")
def corpus():
    """Documents of 4 to 112 tokens."""
    return small_corpus(documents=150, passages=4, longest=28)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=40), st.integers(1, 8))
def test_a_plan_has_every_piece_once_in_rows_that_hold_it(histogram, most_pieces):
    capacity = len(histogram) - 1
    plan = packing_plan(histogram, capacity, most_pieces)
    assert (plan.lengths.sum(axis=1) <= capacity).all()
    assert ((plan.lengths > 0).sum(axis=1) <= most_pieces).all()
    for length in range(1, capacity + 1):
        of_length = plan.lengths == length
        counts = np.repeat(plan.counts, of_length.sum(axis=1))
        numbers = [first + i for first, count in zip(plan.firsts[of_length], counts, strict=True) for i in range(count)]
        assert sorted(numbers) == list(range(histogram[length]))


def test_rows_are_nearly_full(rng):
    lengths = rng.integers(3, 129, 5000)
    plan = packing_plan(np.bincount(lengths, minlength=129), 128)
    assert lengths.sum() / (plan.counts.sum() * 128) > 0.97


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_has_every_token_once(corpus, epoch):
    data = PackedBatches(corpus, 1, SEQ_LEN, 10, seed=2)
    labels = np.concatenate([data.batch(epoch, i).labels.ravel() for i in range(len(data))])
    assert sorted(labels[labels >= FIRST]) == list(range(FIRST, FIRST + corpus.num_tokens))


def test_sequences_have_ids_and_positions_of_their_own(corpus):
    batch = PackedBatches(corpus, 8, SEQ_LEN, 10).batch(0, 0)
    several = 0
    for labels, sequence_ids, positions in zip(batch.labels, batch.sequence_ids, batch.positions, strict=True):
        assert ((sequence_ids == 0) == (labels == PAD)).all()
        several += sequence_ids.max() > 1
        for number in range(1, sequence_ids.max() + 1):
            own = np.flatnonzero(sequence_ids == number)
            assert positions[own].tolist() == list(range(len(own)))
            assert labels[own[0]] == CLS
            assert labels[own[-1]] == SEP
            assert (np.diff(labels[own[1:-1]]) == 1).all()
            assert len(set(document_of(corpus, labels[own[1:-1]]))) == 1
    assert several
    assert all(array.dtype == np.int32 for array in vars(batch).values())
    assert batch.chosen.sum(axis=1).min() >= 1
    assert batch.chosen.sum(axis=1).max() <= 10


def test_a_batch_depends_on_seed_epoch_and_index_alone(corpus):
    data = PackedBatches(corpus, 8, SEQ_LEN, 10, seed=1)
    wanted = data.batch(2, 3).tokens
    data.batch(0, 0)
    assert (data.batch(2, 3).tokens == wanted).all()
    for other in (data.batch(2, 2), data.batch(1, 3), PackedBatches(corpus, 8, SEQ_LEN, 10, seed=2).batch(2, 3)):
        assert (other.tokens != wanted).any()


def test_which_sequences_share_a_row_differs_between_epochs(corpus):
    data = PackedBatches(corpus, 1, SEQ_LEN, 10)

    def meetings(epoch):
        rows = (data.batch(epoch, i).labels[0] for i in range(len(data)))
        return {frozenset(document_of(corpus, row[row >= FIRST])) for row in rows}

    first, second = ({meeting for meeting in meetings(epoch) if len(meeting) > 1} for epoch in (0, 1))
    assert len(first & second) < len(first) / 2


def test_the_mask_lets_a_token_see_its_own_sequence():
    mask = block_diagonal_mask(np.array([[1, 1, 2, 0]]))
    assert mask.shape == (1, 1, 4, 4)
    assert mask[0, 0].astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_a_corpus_too_small_for_a_batch_is_an_error(corpus):
    with pytest.raises(ValueError, match=r"at least one batch of 10000; a pass has [0-9]+ rows"):
        PackedBatches(corpus, 10000, SEQ_LEN, 10)
