"""Building an index: its files, and resumption after a kill."""

import itertools
import json
import os
import signal

import numpy as np
import pytest
from helpers.other_process import finish, start
from helpers.small_search import WholeNumbers, Words, WordVectors, small_corpus

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.search.index import Index

CORPUS = small_corpus(40)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.tsv"
    path.write_text("".join(f"{document.id}\t{document.text}\t{document.title}\n" for document in CORPUS))
    return path


class KilledError(Exception):
    """Instead of a kill."""


@pytest.mark.parametrize(("kind", "dtype"), [(WholeNumbers, "int8"), (WholeNumbers, "binary"), (Words, None), (WordVectors, None)])
def test_a_run_interrupted_at_any_write_is_the_same_when_it_is_repeated(corpus, tmp_path, monkeypatch, kind, dtype):
    build = lambda folder: Index.build(corpus, tmp_path / folder, kind(), dtype=dtype, block=16)  # noqa: E731
    build("whole")
    expected = contents(tmp_path / "whole")
    written, replace = [], os.replace

    def failing(source, target):
        written.append(target)
        if len(written) == stop:
            raise KilledError
        replace(source, target)

    for stop in itertools.count(1):
        written.clear()
        monkeypatch.setattr(os, "replace", failing)
        try:
            build(f"stopped-{stop}")
            break
        except KilledError:
            monkeypatch.setattr(os, "replace", replace)
            with pytest.raises(
                ValueError, match=r"is not finished: run the same command|expected a folder that `keras-bert index`"
            ):
                Index.open(tmp_path / f"stopped-{stop}")
            build(f"stopped-{stop}")
        assert contents(tmp_path / f"stopped-{stop}") == expected
    assert stop > 10


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("call", [24, 1, 6, 12, 31])
def test_an_index_that_was_killed_is_resumed_byte_by_byte(corpus, tmp_path, call):
    code, out, err = finish(start("killed_index.py", corpus, tmp_path / "killed", "binary", "int8", call))
    assert code == -signal.SIGKILL, out + err
    for folder in ("whole", "killed"):
        Index.build(corpus, tmp_path / folder, WholeNumbers(), dtype="binary", rescoring="int8", block=7, model="m")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_finished_blocks_are_not_computed_again(corpus, tmp_path, monkeypatch):
    def failing(path, claimed=False):
        if path.name == "block-000002.vectors.npy":
            raise KilledError
        return written_file(path, claimed)

    monkeypatch.setattr("keras_bert_rebuild.search.index_files.written_file", failing)
    with pytest.raises(KilledError):
        Index.build(corpus, tmp_path / "index", WholeNumbers(), block=10)
    monkeypatch.undo()
    model, done = WholeNumbers(), []
    Index.build(corpus, tmp_path / "index", model, block=10, progress=lambda *stage: done.append(stage))
    # A retriever that chooses its batches by its first texts sees these again.
    assert model.seen[1:] == [document.full_text for document in CORPUS[20:]]
    assert model.seen[0] == CORPUS[0].full_text
    assert done == [("indexing", 10, 40)] * 4
    assert Index.build(corpus, tmp_path / "index", model, block=10).search(["q"])
    assert len(model.seen) == 21


def test_what_a_run_left_that_was_killed_at_its_end_is_removed(corpus, tmp_path, monkeypatch):
    Index.build(corpus, tmp_path / "index", WholeNumbers(), block=10)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        Index.build(corpus, tmp_path / "index", WholeNumbers(), block=20, overwrite=True)
    assert len(list(tmp_path.iterdir())) > 1
    Index.build(corpus, tmp_path / "index", WholeNumbers(), block=20)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_the_same_bytes_read_in_another_format_are_another_corpus(corpus, tmp_path):
    Index.build(corpus, tmp_path / "index", WholeNumbers())
    (tmp_path / "corpus.txt").write_bytes(corpus.read_bytes())
    with pytest.raises(ValueError, match="an index made with another corpus"):
        Index.build(tmp_path / "corpus.txt", tmp_path / "index", WholeNumbers())


def test_a_finished_block_that_was_changed_is_computed_again(corpus, tmp_path, monkeypatch):
    Index.build(corpus, tmp_path / "whole", WholeNumbers(), block=10)
    with monkeypatch.context() as patch:
        patch.setattr("keras_bert_rebuild.search.build.write_manifest", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            Index.build(corpus, tmp_path / "index", WholeNumbers(), block=10)
    file = tmp_path / "index" / ".unfinished-index" / "block-000001.vectors.npy"
    changed = bytearray(file.read_bytes())
    changed[-1] ^= 1
    file.write_bytes(changed)
    model = WholeNumbers()
    Index.build(corpus, tmp_path / "index", model, block=10)
    assert model.seen[1:] == [document.full_text for document in CORPUS[10:20]]
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"retriever": WholeNumbers(name="other")}, "another model"),
        ({"dtype": "int8"}, "another dtype"),
        ({"dtype": "binary"}, "another dtype and another rescoring"),
        ({"limit": 30}, "another corpus"),
        ({"corpus": CORPUS[:30]}, "another corpus"),
        ({"block": 20}, "blocks of another size"),
    ],
)
def test_an_index_with_other_settings_is_replaced_only_with_overwrite(tmp_path, change, message):
    given = {"corpus": CORPUS, "path": tmp_path / "index", "retriever": WholeNumbers(), "block": 10}
    Index.build(**given)
    before = contents(tmp_path / "index")
    with pytest.raises(ValueError, match=f"index holds an index made with {message}: choose another output, or --overwrite"):
        Index.build(**given | change)
    assert contents(tmp_path / "index") == before
    Index.build(**given | change, overwrite=True)
    Index.build(**given | change | {"path": tmp_path / "new"})
    assert contents(tmp_path / "index") == contents(tmp_path / "new")


