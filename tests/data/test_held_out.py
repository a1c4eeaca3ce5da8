"""Parting a corpus by document loses nothing and shares nothing."""

import itertools

import numpy as np
import pytest
from small_corpus import document_of, small_corpus

from keras_bert_rebuild.data.held_out import SomeDocuments, split_documents
from keras_bert_rebuild.data.pretraining_batches import pretraining_batches


def documents(corpus):
    """The documents as lists of passages of ids."""
    starts, passages = np.asarray(corpus.document_starts), np.asarray(corpus.passage_starts)
    cut = [corpus.ids_at(np.arange(a, b)).tolist() for a, b in itertools.pairwise(passages)]
    first = np.searchsorted(passages, starts)
    return [cut[a:b] for a, b in itertools.pairwise(first)]


def test_some_documents_are_those_documents():
    corpus = small_corpus()
    whole = documents(corpus)
    chosen = [0, 3, 4, 19]
    assert documents(SomeDocuments(corpus, chosen)) == [whole[i] for i in chosen]


def test_both_parts_together_are_the_corpus():
    corpus = small_corpus(documents=40)
    train, held_out = split_documents(corpus, 0.2, seed=3)
    parts = documents(train) + documents(held_out)
    assert sorted(parts) == sorted(documents(corpus))
    assert len(documents(held_out)) == 8
    assert train.num_tokens + held_out.num_tokens == corpus.num_tokens


def test_the_parting_is_a_function_of_the_seed():
    corpus = small_corpus()
    chosen = [documents(split_documents(corpus, 0.25, seed)[1]) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_batches_of_the_parts_never_meet():
    corpus = small_corpus(documents=30)
    seen = []
    for part in split_documents(corpus, 0.3):
        batches = pretraining_batches(part, 4, 24, 3, masking="token", mask_rate=0.15, mask_mask_rate=0.0, mask_random_rate=0.0)
        ids = np.concatenate([batches[i][0][0].ravel() for i in range(len(batches))])
        seen.append(set(document_of(corpus, ids[ids >= 5])))
    assert seen[0]
    assert seen[1]
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(("count", "share"), [(5, 0.5), (20, 0.0), (20, 1.0), (20, 0.99)])
def test_a_corpus_too_small_to_be_parted_is_an_error(count, share):
    with pytest.raises(ValueError, match=r"hold out"):
        split_documents(small_corpus(documents=count), share)


def test_a_position_outside_is_an_error():
    _, held_out = split_documents(small_corpus(), 0.25)
    with pytest.raises(IndexError, match="positions must be in"):
        held_out.ids_at([held_out.num_tokens])
