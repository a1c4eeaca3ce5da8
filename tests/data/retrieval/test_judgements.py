"""Files of judgements and of rankings."""

import gzip

import pytest

from keras_bert_rebuild.data.retrieval.judgements import read_judgements, read_run, write_run


def test_judgements_of_trec_and_of_beir_are_the_same(tmp_path):
    trec, beir = tmp_path / "qrels.txt", tmp_path / "test.tsv.gz"
    trec.write_text("q1 0 d1 2\nq1 0 d2 0\n\nq2 0 d1 -1\n", encoding="utf-8")
    with gzip.open(beir, "wt", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1\td2\t0\r\nq2\td1\t-1\r\n")
    assert read_judgements(trec) == read_judgements(beir) == {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": -1}}


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
