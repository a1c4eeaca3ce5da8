"""Files of documents, queries, judgements and runs are read as other programs read them; MaxSim over stored vectors of tokens."""

import gzip
import itertools
import json
import lzma

import numpy as np
import pytest

from keras_bert_rebuild.data import max_sim as module
from keras_bert_rebuild.data.max_sim import max_sim, stored_vectors
from keras_bert_rebuild.data.retrieval import (
    Document,
    documents_in,
    is_beir,
    read_judgements,
    read_queries,
    read_run,
    write_run,
)

ROWS = [Document("a", "A title", "one text", {"url": "x"}), Document("b", "", "zwei\u2028Zeilen"), Document("7", "", "x")]


def write_beir(path):
    lines = [
        {"_id": "a", "title": "A title", "text": "one text", "metadata": {"url": "x"}},
        {"_id": "b", "text": "zwei\u2028Zeilen"},
    ]
    path.write_text(
        "\ufeff" + "\r\n".join(map(json.dumps, lines)) + '\n\n{"_id": 7, "title": null, "text": "x"}\n', encoding="utf-8"
    )


def test_a_corpus_of_beir_and_a_table_have_the_same_documents(tmp_path):
    write_beir(tmp_path / "corpus.jsonl")
    table = "id\ttext\ttitle\turl\na\tone text\tA title\tx\nb\tzwei\u2028Zeilen\t\t\n\n7\tx\t\t\n"
    (tmp_path / "corpus.tsv").write_text(table, encoding="utf-8")
    with gzip.open(tmp_path / "corpus.tsv.gz", "wt", encoding="utf-8") as file:
        file.write(table)
    with lzma.open(tmp_path / "corpus.jsonl.xz", "wb") as file:
        file.write((tmp_path / "corpus.jsonl").read_bytes())
    for name in ("corpus.jsonl", "corpus.tsv", "corpus.tsv.gz", "corpus.jsonl.xz"):
        assert list(documents_in(tmp_path / name)) == ROWS
    assert [document.full_text for document in ROWS[:2]] == ["A title one text", "zwei\u2028Zeilen"]


def test_the_number_of_a_line_is_the_id_of_a_plain_text(tmp_path):
    (tmp_path / "corpus.txt").write_text("one\ttext\r\n\n  \nthree\n", encoding="utf-8")
    assert list(documents_in(tmp_path / "corpus.txt")) == [Document("1", "", "one\ttext"), Document("4", "", "three")]


def test_queries_have_ids(tmp_path):
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "who?"}\n{"_id": "q0", "text": "when?"}\n', encoding="utf-8")
    (tmp_path / "queries.tsv").write_text("id\ttext\nq1\twho?\nq0\twhen?\n", encoding="utf-8")
    for name in ("queries.jsonl", "queries.tsv"):
        assert list(read_queries(tmp_path / name).items()) == [("q1", "who?"), ("q0", "when?")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "q.txt",
            "who?\n",
            r"expected queries with ids, such as a \.jsonl file of _id and text; .*q\.txt has only",
        ),
        ("q.jsonl", '{"text": "who?"}\n', r"expected an id and a text, such as _id and text; .*q\.jsonl, line 1 has text\."),
        ("q.tsv", "q1\twho?\nwhen?\n", r"expected id and text, or a first row of names; .*q\.tsv, line 2 has 1 column\."),
        ("q.tsv", "q1\twho?\tmore\n", r"expected id and text, or a first row of names; .*line 1 has 3 columns\."),
        ("q.tsv", "q1\ta\nq1\tb\n", r"expected unique query ids; .*q\.tsv has 'q1' again\."),
        ("q.tsv", "q 1\ta\n", r"expected an id, a word without white space; .*line 1 has 'q 1'\."),
        ("q.tsv", "\ta\n", "expected an id, a word without white space; .*line 1 has ''"),
        ("q.tsv", "\n", "expected at least one query"),
        (
            "q.sql",
            "q1,a\n",
            r"expected a file whose name ends in \.jsonl, .*\.md, before \.gz or \.xz, or one that begins with <DOC>; got .*q\.sql",
        ),
    ],
)
def test_what_is_wrong_with_queries_is_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as error:
        read_queries(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", b'{"_id": "a", "text": "x"}\n["b"]\n', "expected a JSON object; got .*line 2"),
        ("c.jsonl", b'{"_id": "a", "text": "x"\n', "expected a JSON object; .*line 1 is not one"),
        ("c.jsonl", b'{"_id": "a", "text": null}\n', "expected a string as text; got None in .*line 1"),
        ("c.jsonl", b'{"_id": "a", "text": "x", "title": 3}\n', "expected a string as title; got 3 in .*line 1"),
        ("c.jsonl", b'{"_id": true, "text": "x"}\n', "expected an id, a word without white space; .*line 1 has True"),
        ("c.jsonl", b"[" * 100_000 + b"\n", "expected a JSON object"),
        ("c.tsv", b"a\tx\nb\t\xff\n", "expected text in UTF-8; .*line 2 is not, at byte 2"),
        ("c.tsv", b"a\tx\ty\tz\n", "expected id, text and optionally title, or a first row of names; .*line 1 has 4 columns"),
        ("c.tsv.gz", b"a\tx\n", "damaged"),
        ("c.tsv", b"a" * 600 + b"\tx\n", "the id in .*line 1 must have at most 512 characters; got 600"),
    ],
)
def test_what_is_wrong_with_a_corpus_is_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(documents_in(tmp_path / name))


