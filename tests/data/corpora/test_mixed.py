"""Several corpora as one: the same documents, and examples of each by its share, as a function of the position alone."""

import numpy as np
import pytest
from helpers.small_corpus import FIRST, SPECIAL, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.documents import TokenCorpus, corpus_digest
from keras_bert_rebuild.data.corpora.held_out import SomeDocuments, repeated_passages, split_documents
from keras_bert_rebuild.data.corpora.mixed import WINDOW, MixedCorpus, window_quotas
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

SETTINGS = {"mask_rate": 0.15, "mask_mask_rate": 0.0, "mask_random_rate": 0.0}


@pytest.fixture(scope="module")
def corpora():
    """Three corpora of 6, 20 and 30 documents; an id says of which corpus and where it is."""
    whole = small_corpus(documents=56)
    return [SomeDocuments(whole, np.arange(*ends)) for ends in ((0, 6), (6, 26), (26, 56))]


def part_of(mixed, ids):
    return np.searchsorted(mixed.starts, np.asarray(ids) - FIRST, side="right") - 1


def corpus_ids(batch):
    ids = batch[0][0]
    return ids[ids >= FIRST]


def test_the_documents_are_those_of_the_corpora(corpora):
    mixed, whole = MixedCorpus(corpora, [1, 2, 3]), small_corpus(documents=56)
    assert mixed.num_tokens == whole.num_tokens
    np.testing.assert_array_equal(mixed.document_starts, whole.document_starts)
    np.testing.assert_array_equal(mixed.passage_starts, whole.passage_starts)
    positions = np.random.default_rng(0).integers(0, mixed.num_tokens, (7, 9))
    np.testing.assert_array_equal(mixed.ids_at(positions), whole.ids_at(positions))
    np.testing.assert_array_equal(mixed.ids_at(np.arange(8)[None]), whole.ids_at(np.arange(8)[None]))
    with pytest.raises(IndexError, match="positions must be in"):
        mixed.ids_at([mixed.num_tokens])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9))
def test_quotas_are_the_shares_rounded(weights):
    shares = np.array(weights) / sum(weights)
    quotas = window_quotas(shares)
    assert quotas.sum() == WINDOW
    assert (np.abs(quotas - shares * WINDOW) < 1).all()


@pytest.mark.parametrize("packed", [False, True])
def test_every_corpus_has_its_share_and_its_documents_are_read_equally_often(corpora, packed):
    mixed = MixedCorpus(corpora, [5, 3, 2])
    batches = pretraining_batches(
        mixed, 32, 24, 8, next_sentence=None, packed=packed, short_seq_prob=0.0, steps_per_epoch=WINDOW // 32, **SETTINGS
    )
    rows = np.zeros(3)
    times = np.zeros(mixed.num_tokens)
    for epoch in range(2):
        for index in range(len(batches)):
            batch = batches.batch(epoch, index)
            np.add.at(times, corpus_ids(batch) - FIRST, 1)
            parts = [np.unique(part_of(mixed, row[row >= FIRST])) for row in batch[0][0]]
            assert all(len(found) == 1 for found in parts)
            np.add.at(rows, np.concatenate(parts), 1)
    np.testing.assert_array_equal(rows, 2 * window_quotas(mixed.shares))
    for first, stop in zip(mixed.starts[:-1], mixed.starts[1:], strict=True):
        assert np.ptp(times[first:stop]) <= 1
    assert times[: mixed.starts[1]].mean() > 10 * times[mixed.starts[2] :].mean()


def test_a_pass_reads_every_corpus_at_least_once(corpora):
    mixed = MixedCorpus(corpora, [5, 3, 2])
    batches = pretraining_batches(mixed, 32, 24, 8, next_sentence=None, short_seq_prob=0.0, **SETTINGS)
    seen = np.unique(np.concatenate([corpus_ids(batches.batch(0, index)) for index in range(len(batches))]))
    assert len(seen) == mixed.num_tokens


@pytest.mark.parametrize("options", [{"next_sentence": "nsp"}, {"next_sentence": "sop"}, {"next_sentence": None, "packed": True}])
def test_a_batch_is_a_function_of_seed_epoch_and_index(corpora, options):
    mixed = MixedCorpus(corpora, [1, 1, 1])

    def ids(seed, epoch, index, **process):
        batches = pretraining_batches(mixed, 8, 32, 4, seed=seed, steps_per_epoch=40, **options, **process)
        return batches.batch(epoch, index)[0][0]

    one = ids(0, 1, 3)
    np.testing.assert_array_equal(one, ids(0, 1, 3))
    assert not any(np.array_equal(one, other) for other in (ids(1, 1, 3), ids(0, 0, 3), ids(0, 1, 4)))
    np.testing.assert_array_equal(ids(0, 0, 43 - 40), ids(0, 0, 3))
    halves = [ids(0, 1, 3, process_index=i, process_count=2) for i in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves), one)


