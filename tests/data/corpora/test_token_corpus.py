"""A corpus in memory has a digest."""

import hashlib
from dataclasses import replace

import numpy as np
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.token_corpus import TokenCorpus, corpus_digest


def test_the_digest_covers_everything_in_a_corpus():
    ids, passages, documents = np.array([2, 0, 1], "int32"), np.array([0, 1, 2, 3]), np.array([0, 2, 3])
    corpus = TokenCorpus(ids, passages, documents, ["a", "b", "c"])
    content = passages.astype("<i8").tobytes() + documents.astype("<i8").tobytes() + ids.astype("<i4").tobytes() + b"a\nb\nc"
    changes = [
        {},
        {"ids": ids[::-1]},
        {"passage_starts": documents},
        {"document_starts": np.array([0, 1, 3])},
        {"vocabulary": ["a", "b", "d"]},
    ]
    assert len({corpus_digest(replace(corpus, **change)) for change in changes}) == 5
    assert corpus_digest(corpus) == hashlib.sha256(content).hexdigest()
    assert corpus_digest(replace(corpus, ids=ids.astype("uint16"))) == corpus_digest(corpus)


def test_the_digest_does_not_depend_on_block_size_or_kind_of_corpus(monkeypatch):
    corpus = small_corpus()
    digests = set()
    for size in (1, 100, 10**6):
        monkeypatch.setattr("keras_bert_rebuild.data.corpora.token_corpus._BLOCK", size)
        digests |= {corpus_digest(corpus), corpus_digest(SomeDocuments(corpus, np.arange(20)))}
    assert len(digests) == 1
