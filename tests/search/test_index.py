"""Search in an index."""

import sys
import tracemalloc
import types

import numpy as np
import pytest
from helpers.small_search import WIDTH, WholeNumbers, Words, WordVectors, brute_force, small_corpus, words
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.retrievers import check_judgements

CORPUS = small_corpus(60)
QUERIES = [words(np.random.default_rng(i)) for i in range(5)]
KINDS = [WholeNumbers, Words, WordVectors]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("indexes")


@pytest.mark.parametrize("retriever", KINDS)
@settings(max_examples=8, deadline=None)
@given(block=st.integers(1, 70), top_k=st.integers(1, 70))
def test_a_search_is_exact_in_blocks_of_any_size(folder, retriever, block, top_k):
    model = retriever()
    index = Index.build(CORPUS, folder / f"{retriever.__name__}", model, block=block, overwrite=True)
    assert len(index) == 60
    for query, hits in zip(QUERIES, index.search(QUERIES, top_k), strict=True):
        assert [tuple(hit) for hit in hits] == brute_force(model, CORPUS, query, top_k)


def test_queries_may_be_more_than_are_searched_at_once(folder, monkeypatch):
    index = Index.build(CORPUS, folder / "parts", WholeNumbers())
    expected, done = index.search(QUERIES, 3), []
    monkeypatch.setattr("keras_bert_rebuild.search.index._QUERIES", 2)
    assert index.search(QUERIES, 3, progress=done.append) == expected
    assert done == [2, 2, 1]


@pytest.mark.parametrize(("dtype", "rescoring"), [("float16", None), ("int8", "float32"), ("binary", "float32"), ("int8", "none")])
def test_compressed_vectors_find_the_exact_answer_among_enough_candidates(folder, dtype, rescoring):
    model = WholeNumbers()
    index = Index.build(CORPUS, folder / f"{dtype}-{rescoring}", model, dtype=dtype, rescoring=rescoring, block=13)
    assert (index.dtype, index.rescoring) == (dtype, rescoring or "none")
    found = index.search(QUERIES, 5, rescore=12)
    for query, hits in zip(QUERIES, found, strict=True):
        expected = brute_force(model, CORPUS, query, 60)
        if rescoring == "none":  # seven bits a number
            np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected[:5]], atol=0.6)
        else:
            assert [tuple(hit) for hit in hits] == expected[:5]


def test_signs_alone_rank_by_the_numbers_of_the_query(folder):
    model = WholeNumbers()
    index = Index.build(CORPUS, folder / "signs", model, dtype="binary", rescoring="none")
    query = model.vector("a query")
    hits = index.search(["a query"], 60, rescore=1)[0]
    texts = {document.id: document.full_text for document in CORPUS}
    expected = [query @ np.where(model.vector(texts[hit.id]) > 0, 1, -1) / WIDTH**0.5 for hit in hits]
    np.testing.assert_allclose([hit.score for hit in hits], expected, rtol=1e-5, atol=1e-6)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_sparse_search_is_the_dense_product_of_real_weights(folder):
    class Weights(Words):
        def vector(self, text):
            ids, counts = super().vector(text)
            return ids, counts * np.float32(0.37) + np.float32(0.1)

    model = Weights()
    index = Index.build(CORPUS, folder / "weights", model, block=17)
    dense = np.zeros((60, WIDTH))
    for row, document in zip(dense, CORPUS, strict=True):
        ids, weights = model.vector(document.full_text)
        row[ids] = weights
    query = np.zeros(WIDTH)
    ids, weights = model.vector(QUERIES[0])
    query[ids] = weights
    ((rows, scores),) = index.search_vectors([(ids, weights)], 60)
    np.testing.assert_allclose(scores, (dense @ query)[rows], rtol=1e-6)
    assert set(rows.tolist()) == set(np.flatnonzero(dense @ query).tolist())  # the others share no token


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
def test_vectors_of_tokens_are_stored_in_less(folder, dtype):
    model = WordVectors()
    index = Index.build(CORPUS, folder / f"tokens-{dtype}", model, dtype=dtype, block=11)
    for query, hits in zip(QUERIES, index.search(QUERIES, 60), strict=True):
        expected = dict(brute_force(model, CORPUS, query, 60))
        np.testing.assert_allclose(
            [hit.score for hit in hits], [expected[hit.id] for hit in hits], atol=0.5 if dtype == "int8" else 0
        )


