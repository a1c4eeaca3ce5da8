"""Search in an index: exact, fused, reranked, by words and approximate, against brute force."""

import collections
import math
import tracemalloc

import numpy as np
import pytest
from helpers.small_search import WIDTH, WholeNumbers, Words, WordVectors, brute_force, small_corpus, words

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search import retrievers
from keras_bert_rebuild.search.dense_vectors import DenseVectors
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.retrievers import missing_judged

CORPUS = [document._replace(metadata={"year": i}) for i, document in enumerate(small_corpus(60))]
TEXTS = {document.id: document.full_text for document in CORPUS}
QUERIES = [words(np.random.default_rng(i)) for i in range(5)]
KINDS = [WholeNumbers, Words, WordVectors]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that returns the index of a model, which is made once."""
    folder, indexes = tmp_path_factory.mktemp("indexes"), {}

    def get(model, corpus=CORPUS, **options):
        key = (repr(model), tuple(options.items()), len(corpus))
        if key not in indexes:
            indexes[key] = Index.open(folder / f"index{len(indexes)}", model and model(), **options)
            indexes[key].add(corpus)
        return indexes[key]

    return get


def tuples(hits):
    return [tuple(hit) for hit in hits]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_a_search_is_exact_in_blocks_of_any_size_and_for_any_number_of_queries(built, monkeypatch, kind, block):
    index = built(kind)
    expected = [brute_force(kind(), CORPUS, query, 60) for query in QUERIES]
    filtered = [brute_force(kind(), CORPUS[31:], query, 9) for query in QUERIES]
    monkeypatch.setattr(type(index._storage), "BLOCK", block)
    for kept in (0, 1 << 30):  # bytes of vectors that stay in memory
        monkeypatch.setattr("keras_bert_rebuild.search.index_state._KEPT", kept)
        index.refresh()
        for top_k in (1, 9, 60, 70):
            for some in (slice(None), slice(3, 4)):
                assert [*map(tuples, index.search(QUERIES[some], top_k))] == [each[:top_k] for each in expected[some]]
        assert [*map(tuples, index.search(QUERIES, 9, filter="year > 30"))] == filtered


def test_queries_may_be_more_than_are_searched_at_once(built, monkeypatch):
    index, done = built(WholeNumbers), []
    expected = index.search(QUERIES, 3)
    monkeypatch.setattr("keras_bert_rebuild.search.index._QUERIES", 2)
    assert index.search(QUERIES, 3, progress=done.append) == expected
    assert done == [2, 2, 1]
    assert index.search([]) == []


@pytest.mark.parametrize(("dtype", "rescoring"), [("float16", None), ("int8", "float32"), ("binary", "float32"), ("int8", "none")])
def test_compressed_vectors_find_the_exact_answer_among_enough_candidates(built, dtype, rescoring):
    index = built(WholeNumbers, dtype=dtype, rescoring=rescoring)
    assert (index.settings.dtype, index.settings.rescoring) == (dtype, rescoring or "none")
    for query, hits in zip(QUERIES, index.search(QUERIES, 5, rescore=12), strict=True):
        expected = brute_force(WholeNumbers(), CORPUS, query, 60)
        if rescoring == "none":  # seven bits a number
            np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected[:5]], atol=0.6)
        else:
            assert tuples(hits) == expected[:5]


def test_signs_alone_rank_by_the_numbers_of_the_query(built):
    query = WholeNumbers().vector("a query")
    hits = built(WholeNumbers, dtype="binary", rescoring="none").search(["a query"], 60, rescore=1)[0]
    expected = [query @ np.where(WholeNumbers().vector(TEXTS[hit.id]) > 0, 1, -1) / WIDTH**0.5 for hit in hits]
    np.testing.assert_allclose([hit.score for hit in hits], expected, rtol=1e-5, atol=1e-6)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_sparse_search_is_the_dense_product_of_real_weights(built):
    class Weights(Words):
        def vector(self, text):
            ids, counts = super().vector(text)
            return ids, counts * np.float32(0.37) + np.float32(0.1)

    dense = {document.id: np.zeros(WIDTH) for document in CORPUS}
    for document in CORPUS:
        ids, weights = Weights().vector(document.full_text)
        dense[document.id][ids] = weights
    query = np.zeros(WIDTH)
    ids, weights = Weights().vector(QUERIES[0])
    query[ids] = weights
    (ranking,) = built(Weights).search_vectors([(ids, weights)], 60)
    np.testing.assert_allclose(ranking.scores, [dense[name] @ query for name in ranking.ids], rtol=1e-6)
    assert {*ranking.ids} == {name for name, vector in dense.items() if vector @ query}  # the others share no token


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
def test_vectors_of_tokens_are_stored_in_less(built, dtype):
    for query, hits in zip(QUERIES, built(WordVectors, dtype=dtype).search(QUERIES, 60), strict=True):
        expected = dict(brute_force(WordVectors(), CORPUS, query, 60))
        atol = 0.5 if dtype == "int8" else 0
        np.testing.assert_allclose([hit.score for hit in hits], [expected[hit.id] for hit in hits], atol=atol)


def bm25(corpus, query):
    """BM25 as in the textbook, with k1 = 1.2 and b = 0.75: the best first."""
    texts = {document.id: document.full_text.split() for document in corpus}
    frequencies = collections.Counter(word for text in texts.values() for word in {*text})
    mean, scores = sum(map(len, texts.values())) / len(texts), {}
    for name, text in texts.items():
        for word in [word for word in query.split() if word in text]:  # a word that is there twice counts twice
            rarity = math.log(1 + (len(texts) - frequencies[word] + 0.5) / (frequencies[word] + 0.5))
            count = text.count(word)
            gain = rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
            scores[name] = scores.get(name, 0) + gain
    return sorted(scores.items(), key=lambda each: (round(each[1], 4), each[0]), reverse=True)


@pytest.mark.parametrize("model", [None, WholeNumbers], ids=["words alone", "with vectors"])
def test_bm25_is_the_textbook_formula(built, model):
    index = built(model)
    for query, hits in zip(QUERIES, index.search(QUERIES, 60, by="bm25"), strict=True):
        expected = bm25(CORPUS, query)
        assert [hit.id for hit in hits] == [name for name, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], rtol=1e-4)
        found = index.search([query], 60, by="bm25", filter="year < 20")[0]
        assert tuples(found) == [tuple(hit) for hit in hits if hit.id in {document.id for document in CORPUS[:20]}]
    assert index.search(["", "'\"() AND *:"], by="bm25") == [[], []]


def test_bm25_ranks_equal_scores_by_id_however_many_there_are(built):
    corpus = [Document(i, "", "equal words") for i in range(200)]
    assert [hit.id for hit in built(None, corpus).search(["equal"], 3, by="bm25")[0]] == [199, 198, 197]


def test_bm25_and_another_index_find_candidates(built):
    index = built(WordVectors)
    for candidates, names in (
        ("bm25", lambda query: [name for name, _ in bm25(CORPUS, query)[:10]]),
        (built(WholeNumbers), lambda query: [name for name, _ in brute_force(WholeNumbers(), CORPUS, query, 10)]),
    ):
        for query, hits in zip(QUERIES, index.search(QUERIES, 4, candidates=candidates, depth=10), strict=True):
            expected = [pair for pair in brute_force(WordVectors(), CORPUS, query, 60) if pair[0] in {*names(query)}]
            assert tuples(hits) == expected[:4]
    with pytest.raises(ValueError, match=r"expected candidates among the documents of .*; it has no 'd\d+'"):
        built(WordVectors, CORPUS[:10]).search(QUERIES, candidates=built(WholeNumbers))


@pytest.mark.parametrize(("top_k", "depth"), [(4, 10), (60, 7), (60, 60)])
def test_rankings_are_fused_by_reciprocal_ranks(built, top_k, depth):
    others = [built(Words), "bm25", built(WordVectors)]
    for query, hits in zip(QUERIES, built(WholeNumbers).search(QUERIES, top_k, fuse=others, depth=depth), strict=True):
        sums = {}
        vectors, sparse, tokens = (brute_force(kind(), CORPUS, query, depth) for kind in KINDS)
        for ranking in (vectors, sparse, bm25(CORPUS, query)[:depth], tokens):
            for rank, (name, _) in enumerate(ranking, 1):
                sums[name] = sums.get(name, 0) + 1 / (60 + rank)
        expected = sorted(sums, key=lambda name: (np.float32(sums[name]), name), reverse=True)[:top_k]
        assert tuples(hits) == [(name, np.float32(sums[name])) for name in expected]


class Lengths:
    """A reranker that prefers long texts."""

    def scores_of(self, pairs):
        assert all(isinstance(query, str) for query, _ in pairs)
        return np.array([len(text) for _, text in pairs], "float32")


@pytest.mark.parametrize("fuse", [(), ("bm25",)])
@pytest.mark.parametrize("by", ["vectors", "bm25"])
def test_a_reranker_scores_the_best_again(built, by, fuse):
    index = built(WholeNumbers)
    first = index.search(QUERIES, 7, by=by, fuse=fuse, depth=7)
    for found, hits in zip(first, index.search(QUERIES, 3, by=by, fuse=fuse, rerank=Lengths(), depth=7), strict=True):
        expected = sorted(((len(TEXTS[hit.id]), hit.id) for hit in found), reverse=True)[:3]
        assert [(hit.score, hit.id) for hit in hits] == expected
    assert index.search(["nothing"], by="bm25", rerank=Lengths()) == [[]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_approximate_search_of_a_few_documents_is_exact(tmp_path, dtype):
    index = Index.open(tmp_path / "index", WholeNumbers(), dtype=dtype)
    index.add(CORPUS[:50])
    with pytest.raises(ValueError, match=r"approximate search needs index.index_vectors\(\)"):
        index.search(QUERIES, approximate=True)
    assert index.index_vectors() == 1  # the recall
    index.add(CORPUS[50:])
    for filter, corpus in ((None, CORPUS), ("year >= 40", CORPUS[40:])):
        for query, hits in zip(QUERIES, index.search(QUERIES, 5, approximate=True, filter=filter), strict=True):
            expected = brute_force(WholeNumbers(), corpus, query, 60)
            assert [hit.score for hit in hits] == [score for _, score in expected[:5]]
            assert {*tuples(hits)} <= {*expected}


@pytest.mark.parametrize(("kind", "dtype"), [(Words, None), (WordVectors, None), (WholeNumbers, "int8"), (WholeNumbers, "binary")])
def test_approximate_search_is_for_dense_floats(built, kind, dtype):
    for call in (lambda index: index.search(["q"], approximate=True), Index.index_vectors):
        with pytest.raises(ValueError, match="approximate search is for dense vectors in float32 or float16"):
            call(built(kind, dtype=dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_documents_and_vectors_are_handed_on_a_block_at_a_time(built, monkeypatch, kind):
    index, model = built(kind), kind()
    monkeypatch.setattr(type(index._storage), "BLOCK", 25)
    blocks = list(index.stored())
    assert [len(documents) for documents, _ in blocks] == [len(vectors) for _, vectors in blocks] == [25, 25, 10]
    assert [document for documents, _ in blocks for document in documents] == CORPUS
    for document, vector in zip(CORPUS, (vector for _, vectors in blocks for vector in vectors), strict=True):
        for found, expected in zip(vector, model.vector(document.full_text), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.slow(torch=True)
def test_five_times_the_documents_need_hardly_more_memory(tmp_path, monkeypatch):
    class Numbers(WholeNumbers):
        def vector(self, text):
            return np.float32(int(text) % np.arange(7, 7 + 256))

        def documents(self, texts):
            return map(self.vector, texts)

    monkeypatch.setattr(DenseVectors, "BLOCK", 200)
    monkeypatch.setattr("keras_bert_rebuild.search.index_state._KEPT", 0)
    peaks = []
    for count in (400, 2000):
        tracemalloc.start()
        index = Index.open(tmp_path / f"{count}", Numbers(width=256))
        index.add({"id": f"d{i}", "text": f"{i}"} for i in range(count))
        assert index.search(["7", "8"], 5)[0][0].id
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 512 * 1600, peaks  # hashes of the ids; the vectors alone are 1,024 bytes a document


def test_documents_are_found_by_their_ids(built):
    corpus = [Document("ä", "Title", "Text\n"), Document("b'", "", ""), Document("a", "", "\0x\u2028y")]
    index = built(WholeNumbers, corpus)
    assert [index.document(document.id) for document in corpus] == [*index] == corpus
    for name in ("", "A", "b''", "\ud800", 1, None, 2**70):
        with pytest.raises(ValueError, match=r"expected the id of a document of .*; it has no "):
            index.document(name)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("a query",), {}, "queries must be a list of texts; got the string 'a query': put it into a list"),
        ((["a \ud800"],), {"by": "bm25"}, "queries must be texts in UTF-8; got 'a "),
        (([1],), {}, "queries must be texts; got int '1'"),
        ((["q"], 0), {}, "top_k must be a whole number of at least 1; got 0"),
        ((["q"], True), {}, "top_k must be a whole number of at least 1; got True"),
        ((["q"],), {"depth": 0}, "depth must be a whole number of at least 1; got 0"),
        ((["q"],), {"rescore": 0}, "rescore must be a whole number of at least 1; got 0"),
        ((["q"],), {"by": "x"}, "by must be vectors or bm25; got 'x'"),
        ((["q"],), {"fuse": ["x"]}, "expected bm25 or an index of the same documents; got 'x'"),
        ((["q"],), {"candidates": "x"}, "expected bm25 or an index of the same documents; got 'x'"),
    ],
)
def test_wrong_arguments_are_refused(built, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        built(WholeNumbers).search(*arguments, **options)


def test_vectors_of_another_width_are_refused(built):
    with pytest.raises(ValueError, match="expected vectors of width 24; got"):
        built(WholeNumbers).search_vectors([np.zeros(23)])


def test_the_index_of_another_model_or_other_settings_is_refused(built):
    folder = built(WholeNumbers).place
    assert Index.open(folder, WholeNumbers(), dtype="float32", language="English").search(["q"], 1)
    for model, options, message in (
        (WholeNumbers(width=8), {}, r"the model that built .* with vectors of width 24; this one has 8\."),
        (Words(), {}, r"the model that built .* with vectors of kind dense; this one has sparse\."),
        (WholeNumbers(name="new"), {}, r"this one differs in name: pass the right model, or build the index again\."),
        (WholeNumbers(), {"dtype": "float16"}, r"the index at .* has the dtype float32; got float16: build another index"),
        (None, {"dtype": "float16"}, "has the dtype float32; got float16"),
        (None, {"language": "German"}, "has the language English; got German"),
        (WholeNumbers(), {"dtype": "int8", "rescoring": "float32"}, "has the dtype float32; got int8"),
    ):
        with pytest.raises(ValueError, match=message):
            Index.open(folder, model, **options)
    with pytest.raises(ValueError, match="does not say where its model is: open it with its model"):
        Index.open(folder).search(["q"])


def test_an_index_of_words_alone_has_no_vectors(built):
    index = built(None)
    for call in (lambda: index.search(["q"]), lambda: index.search_vectors([np.zeros(24)])):
        with pytest.raises(ValueError, match="has no vectors, only words: search it with by='bm25'"):
            call()
    with pytest.raises(ValueError, match="has no vectors, only words: open it without a model"):
        Index.open(index.place, WholeNumbers())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (WholeNumbers, {"dtype": "int4"}, "the dtype of dense vectors must be one of float32, float16, int8, binary; got 'int4'"),
        (Words, {"dtype": "binary"}, "the dtype of sparse vectors must be one of float32, float16; got 'binary'"),
        (WholeNumbers, {"rescoring": "int8"}, "rescoring of dense vectors stored as float32 must be one of none; got 'int8'"),
        (WholeNumbers, {"dtype": "int8", "rescoring": "int8"}, "must be one of none, float32, float16; got 'int8'"),
    ],
)
def test_an_unknown_storage_is_refused(tmp_path, kind, options, message):
    with pytest.raises(ValueError, match=message):
        Index.open(tmp_path / "index", kind(), **options)
    with pytest.raises(ValueError, match="dtype and rescoring are for vectors, which an index without a model does not have"):
        Index.open(tmp_path / "index", **options)


def test_the_language_of_an_index_is_that_of_its_stems(tmp_path):
    for language, hits in (("English", ["a"]), ("German", ["b"])):
        index = Index.open(tmp_path / language, language=language)
        index.add([{"id": "a", "text": "the cats"}, {"id": "b", "text": "die Häuser"}])
        index.add([{"id": str(number), "text": "x"} for number in range(3)])
        assert [hit.id for hit in index.search([{"English": "cat", "German": "Haus"}[language]], by="bm25")[0]] == hits


@pytest.mark.parametrize(
    ("texts", "language"), [(["红狐狸跑了 v2", "東京に行きました"], "none"), (["Ein Café in 東京", "1 2"], "English")]
)
def test_an_index_of_another_script_has_no_language_if_none_is_given(tmp_path, texts, language):
    index = Index.open(tmp_path / "index")
    assert index.add([]) == (0, 0, 0)
    index.add({"id": number, "text": text} for number, text in enumerate(texts))
    assert Index.open(tmp_path / "index").settings.language == index.settings.language == language
    assert (index.search(["狐狸"], by="bm25")[0] != []) == (language == "none")


@pytest.mark.parametrize("write", [Index.add, Index.update])
def test_an_index_that_another_writer_made_meanwhile_keeps_its_settings(tmp_path, write):
    place = tmp_path / "index"
    first, second = Index.open(place, WholeNumbers()), Index.open(place, WholeNumbers())
    others = [
        Index.open(place, kind, dtype=dtype)
        for kind, dtype in ((WholeNumbers(), "int8"), (WholeNumbers(name="other"), None), (Words(), None))
    ]
    write(first, [{"id": 1, "text": "红狐狸跑了"}])
    for other in others:
        for again in (lambda other=other: write(other, [{"id": 3, "text": "x"}]), other.refresh):
            with pytest.raises(ValueError, match=r"the index at \S+"):
                again()
    write(second, [{"id": 2, "text": "the cats"}])
    first.refresh()
    assert second.settings == first.settings
    assert first.settings.language == "none"
    assert sorted(document.id for document in first) == [1, 2]


def test_an_index_is_overwritten_by_the_first_documents_and_not_before(tmp_path):
    Index.open(tmp_path / "index", WholeNumbers()).add([{"id": 1, "text": "old"}])
    index = Index.open(tmp_path / "index", WholeNumbers(name="other"), overwrite=True)
    assert index.add([]) == (0, 0, 0)
    index.refresh()
    assert len(index) == 0
    assert len(Index.open(tmp_path / "index")) == 1
    index.add([{"id": 2, "text": "new"}])
    assert [document.id for document in index] == [document.id for document in Index.open(tmp_path / "index")] == [2]


def test_a_writer_of_words_takes_over_the_vectors_of_another_writer(tmp_path):
    words_alone = Index.open(tmp_path / "index")
    Index.open(tmp_path / "index", WholeNumbers()).add([{"id": 1, "text": "the fox"}])
    with pytest.raises(ValueError, match="does not say where its model is"):
        words_alone.add([{"id": 2, "text": "the cat"}])
    assert [hit.id for hit in words_alone.search(["fox"], by="bm25")[0]] == [1]


def test_without_a_language_words_of_any_script_are_found_and_no_word_is_a_stop_word(tmp_path):
    index = Index.open(tmp_path / "index", language="none")
    texts = ["红狐狸跑了", "東京に行きました", "ภาษาไทยง่ายมาก", "the war of type 2"]
    index.add({"id": number, "text": text} for number, text in enumerate(texts))
    for query, number in (("狐狸", 0), ("東京", 1), ("ไทย", 2), ("war", 3), ("2", 3)):
        assert [hit.id for hit in index.search([query], by="bm25")[0]] == [number], query


def test_an_index_of_an_earlier_version_is_named_as_such(tmp_path):
    (tmp_path / "search.json").touch()
    with pytest.raises(ValueError, match=r"expected an index; one of version 0\.2 is at \S+: index its documents into another"):
        Index.open(tmp_path).search(["x"], by="bm25")
    with pytest.raises(ValueError, match=r"expected an index; nothing is at \S+: add documents first\."):
        Index.open(tmp_path / "none").search(["x"], by="bm25")


def test_a_table_of_another_program_is_no_index(tmp_path):
    import lancedb

    lancedb.connect(tmp_path / "index").create_table("documents", [{"id": 1}])
    with pytest.raises(ValueError, match=r"expected an index; the table at .*index was not made by keras_bert_rebuild"):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("part", [1, 2, 1000])
def test_judged_documents_that_are_missing_are_listed_once(tmp_path, monkeypatch, part):
    monkeypatch.setattr(retrievers, "_JUDGED", part)
    texts, numbers = Index.open(tmp_path / "texts"), Index.open(tmp_path / "numbers")
    judgements = {"q": {"7": 1, "x": 1, "a": 0}, "r": {"x": 0, "y": 1, "007": 1, "8": 2}}
    assert missing_judged(texts, judgements) == ["7", "x", "a", "y", "007", "8"]
    texts.add([{"id": name, "text": "x"} for name in ("a", "7", "b", "'")])
    numbers.add([{"id": name, "text": "x"} for name in (7, 8, 9)])
    assert missing_judged(texts, judgements) == ["x", "y", "007", "8"]
    assert missing_judged(numbers, judgements) == ["x", "a", "y", "007"]
    assert missing_judged(texts, {}) == []
