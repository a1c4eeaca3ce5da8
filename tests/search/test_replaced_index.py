"""An index that is replaced: the old one and the user's files stay, and who has it open is told."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers.other_process import finish, start
from helpers.small_search import WholeNumbers, Words, WordVectors, small_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.index import Index

CORPUS = small_corpus(40)
OTHER = small_corpus(40, seed=1)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Names that a pattern of an index could match.
NAMES = [
    *("documents.jsonl", "documents.pdf", "documents.json", "documents.bin.bak", "block-000000.txt", "block-000009.vectors.npy"),
    *("block-000000.json", "search.json.bak", "notes.txt", "vectors/a.npy", ".hidden", "documents.old/a.txt"),
]


@settings(max_examples=12, deadline=None)
@given(names=st.sets(st.sampled_from(NAMES), min_size=1), grows=st.booleans())
def test_files_that_an_index_does_not_name_stay(tmp_path_factory, names, grows):
    folder = tmp_path_factory.mktemp("index") / "index"
    Index.build(CORPUS[:30], folder, WholeNumbers(), block=10)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"of the user: {name}")
    Index.build(CORPUS if grows else CORPUS[:20], folder, WholeNumbers(), dtype="float16", block=10, overwrite=True)
    found = contents(folder)
    for name in names:
        assert found[name].decode() == f"of the user: {name}"
    Index.build(CORPUS if grows else CORPUS[:20], folder.parent / "new", WholeNumbers(), dtype="float16", block=10)
    assert {name: found[name] for name in found if name not in names} == contents(folder.parent / "new")


def test_a_file_with_the_name_of_a_new_block_is_not_replaced(tmp_path):
    Index.build(CORPUS[:20], tmp_path / "index", WholeNumbers(), block=10)
    (tmp_path / "index" / "block-000003.vectors.npy").write_text("of the user")
    before = contents(tmp_path / "index")
    model = WholeNumbers()
    with pytest.raises(ValueError, match=r"index holds block-000003\.vectors\.npy, which its search\.json does not name"):
        Index.build(CORPUS, tmp_path / "index", model, block=10, overwrite=True)
    assert contents(tmp_path / "index") == before
    assert not model.seen


class Failing(WholeNumbers):
    """Fails at the last documents."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def vector(self, text):
        if len(self.seen) > 30:
            if isinstance(self.error, BaseException):
                raise self.error
            return np.full(self.width, self.error)
        return super().vector(text)


def corpus_file(folder, content):
    (folder / "corpus.tsv").write_bytes(content)
    return folder / "corpus.tsv"


@pytest.mark.parametrize(
    ("corpus", "model"),
    [
        (lambda folder: [*CORPUS, CORPUS[3]], WholeNumbers()),
        (lambda folder: [], WholeNumbers()),
        (lambda folder: corpus_file(folder, b"a\tx\nb\ty\nwrong\n"), WholeNumbers()),
        (lambda folder: corpus_file(folder, b"a\tx\nb\t\xff\n"), WholeNumbers()),
        (lambda folder: folder / "nothing.tsv", WholeNumbers()),
        (lambda folder: CORPUS, Failing(np.nan)),
        (lambda folder: CORPUS, Failing(KeyboardInterrupt())),
        (lambda folder: CORPUS, Failing(OSError(28, "No space left on device"))),
        (lambda folder: CORPUS, Failing(MemoryError())),
    ],
    ids=["id twice", "empty", "bad line", "not UTF-8", "missing", "NaN", "Ctrl-C", "disk full", "memory"],
)
def test_an_index_stays_until_the_new_one_is_whole(tmp_path, corpus, model):
    Index.build(CORPUS[:25], tmp_path / "index", WholeNumbers(), block=10)
    before, expected = contents(tmp_path / "index"), Index.open(tmp_path / "index", WholeNumbers()).search(["w1"])
    with pytest.raises((ValueError, OSError, KeyboardInterrupt, MemoryError)) as error:
        Index.build(corpus(tmp_path), tmp_path / "index", model, block=10, dtype="float16", overwrite=True)
    after = contents(tmp_path / "index")
    assert {name: after.get(name) for name in before} == before
    assert Index.open(tmp_path / "index", WholeNumbers()).search(["w1"]) == expected
    if error.type is ValueError:  # what is left would be of no use
        assert sorted(os.listdir(tmp_path / "index")) == [*before]


def test_after_an_invalid_corpus_nothing_is_left_of_a_new_index(tmp_path):
    with pytest.raises(ValueError, match="expected every id once"):
        Index.build([*CORPUS, CORPUS[3]], tmp_path / "deep" / "index", WholeNumbers())
    assert not list(tmp_path.iterdir())


def test_an_interrupted_replacement_is_resumed(tmp_path):
    Index.build(OTHER, tmp_path / "index", WholeNumbers(), block=10)
    with contextlib.suppress(KeyboardInterrupt):
        Index.build(CORPUS, tmp_path / "index", Failing(KeyboardInterrupt()), block=10, overwrite=True)
    model = WholeNumbers()
    Index.build(CORPUS, tmp_path / "index", model, block=10, overwrite=True)
    assert model.seen[1:] == [document.full_text for document in CORPUS[30:]]
    Index.build(CORPUS, tmp_path / "new", WholeNumbers(), block=10)
    assert contents(tmp_path / "index") == contents(tmp_path / "new")