def test_late_interaction_scores_the_candidates_of_another_index(folder):
    dense = Index.build(CORPUS, folder / "first", WholeNumbers())
    other_order = [CORPUS[i] for i in np.random.default_rng(5).permutation(60)]
    index = Index.build(other_order, folder / "second", WordVectors(), block=9)
    for query, hits in zip(QUERIES, index.search(QUERIES, 4, candidates=dense, depth=10), strict=True):
        names = {name for name, _ in brute_force(WholeNumbers(), CORPUS, query, 10)}
        expected = [pair for pair in brute_force(WordVectors(), CORPUS, query, 60) if pair[0] in names]
        assert [tuple(hit) for hit in hits] == expected[:4]
    few = Index.build(CORPUS[:10], folder / "few", WordVectors())
    with pytest.raises(ValueError, match=r"expected another index of the same documents; .*few has no 'd\d+' of .*first"):
        few.search(QUERIES, candidates=dense)


@pytest.mark.parametrize(("top_k", "depth"), [(4, 10), (60, 7), (60, 60)])
def test_rankings_of_several_indexes_are_fused_by_reciprocal_ranks(folder, top_k, depth):
    models = [WholeNumbers(), Words(), WordVectors()]
    index, *others = [Index.build(CORPUS, folder / f"fused-{type(model).__name__}", model, block=23) for model in models]
    for query, hits in zip(QUERIES, index.search(QUERIES, top_k, fuse=others, depth=depth), strict=True):
        sums = {}
        for model in models:
            for rank, (name, _) in enumerate(brute_force(model, CORPUS, query, depth), 1):
                sums[name] = sums.get(name, 0) + 1 / (60 + rank)
        expected = sorted(sums, key=lambda name: (np.float32(sums[name]), name), reverse=True)[:top_k]
        assert [hit.id for hit in hits] == expected
        np.testing.assert_allclose([hit.score for hit in hits], [sums[name] for name in expected], rtol=1e-6)


def test_a_reranker_scores_what_was_fused(folder):
    class ByLength:
        def scores_of(self, pairs):
            return [len(text) for _, text in pairs]

    index, other = (Index.build(CORPUS, folder / f"both-{kind.__name__}", kind()) for kind in (WholeNumbers, WordVectors))
    lengths = {document.id: len(document.full_text) for document in CORPUS}
    found = index.search(QUERIES, 60, fuse=[other], depth=6)
    for fused, hits in zip(found, index.search(QUERIES, 3, fuse=[other], depth=6, reranker=ByLength()), strict=True):
        best = sorted((hit.id for hit in fused[:6]), key=lambda name: (lengths[name], name), reverse=True)
        assert [tuple(hit) for hit in hits] == [(name, lengths[name]) for name in best[:3]]