@pytest.mark.parametrize("options", [{"next_sentence": "nsp"}, {"next_sentence": None}, {"next_sentence": None, "packed": True}])
def test_equal_corpora_of_a_mixture_share_no_random_numbers(corpora, options):
    mixed = MixedCorpus([corpora[0]] * 3, [1, 1, 1])
    keys, _ = pretraining_batches(mixed, 8, 32, 4, **options).examples.at(np.arange(3 * WINDOW))
    assert len(np.unique(keys)) == len(keys)


def test_the_order_of_the_corpora_differs_between_windows(corpora):
    mixed = MixedCorpus(corpora, [1, 1, 1])
    _, segments = pretraining_batches(mixed, 8, 32, 4, next_sentence=None).examples.at(np.arange(3 * WINDOW))
    windows = part_of(mixed, segments.first_starts + FIRST).reshape(3, WINDOW)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert 0.25 < (windows[one] == windows[other]).mean() < 0.42  # a third by chance


def test_a_random_next_segment_is_of_another_document_of_the_same_corpus(corpora):
    mixed = MixedCorpus(corpora, [1, 1, 1])
    batches = pretraining_batches(mixed, 64, 48, 8, random_next_rate=1.0, short_seq_prob=0.0, steps_per_epoch=4, **SETTINGS)
    pairs = 0
    for index in range(4):
        (ids, segments, _), _ = batches.batch(0, index)
        for row, second in zip(ids, segments, strict=True):
            first, second = (row[(row >= FIRST) & (second == side)] for side in (0, 1))
            if len(first) and len(second):
                documents = [np.searchsorted(mixed.document_starts, each[0] - FIRST, side="right") for each in (first, second)]
                assert documents[0] != documents[1]
                assert part_of(mixed, first[:1]) == part_of(mixed, second[:1])
                pairs += 1
    assert pairs > 200


def repeating(seed):
    """Documents of passages that other corpora of this kind have too."""
    rng = np.random.default_rng(seed)
    passages = [[10 + number, 150 + number] for number in rng.permutation(120)[:30]]
    ids = np.array(passages, "int32").ravel()
    return TokenCorpus(ids, np.arange(0, 61, 2), np.arange(0, 61, 6), [*SPECIAL, *map(str, range(300))])


def test_what_is_held_out_of_one_corpus_is_not_in_training_in_another():
    mixed = MixedCorpus([repeating(0), repeating(1)], [3, 1])
    assert len(repeated_passages(mixed.parts[0], mixed.parts[1]))
    train, held_out = split_documents(mixed, 0.3, seed=1)
    assert not len(repeated_passages(held_out, train))
    assert held_out.num_tokens
    np.testing.assert_array_equal(train.shares, mixed.shares)
    np.testing.assert_array_equal(held_out.shares, mixed.shares)


def test_a_mix_is_identified_by_its_corpora_and_shares(corpora):
    digests = [
        corpus_digest(MixedCorpus(parts, weights))
        for parts, weights in ((corpora, [1, 1, 1]), (corpora, [2, 2, 2]), (corpora, [1, 1, 2]), (corpora[::-1], [1, 1, 1]))
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_without_weights_the_shares_are_those_of_the_tokens(corpora):
    mixed = MixedCorpus(corpora)
    np.testing.assert_allclose(mixed.shares, [part.num_tokens / mixed.num_tokens for part in corpora])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "a weight for each of 3 corpora; got 2"),
        ([1, 1, 0], "must be a number above 0; got 0 for corpus 2"),
        ([1, 1, float("nan")], "must be a number above 0; got nan"),
        ([1, 1, 1e-5], "at least one example in 1,024; the share of corpus 2 is 5.00e-06"),
    ],
)
def test_impossible_weights_are_one_sentence(corpora, weights, message):
    with pytest.raises(ValueError, match=message):
        MixedCorpus(corpora, weights)


def test_other_vocabularies_and_corpora_of_one_document_are_refused(corpora):
    with pytest.raises(ValueError, match="the same vocabulary and case; those of corpus 1 differ"):
        MixedCorpus([corpora[0], repeating(0)])
    with pytest.raises(ValueError, match="at least one corpus"):
        MixedCorpus([])
    alone = SomeDocuments(small_corpus(documents=56), [0])
    with pytest.raises(ValueError, match="at least 2 documents; got 1"):
        pretraining_batches(MixedCorpus([corpora[1], alone]), 8, 32, 4)
