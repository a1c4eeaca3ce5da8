"""An index beside writers, after kills and with damaged files: the old state, the new one or one sentence, and never a mixture."""

import datetime
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from helpers.other_process import finish, start
from helpers.small_search import NEW, OLD, Stopped, WholeNumbers, brute_force, change, small_corpus, stopping

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.locked import BusyError
from keras_bert_rebuild.search import table
from keras_bert_rebuild.search.index import Index

CHANGED = {document.id: document for document in (*OLD, *NEW)}
QUERIES = ["w1 w2", "w7"]


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old") / "index"
    Index.open(folder, WholeNumbers()).add(OLD)
    return folder


def documents_of(folder):
    """The documents of an index by id, once its searches are right."""
    index = Index.open(folder, WholeNumbers())
    documents = {document.id: document for document in index} if len(index) else {}
    if documents:
        for query, hits in zip(QUERIES, index.search(QUERIES, 20), strict=True):
            assert [tuple(hit) for hit in hits] == brute_force(WholeNumbers(), documents.values(), query, 20)
    return documents


def test_metadata_of_finished_rows_are_there_after_an_interrupted_call_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.search.dense_vectors.DenseVectors.BLOCK", 2)
    corpus = [Document(f"d{i}", "", f"w{i}", {"year": i} if i < 2 else {}) for i in range(6)]

    class Interrupted(WholeNumbers):
        def vector(self, text):
            if text == "w5":
                raise KeyboardInterrupt
            return super().vector(text)

    with pytest.raises(KeyboardInterrupt):
        Index.open(tmp_path / "index", Interrupted()).add(corpus)
    index = Index.open(tmp_path / "index", WholeNumbers())
    index.add(corpus)
    assert sorted(index) == corpus


class StopError(BaseException):
    """Instead of a kill."""


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("first", [True, False], ids=["new", "changed"])
def test_a_call_that_stops_at_any_step_leaves_the_old_state_and_is_continued(old, tmp_path, monkeypatch, first):
    states = []
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        if not first:
            shutil.copytree(old, folder)
        left = [step]

        def stop(left=left):
            left[0] -= 1
            if not left[0]:
                raise StopError

        model, again = WholeNumbers(), WholeNumbers()
        with monkeypatch.context() as patch:
            stopping(patch.setattr, stop)
            try:
                change(folder, model)
                break
            except StopError:
                pass
        before = {} if first else {document.id: document for document in OLD}
        after = before | {document.id: document for document in NEW}
        states.append(documents_of(folder))
        assert states[-1] in (before, after)
        change(folder, again)
        assert documents_of(folder) == after
        assert len(model.seen) + len(again.seen) <= len(NEW) + 4  # those of one batch are embedded again
        found = Index.open(folder, WholeNumbers()).search(["w1"], 30, by="bm25")[0]
        assert {hit.id for hit in found} == {name for name, each in after.items() if "w1" in each.full_text.split()}
        assert sorted(path.name for path in folder.iterdir()) == ["documents.lance"]
    assert states.count(after) < states.count(before) > 8
    assert states == sorted(states, key=lambda state: state == after)  # there is one moment of the change


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("step", [9, 20, 33])
def test_a_killed_call_leaves_the_old_state_and_is_continued(old, tmp_path, step):
    shutil.copytree(old, tmp_path / "index")
    code, out, err = finish(start("small_search.py", tmp_path / "index", step))
    assert code == -signal.SIGKILL, out + err
    assert documents_of(tmp_path / "index") in ({document.id: document for document in OLD}, CHANGED)
    model = WholeNumbers()
    change(tmp_path / "index", model)
    assert documents_of(tmp_path / "index") == CHANGED
    assert len(model.seen) < len(NEW)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("delay", [0.0, 0.004, 0.012])
def test_a_kill_within_a_commit_leaves_one_of_the_two_states(old, tmp_path, delay):
    shutil.copytree(old, tmp_path / "index")
    process = start("small_search.py", tmp_path / "index")
    while process.stdout.readline() != "writing\n":
        assert process.poll() is None
    time.sleep(delay)
    process.kill()
    finish(process)
    assert documents_of(tmp_path / "index") in ({document.id: document for document in OLD}, CHANGED)
    change(tmp_path / "index", WholeNumbers())
    assert documents_of(tmp_path / "index") == CHANGED