def test_an_interrupted_replacement_with_other_settings_is_forgotten(tmp_path):
    Index.build(OTHER, tmp_path / "index", WholeNumbers(), block=10)
    with contextlib.suppress(KeyboardInterrupt):
        Index.build(CORPUS, tmp_path / "index", Failing(KeyboardInterrupt()), block=10, overwrite=True)
    Index.build(CORPUS, tmp_path / "index", WholeNumbers(), block=15, overwrite=True)
    Index.build(CORPUS, tmp_path / "new", WholeNumbers(), block=15)
    assert contents(tmp_path / "index") == contents(tmp_path / "new")


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("call", [1, 9, 24, 33])
def test_a_replacement_that_was_killed_leaves_the_old_index_and_is_resumed(tmp_path, call):
    corpus = corpus_file(tmp_path, "".join(f"{document.id}\t{document.text}\n" for document in CORPUS).encode())
    for folder in ("index", "old"):
        Index.build(OTHER, tmp_path / folder, WholeNumbers(), block=7, model="m")
    code, out, err = finish(start("killed_index.py", corpus, tmp_path / "index", "binary", "int8", call, "overwrite"))
    assert code == -signal.SIGKILL, out + err
    assert Index.open(tmp_path / "index", WholeNumbers()).search(["w1"]) == Index.open(tmp_path / "old", WholeNumbers()).search(
        ["w1"]
    )
    for folder in ("index", "new"):
        Index.build(corpus, tmp_path / folder, WholeNumbers(), dtype="binary", block=7, model="m", overwrite=True)
    assert contents(tmp_path / "index") == contents(tmp_path / "new")


@pytest.mark.parametrize("kind", [WholeNumbers, Words, WordVectors])
@pytest.mark.parametrize("verify", [True, False])
def test_an_index_that_is_open_is_a_snapshot_or_says_that_it_is_stale(tmp_path, kind, verify):
    queries = [f"w{number} w{number + 1}" for number in range(20)]
    Index.build(CORPUS, tmp_path / "index", kind(), block=8)
    index = Index.open(tmp_path / "index", kind(), verify=verify)
    expected = [[(*hit, index.document(hit.id)) for hit in hits] for hits in index.search(queries, 3)]
    Index.build([Document(d.id, d.title, d.text[::-1]) for d in CORPUS[::-1]], tmp_path / "index", kind(), block=8, overwrite=True)
    for query, before in zip(queries, expected, strict=True):
        try:
            assert [(*hit, index.document(hit.id)) for hit in index.search([query], 3)[0]] == before
        except ValueError as error:
            assert str(error).endswith("was replaced or changed since this index was opened: open it again.")  # noqa: PT017
    assert Index.open(tmp_path / "index", kind(), verify=verify).search(queries)


READER = """
import sys
from helpers.small_search import WholeNumbers
from keras_bert_rebuild.search.index import Index, StaleIndexError
wrong = stale = right = 0
print("ready", flush=True)
while True:
    index = Index.open(sys.argv[1], WholeNumbers(), verify=sys.argv[2] == "yes")
    try:
        for number in range(5):
            hits = index.search([f"w{number} w{number + 1}"], 5)[0]
            scores = [(hit, index.document(hit.id)) for hit in hits]
            vector = WholeNumbers().vector(f"w{number} w{number + 1}")
            fit = [abs(float(WholeNumbers().vector(document.full_text) @ vector) - hit.score) < 1e-3 for hit, document in scores]
            wrong, right = wrong + (not all(fit)), right + all(fit)
    except StaleIndexError:
        stale += 1
    if (index.path.parent / "end").exists():
        break
print(wrong, stale, right)
"""


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("verify", ["yes", "no"])
def test_readers_of_another_process_are_right_or_told_while_an_index_is_replaced(tmp_path, verify):
    Index.build(CORPUS, tmp_path / "index", WholeNumbers(), block=8)
    command = [sys.executable, "-c", READER, tmp_path / "index", verify]
    paths = os.pathsep.join([*sys.path, os.path.dirname(os.path.dirname(__file__))])
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert reader.stdout.readline() == "ready\n"
    for number in range(60):
        corpus = [Document(d.id, d.title, f"{d.text} w{number}") for d in CORPUS]
        Index.build(corpus, tmp_path / "index", WholeNumbers(), block=8, overwrite=True)
    (tmp_path / "end").touch()
    wrong, stale, right = map(int, reader.communicate()[0].split())
    assert wrong == 0
    assert right > 0
    assert reader.returncode == 0, stale


def test_the_index_of_names_that_a_manifest_claims_is_not_believed(tmp_path):
    Index.build(CORPUS, tmp_path / "index", WholeNumbers(), block=10)
    manifest = json.loads((tmp_path / "index" / "search.json").read_text())
    for name in ("notes.txt", "../notes.txt", "*", "documents.[a-z]*"):
        manifest["documents"]["files"][name] = {"bytes": 4, "sha256": "0"}
    (tmp_path / "index" / "search.json").write_text(json.dumps(manifest))
    for place in (tmp_path, tmp_path / "index"):
        (place / "notes.txt").write_text("mine")
    (tmp_path / "index" / "documents.abc").write_text("mine")
    Index.build(CORPUS, tmp_path / "index", WholeNumbers(), block=20, overwrite=True)
    assert [(place / "notes.txt").read_text() for place in (tmp_path, tmp_path / "index")] == ["mine"] * 2
    assert (tmp_path / "index" / "documents.abc").read_text() == "mine"
