"""Indexes of exported models: vectors beside those of the task, the command from corpus to hits, what is refused; parquet files."""

import functools
import json
import shutil

import numpy as np
import pyarrow.parquet
import pytest
from eight_scripts import TEXTS, small_export
from helpers.command_line import said_by_verb
from helpers.small import spread

import keras_bert_rebuild
from keras_bert_rebuild import LateInteractionEmbedder, Reranker, SentenceEmbedder, SparseEmbedder
from keras_bert_rebuild.cli import embed
from keras_bert_rebuild.cli.embed import written_vectors
from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.export.exported_retriever import ExportedRetriever
from keras_bert_rebuild.search.index import Index

SHORT = [text for text in TEXTS if text.strip() and len(text) < 100]
CORPUS = [Document(f"d{i}", "", text) for i, text in enumerate(SHORT)]
PROMPTS = {"query": "word ", "document": "word word "}
TASKS = {
    "dense": lambda rng: SentenceEmbedder(*small_export(rng), prompts=PROMPTS, normalize=False, truncate=True),
    "dense, by product": lambda rng: SentenceEmbedder(*small_export(rng), normalize=False, measure="dot", truncate=True),
    "sparse": lambda rng: SparseEmbedder(*small_export(rng, ["mlm"]), prompts=PROMPTS, max_active=9, truncate=True),
    "tokens": lambda rng: LateInteractionEmbedder.from_encoder(
        *small_export(rng), token_width=5, query_prefix="[UNK] ", query_len=12
    ),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A function from a name in `TASKS` to the task and the folder that it was exported to."""

    @functools.cache
    def write(name):
        rng = np.random.default_rng(4)
        task = TASKS[name](rng)
        spread(task.model, rng)
        return task, keras_bert_rebuild.export(task, None, tmp_path_factory.mktemp("exported") / "folder", "openvino")

    return write


@pytest.mark.parametrize("name", TASKS)
def test_its_vectors_are_those_of_the_task(exported, name):
    task, folder = exported(name)
    found = ExportedRetriever.load(folder)
    assert (found.kind, found.vectors, found.width) == (task.kind, task.vectors, task.width)
    encoders = (task.queries, found.queries), (task.documents, found.documents), (task.documents, found.document_encoder(64))
    for ours, theirs in encoders:
        for one, other in zip(ours(SHORT), theirs(SHORT), strict=True):
            if name == "sparse":
                np.testing.assert_array_equal(other[0], one[0])
            np.testing.assert_allclose(other[-1], one[-1], atol=1e-5)


def built(folder, retriever, **options):
    index = Index.open(folder, retriever, **options)
    index.add(CORPUS)
    return index


@pytest.mark.parametrize("name", ["dense", "sparse", "tokens"])
def test_an_index_of_it_finds_what_one_of_the_task_finds_and_is_another(exported, tmp_path, name):
    task, folder = exported(name)
    found = ExportedRetriever.load(folder)
    hits = [
        built(tmp_path / f"index{number}", retriever, dtype="float32").search(SHORT[:3], 5)
        for number, retriever in enumerate((task, found))
    ]
    assert [[hit.id for hit in each] for each in hits[1]] == [[hit.id for hit in each] for each in hits[0]]
    with pytest.raises(ValueError, match="expected the model that built the index"):
        Index.open(tmp_path / "index0", found)


def test_an_index_belongs_to_the_files_of_its_folder(exported, tmp_path):
    _, folder = exported("dense")
    moved = shutil.copytree(folder, tmp_path / "moved")
    built(tmp_path / "index", ExportedRetriever.load(moved))
    assert Index.open(tmp_path / "index", ExportedRetriever.load(folder)).search(["word"])[0]
    with (moved / "model.bin").open("r+b") as file:
        file.write(b"\0" * 8)
    with pytest.raises(ValueError, match="this one differs in files"):
        Index.open(tmp_path / "index", ExportedRetriever.load(moved))


@pytest.mark.slow(torch=True)
def test_the_command_indexes_and_searches_with_eight_bits(exported, tmp_path, capsys):
    texts = [f"{one} {other}" for one in SHORT for other in SHORT[:4]]
    folder = keras_bert_rebuild.export(exported("dense")[0], None, tmp_path / "int8", "openvino_int8", texts=texts)
    lines = [json.dumps({"_id": document.id, "title": "", "text": document.text}) for document in CORPUS]
    (tmp_path / "corpus.jsonl").write_text("".join(f"{line}\n" for line in lines))
    options = ["--model", folder, "--output", tmp_path / "index", "--batch-tokens", 256]
    said = said_by_verb("index", capsys, tmp_path / "corpus.jsonl", *options)
    assert f"{len(CORPUS)} documents" in said.out
    assert "d0" in said_by_verb("search", capsys, tmp_path / "index", SHORT[0]).out
    assert Index.open(tmp_path / "index").settings.model == str(folder)


def test_folders_that_make_no_vectors_are_refused(tmp_path, rng):
    reranker = Reranker.from_encoder(*small_export(rng))
    with pytest.raises(ValueError, match=r"expected a model that returns vectors of texts; .* is one for reranking"):
        ExportedRetriever.load(keras_bert_rebuild.export(reranker, None, tmp_path / "reranker", "openvino"))
    of_tokens = keras_bert_rebuild.export(*small_export(rng), tmp_path / "tokens", "openvino")
    with pytest.raises(ValueError, match=r"expected a model that returns vectors of texts; .* is one for each token of a text"):
        ExportedRetriever.load(of_tokens)


def test_prompts_that_are_not_pooled_are_in_no_folder(tmp_path, rng):
    task = SentenceEmbedder(*small_export(rng), prompts=PROMPTS, include_prompt=False, truncate=True)
    found = ExportedRetriever.load(keras_bert_rebuild.export(task, None, tmp_path / "folder", "openvino"))
    with pytest.raises(ValueError, match="prompt must be None or the exported '', which is not pooled"):
        found.queries(SHORT)


# Vectors in a parquet file, where pyarrow is installed.


def test_texts_and_vectors_come_back(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(embed, "GROUP", 2)
    texts, vectors = ["eins", "", "三"], rng.normal(size=(3, 4)).astype("float32")
    with written_vectors(tmp_path / "a.parquet", 3) as write:
        for text, vector in zip(texts, vectors, strict=True):
            assert write(text, vector) == 4
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert table["text"].to_pylist() == texts
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), "float32"), vectors)


def interrupted(path):
    with written_vectors(path, 3) as write:
        write("a", np.ones(2, "float32"))
        raise KeyboardInterrupt


def test_an_interrupted_run_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())
