"""Batches are a pure function of corpus, seed and index; masking and pairing keep their rates."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpus import encode_documents
from keras_bert_rebuild.data.masking import mask_tokens
from keras_bert_rebuild.data.pretraining_batches import BatchRecipe, PretrainingBatches, _truncate, make_batch
from keras_bert_rebuild.data.unigram import unigram_log_probabilities

PAD, CLS, SEP, MASK = 0, 1, 2, 3


@pytest.fixture
def corpus(rng):
    """Twenty documents of ten passages; a passage is a run of ids that tells which one it is."""
    documents = [[(d * 10 + p) * 20 + 100 + np.arange(rng.integers(2, 15)) for p in range(10)] for d in range(20)]
    return encode_documents(documents, lambda passage: list(passage))


@pytest.fixture
def recipe():
    return BatchRecipe(
        batch_size=8,
        seq_len=24,
        max_predictions=4,
        pad_id=PAD,
        cls_id=CLS,
        sep_id=SEP,
        mask_id=MASK,
        vocab_ids=np.arange(100, 5000),
    )


def passage_of(token):
    return (token - 100) // 20


def test_a_batch_depends_on_seed_and_index_alone(corpus, recipe):
    again = [make_batch(corpus, recipe, 5, i) for i in (7, 3)]
    make_batch(corpus, recipe, 9, 1)
    for (x, y), (x2, y2) in zip([make_batch(corpus, recipe, 5, i) for i in (7, 3)], again, strict=True):
        for a, b in zip((*x, *y), (*x2, *y2), strict=True):
            np.testing.assert_array_equal(a, b)
    a, b = make_batch(corpus, recipe, 5, 0)[0][0], make_batch(corpus, recipe, 6, 0)[0][0]
    assert (a != b).any()


def test_every_passage_comes_once_in_a_pass(corpus, recipe):
    firsts = [passage_of(row[1]) for index in range(25) for row in make_batch(corpus, recipe, 1, index)[1][0][..., 0]]
    assert sorted(firsts) == list(range(200))
    second_pass = [passage_of(row[1]) for index in range(25, 50) for row in make_batch(corpus, recipe, 1, index)[1][0][..., 0]]
    assert sorted(second_pass) == list(range(200))
    assert firsts != second_pass


def test_examples_have_the_form_of_bert(corpus, recipe):
    for index in range(10):
        (ids, segments, chosen), (labels, is_random) = make_batch(corpus, recipe, 2, index)
        labels = labels[..., 0]
        for row in range(8):
            length = int((labels[row] != PAD).sum())
            ends = np.flatnonzero(labels[row] == SEP)
            assert labels[row, 0] == CLS
            assert len(ends) == 2
            assert ends[1] == length - 1
            assert segments[row].tolist() == [0] * (ends[0] + 1) + [1] * (length - ends[0] - 1) + [0] * (24 - length)
            a, b = passage_of(labels[row, 1]), passage_of(labels[row, ends[0] + 1])
            assert is_random[row, 0] == (b != a + 1 or a // 10 != b // 10)
            if is_random[row, 0]:
                assert a // 10 != b // 10
            assert not chosen[row][np.isin(labels[row], (PAD, CLS, SEP))].any()
            assert 1 <= chosen[row].sum() <= 4
            np.testing.assert_array_equal(ids[row][chosen[row] == 0], labels[row][chosen[row] == 0])


def test_half_of_the_pairs_are_random_where_there_is_a_choice(corpus, recipe):
    nsp = np.concatenate([make_batch(corpus, recipe, 3, i)[1][1] for i in range(200)])
    assert 0.5 < nsp.mean() < 0.6  # a tenth of the passages end their document


def test_a_dataset_goes_on_or_repeats(corpus, recipe):
    data = PretrainingBatches(corpus, recipe, 4, steps=3)
    first = data[0][0][0]
    data.on_epoch_end()
    np.testing.assert_array_equal(data[0][0][0], make_batch(corpus, recipe, 4, 3)[0][0])
    repeating = PretrainingBatches(corpus, recipe, 4, steps=3, repeat=True)
    repeating.on_epoch_end()
    np.testing.assert_array_equal(repeating[0][0][0], first)
    assert isinstance(data, keras.utils.PyDataset)


def test_a_corpus_of_one_passage_is_an_error(recipe):
    with pytest.raises(ValueError, match="at least 2"):
        PretrainingBatches(encode_documents([[[5]]], list), recipe, 0, 1)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 30))
def test_the_longer_passage_is_cut_first(first, second, length):
    a, b = _truncate(np.arange(first), np.arange(second), length)
    assert len(a) + len(b) == min(first + second, length)
    if len(a) < first:
        assert len(a) >= len(b) or len(b) <= length - length // 2
    if len(b) < second:
        assert len(b) >= length // 2 or len(a) <= length - length // 2


def test_masking_keeps_its_rates(rng):
    ids = np.full((2000, 20), 50)
    maskable = np.ones_like(ids, bool)
    maskable[:, 0] = False
    got, chosen = mask_tokens(rng, ids, maskable, np.arange(100, 200), MASK, max_predictions=20)
    assert (chosen.sum(1) == 3).all()  # 15 % of 19, rounded
    assert not chosen[:, 0].any()
    kinds = got[chosen == 1]
    assert abs((kinds == MASK).mean() - 0.8) < 0.02
    assert abs((kinds >= 100).mean() - 0.1) < 0.02
    assert abs((kinds == 50).mean() - 0.1) < 0.02
    assert (got[chosen == 0] == 50).all()
    places = chosen.mean(0)[1:]
    assert abs(places - places.mean()).max() < 0.05


@given(st.integers(0, 10), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_masking_never_takes_more_than_it_may(available, limit, seed):
    maskable = np.zeros((1, 12), bool)
    maskable[0, :available] = True
    _, chosen = mask_tokens(
        np.random.default_rng(seed), np.full((1, 12), 9), maskable, np.arange(10, 20), MASK, limit, mask_rate=0.9
    )
    assert chosen.sum() == min(max(round(available * 0.9), 1), limit, available)
    assert not chosen[~maskable].any()


def test_documents_are_flattened_with_their_owners():
    corpus = encode_documents([["ab", ""], ["c", "def"]], lambda passage: [ord(c) for c in passage])
    assert len(corpus) == 3  # an empty passage is none
    assert [corpus.passage(i).tolist() for i in range(3)] == [[97, 98], [99], [100, 101, 102]]
    assert corpus.documents.tolist() == [0, 1, 1]


def test_unigram_probabilities_count_with_one_added():
    np.testing.assert_allclose(np.exp(unigram_log_probabilities(np.array([1, 1, 2]), 4)), [1 / 7, 3 / 7, 2 / 7, 1 / 7])