def test_the_first_documents_are_read_without_the_others(tmp_path):
    (tmp_path / "c.tsv").write_text("a\tx\nb\ty\nwrong\n", encoding="utf-8")
    assert [document.id for document in itertools.islice(documents_in(tmp_path / "c.tsv"), 2)] == ["a", "b"]


@pytest.mark.parametrize("header", ["id\ttitle\ttext", "docid\ttitle\ttext", "_id\ttitle\tcontents", "PID\tTitle\tPassage"])
def test_a_header_says_where_id_title_and_text_are(tmp_path, header):
    (tmp_path / "corpus.tsv").write_text(f"{header}\na\tA title\tone text\nb\t\ttwo\n", encoding="utf-8")
    assert list(documents_in(tmp_path / "corpus.tsv")) == [Document("a", "A title", "one text"), Document("b", "", "two")]


@pytest.mark.parametrize("header", ["_id\ttext", "qid\tquery", "query_id\ttext", "id\tquestion"])
def test_a_header_of_two_names_is_neither_a_document_nor_a_query(tmp_path, header):
    (tmp_path / "table.tsv").write_text(f"{header}\nq1\twho?\n", encoding="utf-8")
    assert read_queries(tmp_path / "table.tsv") == {"q1": "who?"}
    assert list(documents_in(tmp_path / "table.tsv")) == [Document("q1", "", "who?")]


@pytest.mark.parametrize("header", ["docid\turl\ttitle", "id\ttext\ttext", "id\ttitle"])
def test_a_header_without_a_text_or_with_a_name_twice_is_one_sentence(tmp_path, header):
    (tmp_path / "table.tsv").write_text(f"{header}\na\tb\tc\n", encoding="utf-8")
    for read in (read_queries, lambda path: list(documents_in(path))):
        with pytest.raises(ValueError, match=r"^expected names of columns, an id, a text and others, once each; .*line 1"):
            read(tmp_path / "table.tsv")