def test_only_the_first_documents_are_read(tmp_path):
    (tmp_path / "corpus.tsv").write_text("a\tx\nb\ty\nwrong\n")
    assert len(Index.build(tmp_path / "corpus.tsv", tmp_path / "index", WholeNumbers(), limit=2)) == 2


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([Document("a", "", "x"), Document("b", "", "y"), Document("a", "", "z")], "documents 1 and 3 of the corpus have 'a'"),
        ([], "expected from one to 4,294,967,295 documents; the corpus has 0"),
    ],
)
def test_ids_are_distinct_and_there_is_a_document(tmp_path, corpus, message):
    with pytest.raises(ValueError, match=message):
        Index.build(corpus, tmp_path / "index", WholeNumbers())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (WholeNumbers, {"dtype": "int4"}, "the dtype of dense vectors must be one of float32, float16, int8, binary; got 'int4'"),
        (Words, {"dtype": "binary"}, "the dtype of sparse vectors must be one of float32, float16; got 'binary'"),
        (WholeNumbers, {"rescoring": "int8"}, "rescoring of dense vectors stored as float32 must be one of none; got 'int8'"),
        (WholeNumbers, {"dtype": "int8", "rescoring": "int8"}, "must be one of none, float32, float16; got 'int8'"),
        (WholeNumbers, {"block": 0}, "block must be from 1 to 8192; got 0"),
    ],
)
def test_an_unknown_storage_is_refused(tmp_path, kind, options, message):
    with pytest.raises(ValueError, match=message):
        Index.build(CORPUS, tmp_path / "index", kind(), **options)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("kind", "vector", "message"),
    [
        (WholeNumbers, np.full(24, np.nan), "expected vectors of finite numbers; the model returned NaN or infinity"),
        (WholeNumbers, np.zeros(25), r"expected vectors of width 24; got the shape \(25,\)"),
        (WordVectors, np.zeros(24), r"expected a vector of width 24 for every token; got an array of shape \(24,\)"),
        (WordVectors, np.full((1, 24), np.inf), "expected vectors of finite numbers"),
        (Words, ([3, 1], [1.0, 1.0]), "expected ascending ids of 24 tokens"),
        (Words, ([24], [1.0]), "expected ascending ids of 24 tokens"),
        (Words, ([1], [0.0]), "expected finite weights above 0"),
    ],
)
def test_wrong_vectors_of_a_model_are_refused(tmp_path, monkeypatch, kind, vector, message):
    monkeypatch.setattr(kind, "vector", lambda self, text: vector)
    with pytest.raises(ValueError, match=message):
        Index.build(CORPUS, tmp_path / "index", kind())


def change_manifest(folder, change):
    manifest = json.loads((folder / "search.json").read_text())
    change(manifest)
    (folder / "search.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "block-000001.vectors.npy").unlink(),
            r"vectors\.npy is missing: build the index again",
        ),
        (lambda folder: (folder / "documents.bin").write_bytes(b"x"), r"documents\.bin has 1 bytes: build the index again"),
        (lambda folder: (folder / "search.json").write_text("{"), r"search\.json is damaged or another kind of file"),
        (lambda folder: (folder / "search.json").write_text('{"settings": {}}'), "is damaged or another kind of file"),
        (
            lambda folder: change_manifest(folder, lambda found: found.update(version=9)),
            "expected version 2 of the format",
        ),
        (lambda folder: change_manifest(folder, lambda found: found["blocks"].pop()), "is damaged or another kind of file"),
    ],
)
def test_a_damaged_index_is_one_sentence(tmp_path, damage, message):
    Index.build(CORPUS, tmp_path / "index", WholeNumbers(), block=10)
    damage(tmp_path / "index")
    with pytest.raises(ValueError, match=message) as error:
        Index.open(tmp_path / "index")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "name", "dtype", "message"),
    [
        (WholeNumbers, "documents.offsets", "int64", "has changed: rebuild it"),
        (WholeNumbers, "documents.order", "uint32", "has changed: rebuild it"),
        (Words, "block-000001.starts", "int64", "the index was changed: build it again"),
        (Words, "block-000001.documents", "uint16", "the index was changed: build it again"),
        (WordVectors, "block-000001.starts", "int64", "the index was changed: build it again"),
    ],
)
def test_offsets_that_were_changed_are_refused(tmp_path, kind, name, dtype, message):
    Index.build(CORPUS, tmp_path / "index", kind(), block=10)
    values = np.load(tmp_path / "index" / f"{name}.npy")
    values[1] = np.iinfo(dtype).max
    np.save(tmp_path / "index" / f"{name}.npy", values)
    with pytest.raises(ValueError, match=message):
        Index.open(tmp_path / "index", kind(), verify=False).search(["w1 w2"])