@pytest.mark.parametrize("kind", KINDS)
def test_documents_and_vectors_are_handed_on_a_block_at_a_time(folder, kind):
    model = kind()
    index = Index.build(CORPUS, folder / f"stored-{kind.__name__}", model, block=25)
    blocks = list(index.stored())
    assert [len(documents) for documents, _ in blocks] == [len(vectors) for _, vectors in blocks] == [25, 25, 10]
    assert [document for documents, _ in blocks for document in documents] == CORPUS
    for document, vector in zip(CORPUS, (vector for _, vectors in blocks for vector in vectors), strict=True):
        for found, expected in zip(vector, model.vector(document.full_text), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_ten_times_the_documents_need_the_same_memory(folder):
    class Numbers(WholeNumbers):
        def vector(self, text):
            return np.float32(int(text) % np.arange(7, 7 + 64))

    peaks = []
    for count in (1000, 10_000):
        (folder / "long.tsv").write_text("".join(f"d{i}\t{i}\n" for i in range(count)))
        tracemalloc.start()
        index = Index.build(folder / "long.tsv", folder / f"long-{count}", Numbers(width=64), block=500)
        assert index.search(["7", "8"], 5)[0][0].id
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del index
    assert peaks[1] - peaks[0] < 50 * 9000  # offsets and ids; the vectors alone are 256 bytes a document


class Lengths:
    """A reranker that prefers long texts."""

    def scores_of(self, pairs):
        assert all(isinstance(query, str) for query, _ in pairs)
        return np.array([len(text) for _, text in pairs], "float32")


def test_a_reranker_scores_the_best_again(folder):
    index = Index.build(CORPUS, folder / "reranked", WholeNumbers(), block=8)
    found = index.search(QUERIES, 3, reranker=Lengths(), depth=7)
    for query, hits in zip(QUERIES, found, strict=True):
        names = [name for name, _ in brute_force(WholeNumbers(), CORPUS, query, 7)]
        expected = sorted(((len(index.document(name).full_text), name) for name in names), reverse=True)[:3]
        assert [(hit.score, hit.id) for hit in hits] == expected


def test_a_search_that_finds_nothing_is_not_reranked(folder):
    index = Index.build([Document("a", "", "w1")], folder / "nothing", Words(width=1000))
    assert index.search(["w2"], reranker=Lengths()) == [[]]


def test_documents_are_found_by_their_ids(folder):
    corpus = [Document("ä", "Title", "Text\n"), Document("b", "", ""), Document("a", "", "x\u2028y")]
    index = Index.build(corpus, folder / "documents", WholeNumbers(), block=2)
    assert [index.document(name) for name in ("ä", "b", "a")] == corpus
    assert list(index.documents) == corpus
    for name in ("", "A", "c", "z"):
        with pytest.raises(ValueError, match=f"expected the id of a document of .*; it has no '{name}'"):
            index.document(name)


def test_the_score_of_a_loose_vector_is_that_of_a_document(folder):
    for kind in KINDS:
        model = kind()
        index = Index.build(CORPUS, folder / f"loose-{kind.__name__}", model)
        ids = range(0, 60, 7)
        (scores,) = index.scores([model.vector(QUERIES[0])], [ids])
        own = [index.score_of_vectors(model.vector(QUERIES[0]), model.vector(CORPUS[i].full_text)) for i in ids]
        assert scores.tolist() == own


def test_faiss_finds_the_candidates_if_it_is_asked_for(folder, monkeypatch):
    class IndexFlatIP:
        def __init__(self, width):
            self.vectors = np.zeros((0, width), "float32")

        def add(self, vectors):
            self.vectors = np.concatenate([self.vectors, vectors])

        def search(self, queries, count):
            scores = queries @ self.vectors.T
            rows = np.argsort(-scores, axis=1, kind="stable")[:, :count]
            return np.take_along_axis(scores, rows, 1), rows

    model = WholeNumbers()
    index = Index.build(CORPUS, folder / "faiss", model, block=7)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ValueError, match="the engine faiss needs the package faiss-cpu, which is not installed: pip install"):
        index.search(QUERIES, engine="faiss")
    monkeypatch.setitem(sys.modules, "faiss", types.SimpleNamespace(IndexFlatIP=IndexFlatIP))
    assert index.search(QUERIES, 3, engine="faiss") == index.search(QUERIES, 3)
    with pytest.raises(ValueError, match=r"the engine faiss needs dense vectors; .* has sparse ones"):
        Index.build(CORPUS, folder / "no-faiss", Words()).search(QUERIES, engine="faiss")
    with pytest.raises(ValueError, match="engine must be one of numpy, faiss; got 'x'"):
        index.search(QUERIES, engine="x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a query",), "queries must be a list of texts; got the string 'a query': put it into a list"),
        (([1],), "queries must be texts; got int '1'"),
        ((["q"], 0), "top_k must be a whole number of at least 1; got 0"),
        ((["q"], True), "top_k must be a whole number of at least 1; got True"),
    ],
)
def test_wrong_arguments_are_refused(folder, arguments, message):
    index = Index.build(CORPUS, folder / "arguments", WholeNumbers())
    with pytest.raises(ValueError, match=message):
        index.search(*arguments)
    with pytest.raises(ValueError, match="expected vectors of width 24; got"):
        index.search_vectors([np.zeros(23)])
    with pytest.raises(ValueError, match="a search for texts needs an index opened with its model"):
        Index.open(folder / "arguments").search(["q"])


def test_the_index_of_another_model_is_refused(folder):
    Index.build(CORPUS, folder / "other", WholeNumbers())
    assert Index.open(folder / "other", WholeNumbers()).search(["q"], 1)
    for model, message in (
        (WholeNumbers(width=8), r"with vectors of width 24; this one has 8\."),
        (Words(), r"with vectors of kind dense; this one has sparse\."),
        (WholeNumbers(name="new"), r"this one differs in name: pass the right model, or build the index again\."),
    ):
        with pytest.raises(ValueError, match=f"expected the model that built the index at .*other.*{message}"):
            Index.open(folder / "other", model)


def test_judgements_of_unknown_documents_are_counted(folder):
    index = Index.build(CORPUS, folder / "judged", WholeNumbers())
    check_judgements(index, {"q": {"d1": 1, "d2": 0}})
    with pytest.raises(ValueError, match=r"2 of 3 judged documents are not in .*judged, such as 'x'\."):
        check_judgements(index, {"q": {"d1": 1, "x": 1}, "r": {"x": 0, "y": 1}})
