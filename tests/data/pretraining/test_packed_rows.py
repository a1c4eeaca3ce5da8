"""Packed rows hold several sequences that do not see each other, and hardly any padding."""

import itertools

import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, PAD, SEP, SPECIAL, document_of, small_corpus

from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.data.pretraining.packed_rows import PackedRows
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

SEQ_LEN = 64


@pytest.fixture(scope="module")
def corpus():
    """Documents of 4 to 112 tokens."""
    return small_corpus(documents=150, passages=4, longest=28)


def batches(corpus, batch_size=8, **settings):
    defaults = {"short_seq_prob": 0.0, "next_sentence": None, "packed": True}
    return pretraining_batches(corpus, batch_size, SEQ_LEN, 10, **{**defaults, **settings})


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


def test_a_batch_depends_on_seed_epoch_and_index_alone(corpus):
    data = batches(corpus, seed=1)
    wanted = data.batch(2, 3)[0][0]
    data.batch(0, 0)
    assert (data.batch(2, 3)[0][0] == wanted).all()
    for other in (data.batch(2, 2), data.batch(1, 3), batches(corpus, seed=2).batch(2, 3)):
        assert (other[0][0] != wanted).any()


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
        rows = PackedRows(store, SEQ_LEN, seed=3)
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
    rows = PackedRows(TokenCorpus(np.zeros(starts[-1], "int32"), starts, starts, SPECIAL), SEQ_LEN)
    pieces = rows.at(np.arange(len(rows) * passes))
    before = pieces.starts[pieces.lengths == 7] % size / length
    counts = np.bincount(before.astype(int), minlength=full + 1)
    assert (before == np.rint(before)).all()
    assert len(before) == counts.sum() == 600
    assert len(counts) == full + 1
    expected = 600 / (full + 1)
    assert ((counts - expected) ** 2 / expected).sum() <= full + 5 * np.sqrt(2 * full)


def test_processes_share_the_rows_of_a_batch(corpus):
    whole = batches(corpus, draws=True).batch(1, 2)
    parts = [batches(corpus, draws=True, process_index=i, process_count=2).batch(1, 2) for i in range(2)]
    for i, array in enumerate(whole[0]):
        assert (np.concatenate([part[0][i] for part in parts]) == array).all()


def test_a_batch_may_begin_in_one_pass_and_end_in_the_next(corpus):
    data = batches(corpus, 8, steps_per_epoch=1000, short_seq_prob=0.3)
    of_one = batches(corpus, 1, steps_per_epoch=8000, short_seq_prob=0.3)
    index = len(data.examples) // 8  # the first batch with rows of two passes
    rows = np.concatenate([of_one.batch(0, 8 * index + i)[0][0] for i in range(8)])
    assert (data.batch(0, index)[0][0] == rows).all()


def test_the_work_of_a_batch_counts_its_sequences(corpus):
    data = batches(corpus)
    batch = data.batch(0, 0)
    lengths, predictions = data.work(batch)
    assert lengths.sum() == (labels_of(batch) != PAD).sum()
    assert len(lengths) == (labels_of(batch) == CLS).sum()
    assert predictions == batch[0][2].sum()


@pytest.mark.parametrize("settings", [{"lengths": [32, 64]}, {"order": True}])
def test_what_packed_rows_cannot_have_is_refused(corpus, settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be None or left out for packed rows"):
        batches(corpus, **settings)


def test_a_corpus_too_small_for_a_batch_is_an_error(corpus):
    with pytest.raises(ValueError, match=r"at least one batch of 10000 examples; a pass has [0-9]+ examples"):
        batches(corpus, 10000)