def test_a_document_that_changed_between_two_interruptions_is_there_once(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.search.dense_vectors.DenseVectors.BLOCK", 1)
    left = [0]

    def stop():
        left[0] -= 1
        if not left[0]:
            raise StopError

    for version, left[0] in ((1, 3), (2, 3), (2, 2)):  # at the last document, since two are finished
        documents = [{"id": name, "text": f"{name} in version {version}"} for name in "abcd"]
        with pytest.raises(StopError):
            Index.open(tmp_path / "index", Stopped(stop)).add(documents)
    assert Index.open(tmp_path / "index", WholeNumbers()).add(documents).added == 4
    assert [document.text for document in Index.open(tmp_path / "index")] == [f"{name} in version 2" for name in "abcd"]


def test_what_another_model_left_unfinished_is_not_used(tmp_path):
    left = [6]

    def stop():
        left[0] -= 1
        if not left[0]:
            raise StopError

    with pytest.raises(StopError):
        change(tmp_path / "index", Stopped(stop))
    model = WholeNumbers(name="another")
    change(tmp_path / "index", model)
    assert len(model.seen) == len(NEW)


def test_readers_see_their_state_until_they_refresh(tmp_path, monkeypatch):
    writer = Index.open(tmp_path / "index", WholeNumbers())
    writer.add(OLD)
    state = lambda index: (len(index), list(index), index.search(QUERIES, 5), index.search(QUERIES, 5, by="bm25"))  # noqa: E731
    readers, states = [], []
    for documents in ([NEW[7]], NEW, [document._replace(text="w1") for document in NEW]):
        readers.append(Index.open(tmp_path / "index", WholeNumbers()))
        states.append(state(readers[-1]))
        writer.update(documents)
        writer.delete([OLD[-1].id, documents[0].id])
        assert [state(reader) for reader in readers] == states
    for reader in readers:
        reader.refresh()
        assert state(reader) == state(writer)


def test_a_snapshot_outlives_the_removal_of_old_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "KEPT", datetime.timedelta(milliseconds=1))
    index = Index.open(tmp_path / "index", WholeNumbers())
    index.add(OLD)
    index.snapshot("first")
    expected = index.search(QUERIES, 5)
    for number in range(3):
        index.update([document._replace(text=f"w{number}") for document in OLD])
    kept = Index.open(tmp_path / "index", WholeNumbers(), snapshot="first")
    assert (kept.search(QUERIES, 5), sorted(kept)) == (expected, sorted(OLD))
    assert index.snapshots == ["first"]
    kept.add([NEW[-1]])  # writing resumes from the newest state
    assert kept.document(OLD[0].id).text == "w2"
    other = Index.open(tmp_path / "other")
    for number in range(9):
        other.add([{"id": number, "text": "x"}])
    manifests = [len([*(tmp_path / name / "documents.lance" / "_versions").glob("*.manifest")]) for name in ("index", "other")]
    assert manifests[1] < 6 < manifests[0]


def test_of_two_writers_the_second_is_told(tmp_path):
    errors = []

    def write():
        with pytest.raises(BusyError) as error:
            Index.open(tmp_path / "index", WholeNumbers()).add(OLD[:1])
        errors.append(str(error.value))

    def second():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()

    Index.open(tmp_path / "index", Stopped(second)).add(OLD[1:])
    assert len(errors) == len(OLD) - 1
    assert "index" in errors[0]
    assert len(Index.open(tmp_path / "index")) == len(OLD) - 1


READER = """
import sys, os
from helpers.small_search import WholeNumbers, brute_force
from keras_bert_rebuild.search.index import Index
versions, last = set(), False
while not last:
    last = os.path.exists(sys.argv[1] + ".end")
    index = Index.open(sys.argv[1], WholeNumbers())
    for _ in range(2):
        documents = list(index)
        (version,) = {document.metadata["version"] for document in documents}
        versions.add(version)
        assert [tuple(hit) for hit in index.search(["w1 w2"], 9)[0]] == brute_force(WholeNumbers(), documents, "w1 w2", 9)
    if versions == {0}:
        print("ready", flush=True)
print(*sorted(versions))
"""


def test_of_two_changes_that_contradict_the_second_is_one_sentence(old, tmp_path, monkeypatch):
    # In object storage nothing makes writers take turns: both see documents without the metadata that both add.
    shutil.copytree(old, tmp_path / "index")
    first, second = table.Table(tmp_path / "index"), table.Table(tmp_path / "index")
    column, see_newest = [pa.field("colour", pa.string())], first._table.checkout_latest

    def meanwhile():
        see_newest()
        second.add_columns(column)

    monkeypatch.setattr(first._table, "checkout_latest", meanwhile)
    with pytest.raises(ValueError, match=r"^another process changed .*index at the same time: repeat the command\.$"):
        first.add_columns(column)
    assert table.Table(tmp_path / "index").schema.names.count("colour") == 1


@pytest.mark.slow(torch=True)
def test_two_readers_of_other_processes_see_one_state_at_a_time(tmp_path):
    corpus = lambda version: [Document(d.id, d.title, f"{d.text} w{version}", {"version": version}) for d in small_corpus(30)]  # noqa: E731
    index = Index.open(tmp_path / "index", WholeNumbers())
    index.add(corpus(0))
    paths = os.pathsep.join([*sys.path, os.path.dirname(os.path.dirname(__file__))])
    command, environment = [sys.executable, "-c", READER, tmp_path / "index"], {**os.environ, "PYTHONPATH": paths}
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    assert {reader.stdout.readline() for reader in readers} == {"ready\n"}
    for version in range(1, 9):
        index.update(corpus(version))
    (tmp_path / "index.end").touch()
    for reader in readers:
        seen = [int(version) for version in reader.communicate()[0].split() if version != "ready"]
        assert reader.returncode == 0
        assert len(seen) > 1
        assert seen[-1] == 8


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("damage", [None, 0.0, 0.5], ids=["gone", "empty", "half"])
def test_a_damaged_file_changes_no_answer(old, tmp_path, damage):
    def answers():
        index = Index.open(tmp_path / "index", WholeNumbers())
        names = [hit.id for hits in index.search(QUERIES, 5) for hit in hits]
        found = index.search(QUERIES, 5, filter="id > 'd2'"), index.search(QUERIES, 5, by="bm25"), index.documents(names)
        return names, found, list(index), [len(documents) for documents, _ in index.stored()]

    shutil.copytree(old, tmp_path / "index")
    right = [answers()]
    Index.open(tmp_path / "index").delete([OLD[0].id])
    right.append(answers())
    refused = 0
    for path in sorted(each for each in (tmp_path / "index").rglob("*") if each.is_file()):
        content = path.read_bytes()
        path.unlink() if damage is None else path.write_bytes(content[: int(damage * len(content))])
        try:
            assert answers() in (right if path.suffix == ".manifest" else right[1:]), path
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
            assert f"expected an index at {tmp_path / 'index'} that can be read; files of it are damaged or missing" in str(error)  # noqa: PT017
        path.write_bytes(content)
    assert refused > 3
    assert answers() == right[1]