def test_judgements_of_trec_and_of_beir_are_the_same(tmp_path):
    trec, beir = tmp_path / "qrels.txt", tmp_path / "test.tsv.gz"
    trec.write_text("q1 0 d1 2\nq1 0 d2 0\n\nq2 0 d1 -1\n", encoding="utf-8")
    with gzip.open(beir, "wt", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1\td2\t0\r\nq2\td1\t-1\r\n")
    assert read_judgements(trec) == read_judgements(beir) == {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": -1}}


JUDGED = {"q1": {"d1": 2, "7": 0}, "q2": {"d1": -1}}
JUDGEMENTS = [{"query-id": q, "corpus-id": d, "score": grade} for q, grades in JUDGED.items() for d, grade in grades.items()]


@pytest.mark.parametrize(
    "judgements",
    [
        JUDGED,
        {"q1": {"d1": 2, 7: 0}, "q2": {"d1": -1}},
        JUDGEMENTS,
        iter(JUDGEMENTS),
        {name: [row[name] for row in JUDGEMENTS] for name in JUDGEMENTS[0]},
        [{"qid": row["query-id"], "docid": row["corpus-id"], "label": row["score"], "x": 1} for row in JUDGEMENTS],
    ],
)
def test_judgements_in_objects_are_those_of_files(judgements):
    assert read_judgements(judgements) == JUDGED


@pytest.mark.parametrize(
    ("judgements", "message"),
    [
        (
            [{"query-id": "q", "score": 1}],
            r"expected the columns query-id, corpus-id, score; judgements has the columns query-id, score\.",
        ),
        ([("q", "d", 1)], r"expected the columns .*; judgements has 3 columns without known names\."),
        ([Document("a", "", "x")], r"expected the columns .*; judgements has documents\."),
        ([{"qid": "q", "docid": "d", "score": 0.5}], r"expected a whole number as grade; judgements\[0\] has 0\.5\."),
        ({"q": {"d": "1"}}, r"expected a whole number as grade; judgements\['q'\] has '1'\."),
        ({"q": {"7": 1, 7: 1}}, r"judgements\['q'\] has '7' again for 'q'\."),
        (3, "expected a file, a list, .*; judgements is 3"),
    ],
)
def test_wrong_judgements_in_objects_are_one_sentence(judgements, message):
    with pytest.raises(ValueError, match=message):
        read_judgements(judgements)


def test_a_folder_of_beir_has_documents_queries_and_the_judgements_of_its_test(tmp_path):
    write_beir(tmp_path / "corpus.jsonl")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "who?", "metadata": {}}\n', encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    for name, grade in (("dev", 1), ("test", 2)):
        (tmp_path / "qrels" / f"{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\ta\t{grade}\n", encoding="utf-8")
    assert list(documents_in(tmp_path)) == ROWS
    assert read_queries(tmp_path) == {"q1": "who?"}
    assert read_judgements(tmp_path) == {"q1": {"a": 2}}
    assert is_beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").unlink()
    assert read_judgements(tmp_path) == {"q1": {"a": 1}}
    (tmp_path / "qrels" / "train.tsv").write_text("")
    with pytest.raises(ValueError, match=r"in qrels/test\.tsv, or in one file; .* has dev\.tsv, train\.tsv\."):
        read_judgements(tmp_path)
    with pytest.raises(ValueError, match=r"in qrels/test\.tsv, or in one file; .* has none\."):
        read_judgements(tmp_path / "qrels")


def test_only_a_file_with_the_header_of_beir_is_beirs(tmp_path):
    (tmp_path / "trec").write_text("q1 0 a 1\n")
    (tmp_path / "beir").write_text("query-id\tcorpus-id\tscore\r\nq1\ta\t1\n")
    assert [is_beir(source) for source in (tmp_path / "trec", tmp_path / "beir", JUDGEMENTS)] == [False, True, False]


def test_a_run_is_read_as_it_was_written(tmp_path):
    run = {"q2": {"d1": 0.1, "d2": 1 / 3, "d10": -2.0}, "q1": {"d1": 7.0}}
    write_run(tmp_path / "run.tsv", run, "mine")
    assert (tmp_path / "run.tsv").read_text(encoding="utf-8").splitlines()[0] == f"q2 Q0 d2 1 {1 / 3!r} mine"
    assert read_run(tmp_path / "run.tsv") == run


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 0 d1", r"expected 4 columns, query, 0, document, grade; .*qrels, line 2 has 3\."),
        (f"q1 0 d2 {2**63}", r"expected a whole number as grade; .*qrels, line 2 has '9223372036854775808'\."),
        (f"q1 0 d2 {'9' * 5000}", r"expected a whole number as grade; .*qrels, line 2 has '9"),
        ("q1 0 d2 high", r"expected a whole number as grade; .*qrels, line 2 has 'high'\."),
        ("q1 0 d1 1", r"expected a document at most once per query; .*qrels, line 2 has 'd1' again for 'q1'\."),
    ],
)
def test_a_wrong_line_of_judgements_is_named(tmp_path, line, message):
    (tmp_path / "qrels").write_text(f"q1 0 d1 1\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_judgements(tmp_path / "qrels")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 d1 1 0.5", "expected 6 columns, query, Q0, document, rank, score and name; .*run, line 2 has 5"),
        ("q1 Q0 d2 1 nan x", "expected a number as score; .*run, line 2 has 'nan'"),
        ("q1 Q0 d2 1 best x", "expected a number as score; .*run, line 2 has 'best'"),
        ("q1 Q0 d1 2 0.4 x", "line 2 has 'd1' again for 'q1'"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(tmp_path, line, message):
    (tmp_path / "run").write_text(f"q1 Q0 d1 1 0.5 x\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("run", [{"q 1": {"d": 1.0}}, {"q": {"": 1.0}}, {"q": {"d\t1": 1.0}}, {"q": {"d": float("nan")}}])
def test_what_would_not_be_read_again_is_not_written(tmp_path, run):
    with pytest.raises(ValueError, match="a run must have names without white space and no NaN scores; got"):
        write_run(tmp_path / "run", run)
    assert not (tmp_path / "run").exists()


# MaxSim over stored token vectors, against a loop.


def corpus(rng, documents=30, width=8):
    """Random unit vectors of documents of 0 to 9 tokens, and where each begins."""
    sizes = rng.integers(0, 10, documents)
    vectors = rng.normal(size=(sizes.sum(), width)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.concatenate([[0], np.cumsum(sizes)])


def by_loop(query, vectors, starts):
    scores = []
    for begin, end in itertools.pairwise(starts):
        scores.append(sum(max(float(q @ v) for v in vectors[begin:end]) for q in query) if end > begin else -np.inf)
    return np.array(scores)


def test_the_score_is_that_of_a_loop_whatever_the_blocks(rng, monkeypatch):
    vectors, starts = corpus(rng)
    query = rng.normal(size=(5, 8)).astype("float32")
    expected = by_loop(query, vectors, starts)
    for rows in (1, 7, 1000):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", rows)
        np.testing.assert_allclose(max_sim(query, vectors, starts), expected, atol=1e-5)


def test_candidates_have_the_scores_of_all_documents_in_their_own_order(rng):
    vectors, starts = corpus(rng)
    query = rng.normal(size=(3, 8)).astype("float32")
    chosen = rng.permutation(30)[:12]
    np.testing.assert_allclose(
        max_sim(query, vectors, starts, documents=chosen), max_sim(query, vectors, starts)[chosen], atol=1e-6
    )
    assert max_sim(query, vectors, starts, documents=[]).shape == (0,)


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0), ("float16", 1e-3), ("int8", 4e-3)])
def test_stored_vectors_are_the_vectors_to_the_precision_of_their_dtype(rng, dtype, error):
    vectors, starts = corpus(rng)
    stored, scales = stored_vectors(vectors, dtype)
    assert stored.dtype == dtype
    again = stored.astype("float32") * (1 if scales is None else scales[:, None])
    assert np.abs(again - vectors).max() <= error
    query = vectors[:4]
    whole, found = max_sim(query, vectors, starts), max_sim(query, stored, starts, scales)
    filled = np.isfinite(whole)
    assert np.array_equal(filled, np.isfinite(found))
    assert np.abs(whole[filled] - found[filled]).max() <= 4 * 8**0.5 * error


def test_a_vector_of_zeros_stays_one():
    codes, scales = stored_vectors(np.zeros((2, 3)), "int8")
    assert not codes.any()
    assert not scales.any()


def test_bad_input_is_one_sentence(rng):
    with pytest.raises(ValueError, match="must be stored as float32, float16, int8; got 'int4'"):
        stored_vectors([[1.0]], "int4")
    with pytest.raises(ValueError, match=r"must be \(tokens, 8\), like those of the documents; got \(2, 4\)"):
        max_sim(rng.normal(size=(2, 4)), *corpus(rng))
