"""Exact search: the best rows of every query, found block by block; ties are ranked alike wherever they are."""

import numpy as np
import pyarrow as pa
import pytest
from helpers.small_search import random_of
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search import dense_vectors
from keras_bert_rebuild.search.dense_vectors import DenseVectors
from keras_bert_rebuild.search.exact_search import Best, Block
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.settings import STORAGES as STORAGES_OF


class NoVectors:
    """A storage of blocks that have ids alone."""

    @staticmethod
    def arrays(columns):
        return columns


@given(st.data())
def test_the_best_do_not_depend_on_the_blocks(data):
    queries, count, top_k = (data.draw(st.integers(1, most)) for most in (4, 40, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    scores = rng.integers(0, 4, (queries, count)).astype("float32")  # many are equal
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    names, rows = [f"d{number:02d}" for number in rng.permutation(count)], rng.permutation(count)
    table, best = pa.table({"id": names, "_rowid": pa.array(rows, "uint64")}), Best(queries, top_k)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=5)))
    for first, last in zip([0, *cuts], [*cuts, count], strict=True):
        best.add(scores[:, first:last], Block(table.slice(first, last - first), NoVectors))
    for own, ranking in zip(scores, best.rankings(), strict=True):
        expected = sorted((i for i in range(count) if own[i] > -np.inf), key=lambda i: (own[i], names[i]), reverse=True)[:top_k]
        assert ranking.ids.tolist() == [names[i] for i in expected]
        assert ranking.rows.tolist() == rows[expected].tolist()
        assert ranking.scores.tolist() == own[expected].tolist()


COUNT = 3000
WIDTH = 96
# Three texts, thousands of times, in an order that is not that of the ids.
CORPUS = [Document(f"d{name:05d}", "", f"text {name % 3}") for name in np.random.default_rng(3).permutation(COUNT)]
QUERIES = ["a", "b", "c", "d"]


class Numbers:
    """Vectors of numbers whose products are rounded, so that the order of a sum matters."""

    width = WIDTH
    vectors = "dense"

    def vector(self, text):
        return random_of(text).normal(size=WIDTH).astype("float32")

    def queries(self, texts):
        return map(self.vector, texts)

    documents = queries

    def description(self):
        return {}


class Tokens(Numbers):
    vectors = "tokens"

    def vector(self, text):
        return random_of(text).normal(size=(2 + len(text) % 2, WIDTH)).astype("float32")


class Weights(Numbers):
    vectors = "sparse"

    def vector(self, text):
        return np.arange(WIDTH, dtype="int32"), random_of(text).uniform(0.1, 1, WIDTH).astype("float32")


def opened(folder, kind, corpus=CORPUS, **options):
    index = Index.open(folder, kind(), **options)
    index.add(corpus)
    return index


def promised(index, query, top_k):
    """Ids from the exact scores of one document of each text."""
    names = {document.id: document.text for document in CORPUS[:20]}
    (ranking,) = index.search_vectors([index.retriever.vector(query)], len(names), ids=[[*names]])
    score = {names[name]: score for name, score in zip(ranking.ids, ranking.scores.tolist(), strict=True)}
    return sorted((document.id for document in CORPUS), key=lambda name: (score[f"text {int(name[1:]) % 3}"], name))[::-1][:top_k]


STORAGES = [
    *((Numbers, dtype, rescoring) for dtype in ("int8", "binary") for rescoring in ("none", "float32")),
    *((Numbers, dtype, None) for dtype in ("float32", "float16")),
    *((Tokens, dtype, None) for dtype in ("float32", "float16", "int8")),
    *((Weights, dtype, None) for dtype in ("float32", "float16")),
]


@pytest.mark.parametrize(("kind", "dtype", "rescoring"), STORAGES)
@pytest.mark.parametrize("block", [1024, 997])
def test_thousands_of_equal_documents_come_by_descending_id(tmp_path, monkeypatch, kind, dtype, rescoring, block):
    monkeypatch.setattr(STORAGES_OF[kind.vectors], "BLOCK", block)
    index = opened(tmp_path / "index", kind, dtype=dtype, rescoring=rescoring)
    for top_k in (1, 7, 100, 1500):
        for queries in (QUERIES, QUERIES[:1]):
            for query, hits in zip(queries, index.search(queries, top_k), strict=True):
                names = [hit.id for hit in hits]
                if index.settings.rescoring == "none" and dtype != "binary":
                    assert names == promised(index, query, top_k)
                for text in range(3):  # the others choose candidates by fewer bits, but never some of equal documents by chance
                    found = [name for name in names if int(name[1:]) % 3 == text]
                    assert found == [f"d{name:05d}" for name in reversed(range(text, COUNT, 3))][: len(found)]


def test_later_stages_keep_the_order(tmp_path, monkeypatch):
    monkeypatch.setattr(DenseVectors, "BLOCK", 700)
    index, tokens = opened(tmp_path / "index", Numbers), opened(tmp_path / "tokens", Tokens, CORPUS[::-1])
    expected = index.search(QUERIES, 50)
    for query, hits in zip(QUERIES, tokens.search(QUERIES, 20, candidates=index, depth=50), strict=True):
        names = {hit.id for hit in expected[QUERIES.index(query)]}
        assert [hit.id for hit in hits] == [name for name in promised(tokens, query, COUNT) if name in names][:20]
    for query, hits in zip(QUERIES, index.search(QUERIES, 20, fuse=[tokens], depth=50), strict=True):
        gains = {}
        for ranking in (promised(index, query, 50), promised(tokens, query, 50)):
            for rank, name in enumerate(ranking, 1):
                gains[name] = gains.get(name, 0) + 1 / (60 + rank)
        assert [hit.id for hit in hits] == sorted(gains, key=lambda name: (np.float32(gains[name]), name))[::-1][:20]
    words = index.search(["text"], 40, by="bm25")[0]  # all have the same words but one
    assert [hit.id for hit in words] == sorted((document.id for document in CORPUS), reverse=True)[:40]


def test_equal_pairs_are_scored_once_by_a_reranker(tmp_path):
    class Noisy:
        """A reranker whose last bits depend on the batch."""

        def scores_of(self, pairs):
            self.pairs = pairs
            return [len(text) + number * 1e-6 for number, (_, text) in enumerate(pairs)]

    index, reranker = opened(tmp_path / "index", Numbers), Noisy()
    for found, hits in zip(index.search(["a"], 90), index.search(["a"], 90, rerank=reranker, depth=90), strict=True):
        assert [hit.id for hit in hits] == [hit.id for hit in found]
    assert reranker.pairs == [("a", index.document(found[0].id).text)]


# Dense vectors: their signs as bits.


@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 384])
def test_bits_are_the_signs_of_numbers(width):
    vectors = np.random.default_rng(width).normal(size=(5, width)).astype("float32")
    vectors[0] = 0
    bits = dense_vectors.to_bits(vectors)
    assert bits.shape == (5, -(-width // 8))
    np.testing.assert_allclose(dense_vectors.from_bits(bits, width), np.where(vectors > 0, 1, -1) / width**0.5, rtol=1e-6)


@pytest.mark.parametrize("count", [dense_vectors.count_bits, dense_vectors._count_by_table], ids=["numpy", "table"])
def test_the_distance_counts_the_signs_that_differ(count, monkeypatch):
    monkeypatch.setattr(dense_vectors, "count_bits", count)
    vectors, query = np.random.default_rng(1).normal(size=(20, 200)), np.random.default_rng(2).normal(size=(1, 200))
    bits, own = (dense_vectors._words(dense_vectors.to_bits(each)) for each in (vectors, query))
    assert dense_vectors.hamming(bits, own[0]).tolist() == ((vectors > 0) != (query > 0)).sum(1).tolist()
