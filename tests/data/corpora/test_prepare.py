"""Preparing a corpus: the same bytes for every number of workers, and after a kill."""

import gc
import json
import math
import signal
import subprocess
import sys
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.prepare import make_shard_writer, prepare
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

PACKAGE = Path(__file__).parents[3] / "keras_bert_rebuild"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "boat", "##s", ".", "the", "river", "é"]
WORDS = ("a", "boat", "boats", "the", "river", "ab", "ba", "Boat.", "unknown", "é", "\u200b", "...")


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Forty documents of five short lines, one of them not UTF-8."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = []
    for i in range(40):
        lines += [" ".join(WORDS[(i * 7 + j * j + k) % len(WORDS)] for k in range(1 + (i + j) % 6)) for j in range(5)] + [""]
    (folder / "a.txt").write_text("\n".join(lines[:120]), encoding="utf-8")
    (folder / "b.txt").write_bytes(b"\xff\n" + "\n".join(lines[120:]).encode())
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected(corpus, cased=False):
    """Passages of ids, grouped by document, tokenised one by one."""
    tokenizer = WordPieceTokenizer(TOKENS, cased=cased)
    documents = [d for block in CorpusReader(corpus, block_bytes=math.inf).blocks() for d in block.documents]
    encoded = [[tokenizer.encode_flat([passage])[0].tolist() for passage in document] for document in documents]
    return [passages for document in encoded if (passages := [ids for ids in document if ids])]


def stored(store):
    """The same from a store."""
    starts = store.passage_starts
    passages = [store.ids_at(np.arange(a, b)).tolist() for a, b in pairwise(starts)]
    places = np.searchsorted(starts, store.document_starts)
    assert (starts[places] == store.document_starts).all()
    return [passages[a:b] for a, b in pairwise(places)]


def test_a_store_is_tokenised_with_the_settings_next_to_the_vocabulary(tmp_path, corpus):
    folder = tmp_path / "model"
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(TOKENS) + "\nBoat\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    prepare(corpus, vocabulary, tmp_path / "out", workers=1)
    store = TokenStore(tmp_path / "out")
    assert not store.cased
    ids = set(store.ids_at(np.arange(store.num_tokens)).tolist())
    assert TOKENS.index("é") in ids
    assert len(TOKENS) not in ids
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(ValueError, match="expected a separate folder for these settings"):
        prepare(corpus, vocabulary, tmp_path / "out", workers=1)


@pytest.mark.parametrize("block_bytes", [300, 10**6])
def test_a_store_holds_the_tokenised_ids(tmp_path, corpus, vocabulary, block_bytes):
    calls = []
    done = prepare(corpus, vocabulary, tmp_path / "out", workers=1, block_bytes=block_bytes, progress=lambda *a: calls.append(a))
    store = TokenStore(tmp_path / "out")
    assert stored(store) == expected(corpus)
    assert store.vocabulary == TOKENS
    assert not store.cased
    assert done.counts["tokens"] == store.num_tokens == store.passage_starts[-1] == store.document_starts[-1]
    assert done.counts["documents"] == len(store.document_starts) - 1
    assert done.counts["passages"] == len(store.passage_starts) - 1
    assert done.counts["unknown"] == sum(ids.count(1) for document in expected(corpus) for ids in document)
    assert done.notes == ["b.txt, line 1: not UTF-8, skipped"]
    assert sum(file_bytes for file_bytes, _ in calls) == sum(path.stat().st_size for path in corpus.iterdir())
    store.verify()


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.lists(st.sampled_from(WORDS), min_size=1).map(" ".join), max_size=4), min_size=1, max_size=9),
    st.integers(20, 400),
    st.booleans(),
)
def test_any_documents_in_blocks_of_any_size_are_stored(tmp_path_factory, documents, block_bytes, cased):
    folder = tmp_path_factory.mktemp("any")
    (folder / "v.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    text = "\n\n".join("\n".join(document) for document in [*documents, ["a boat"]])
    (folder / "a.txt").write_text(text, encoding="utf-8")
    prepared = prepare(folder / "a.txt", folder / "v.txt", folder / "out", cased=cased, workers=1, block_bytes=block_bytes)
    assume(all(len(np.load(path)) for path in (folder / "out").glob("*.ids.npy")))  # see below
    assert stored(TokenStore(folder / "out")) == expected(folder / "a.txt", cased)
    assert prepared.counts["documents"] == len(expected(folder / "a.txt", cased))


@pytest.mark.parametrize("first", ["\u200b", "boat"])
def test_a_shard_without_a_token_ends_a_document(tmp_path, vocabulary, first):
    (tmp_path / "a.txt").write_text(f"the\n\n{first}\n\u200b\nriver\nboats\n\na", encoding="utf-8")
    prepare(tmp_path / "a.txt", vocabulary, tmp_path / "out", workers=1, block_bytes=4)
    boat = [[[9]]] if first == "boat" else []
    assert stored(TokenStore(tmp_path / "out")) == [[[12]], *boat, [[13], [9, 10]], [[5]]]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_document_of_many_shards_is_one_document(tmp_path, vocabulary, workers):
    documents = [["a boat"] * 3, [f"the river {word}" for word in WORDS * 4], ["boats ."] * 2, list(WORDS * 9)]
    (tmp_path / "a.txt").write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    assert not prepare(tmp_path / "a.txt", vocabulary, tmp_path / "out", workers=workers, block_bytes=60).notes
    store = TokenStore(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.ids.npy"))) > 20
    assert stored(store) == expected(tmp_path / "a.txt")
    assert len(store.document_starts) == 4 + 1


def test_slices_of_a_block_change_nothing(tmp_path, corpus, vocabulary, monkeypatch):
    for size in (1, 7, 64, 10**6):
        monkeypatch.setattr("keras_bert_rebuild.data.corpora.prepare._SLICE", size)
        prepare(corpus, vocabulary, tmp_path / f"out{size}", workers=1)
        assert contents(tmp_path / f"out{size}") == contents(tmp_path / "out1")


def test_words_of_earlier_blocks_take_no_memory(tmp_path, vocabulary):
    vocabulary.rename(tmp_path / "vocab.txt")
    write = make_shard_writer(tmp_path, False, "uint16")
    tracemalloc.start()
    try:
        held = []
        for number in range(8):
            write((number, bytearray(" ".join(f"w{number * 1000 + i}" for i in range(1000)), "ascii"), False))
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(held[2:]) < held[1] + 20_000, held


def test_any_number_of_workers_writes_the_same_bytes(tmp_path, corpus, vocabulary):
    for workers in (1, 2, 3):
        prepare(corpus, vocabulary, tmp_path / f"out{workers}", workers=workers, block_bytes=400)
    assert len(contents(tmp_path / "out1")) > 20
    assert contents(tmp_path / "out1") == contents(tmp_path / "out2") == contents(tmp_path / "out3")


def test_only_all_parts_together_make_a_store(tmp_path, corpus, vocabulary):
    """Stores of earlier versions may have been made in parts, by several hosts."""
    prepare(corpus, vocabulary, tmp_path / "whole", workers=1, block_bytes=400)
    expected = stored(TokenStore(tmp_path / "whole"))
    path = tmp_path / "whole" / "index.json"
    index = json.loads(path.read_bytes())
    path.unlink()
    for i in (2, 0, 1):
        with pytest.raises(ValueError, match=r"has no index.json|has no index-0000[01]-of-00003.json"):
            TokenStore(tmp_path / "whole")
        part = {**index, "part": [i, 3], "shards": index["shards"][i::3]}
        (tmp_path / "whole" / f"index-0000{i}-of-00003.json").write_text(json.dumps(part))
    assert stored(TokenStore(tmp_path / "whole")) == expected
    with pytest.raises(ValueError, match="has parts 3, not 1"):
        prepare(corpus, vocabulary, tmp_path / "whole", workers=1, block_bytes=400)


# The process is killed before and after every replace, unlink and write of an array.
KILLED = """
import os, pathlib, signal, sys
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
import numpy
from keras_bert_rebuild.data.corpora.prepare import prepare
import keras_bert_rebuild.text.wordpiece_tokenizer
corpus, vocabulary, folder = sys.argv[2:]
points = 0

def reach(limit):
    global points
    points += 1
    if points == limit:
        os.kill(os.getpid(), signal.SIGKILL)

def with_points(function, limit):
    def called(*args, **options):
        reach(limit)
        result = function(*args, **options)
        reach(limit)
        return result
    return called

def run(output, limit=0):
    pid = os.fork()
    if pid == 0:
        for owner, name in ((os, "replace"), (pathlib.Path, "unlink"), (os, "unlink"), (os, "fsync"), (numpy, "save")):
            setattr(owner, name, with_points(getattr(owner, name), limit))
        prepare(corpus, vocabulary, output, workers=1, block_bytes=2500)
        print(points, flush=True)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

limit = 0
while True:
    limit += 1
    if run(f"{folder}/{limit}", limit) == 0:
        break
    assert run(f"{folder}/{limit}") == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
@pytest.mark.slow(torch=True)
def test_a_run_killed_at_any_point_resumes_to_the_same_bytes(tmp_path, corpus, vocabulary):
    prepare(corpus, vocabulary, tmp_path / "whole", workers=1, block_bytes=2500)
    (tmp_path / "runs").mkdir()
    arguments = map(str, (PACKAGE, corpus, vocabulary, tmp_path / "runs"))
    subprocess.run([sys.executable, "-c", KILLED, *arguments], check=True, capture_output=True)
    runs = list((tmp_path / "runs").iterdir())
    assert len(runs) > 40
    for run in runs:
        assert contents(run) == contents(tmp_path / "whole"), run.name


STOPPED = """
import sys
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.prepare import prepare
print(prepare(*sys.argv[2:5], workers=2, block_bytes=40_000).made)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
@pytest.mark.slow(torch=True)
def test_a_killed_or_interrupted_run_of_several_processes_resumes(tmp_path, vocabulary):
    lines = (f"a boat by the river {i} and {i * 7} boats {i * i}" + "\n" * (i % 9 == 0) for i in range(50_000))
    (tmp_path / "large.txt").write_text("\n".join(lines))

    def start(output):
        arguments = map(str, (PACKAGE, tmp_path / "large.txt", vocabulary, output))
        return subprocess.Popen([sys.executable, "-c", STOPPED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def shards(output):
        return len(list(output.glob("shard-*.json")))

    with start(tmp_path / "whole") as process:
        made = int(process.stdout.read())
    for how in (signal.SIGINT, signal.SIGKILL):
        before = shards(tmp_path / "out")
        with start(tmp_path / "out") as process:
            while process.poll() is None and shards(tmp_path / "out") < before + 3:
                time.sleep(0.001)
            process.send_signal(how)
        assert process.returncode == -how
        with pytest.raises(ValueError, match="is not finished"):
            TokenStore(tmp_path / "out")
    with start(tmp_path / "out") as process:
        assert int(process.stdout.read()) <= made - 6
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_finished_shards_are_reused_and_damaged_ones_are_redone(tmp_path, corpus, vocabulary):
    output = tmp_path / "out"
    made = prepare(corpus, vocabulary, output, workers=1, block_bytes=400)
    whole = contents(output)
    assert made.made == made.shards > 5
    assert prepare(corpus, vocabulary, output, workers=1, block_bytes=400).made == 0
    path = output / "shard-000002.ids.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    (output / "shard-000003.passages.npy").unlink()
    (output / "shard-000004.documents.npy").write_bytes(b"")
    again = prepare(corpus, vocabulary, output, workers=1, block_bytes=400)
    assert again.made == 3
    assert again.notes == made.notes
    assert again.counts == made.counts
    assert contents(output) == whole


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cased": True}, "has cased false, not true"),
        ({"block_bytes": 401}, "has block_bytes 400, not 401"),
        ({"document_per_file": True}, "has document_per_file false, not true"),
        ("vocabulary", "has vocabulary"),
        ("corpus", "has corpus"),
    ],
)
def test_a_folder_of_other_settings_is_refused_and_left_alone(tmp_path, corpus, vocabulary, change, message, finished):
    output = tmp_path / "out"
    prepare(corpus, vocabulary, output, workers=1, block_bytes=400)
    if not finished:
        index = json.loads((output / "index.json").read_bytes())
        (output / "index.json").unlink()
        kept = {name: index[name] for name in ("format", "version", "part", "settings")}
        (output / "progress.json").write_text(json.dumps(kept))
    if change == "vocabulary":
        vocabulary.write_text("\n".join([*TOKENS, "new"]), encoding="utf-8")
    if change == "corpus":
        (corpus / "c.txt").write_text("a")
    before = contents(output)
    options = {"block_bytes": 400, **(change if isinstance(change, dict) else {})}
    with pytest.raises(ValueError, match=message) as error:
        prepare(corpus, vocabulary, output, workers=1, **options)
    assert str(error.value).count("\n") == 0
    assert contents(output) == before


@pytest.mark.parametrize("finished", [True, False])
def test_a_folder_of_another_version_is_refused_and_left_alone(tmp_path, corpus, vocabulary, finished):
    output = tmp_path / "out"
    prepare(corpus, vocabulary, output, workers=1)
    index = output / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_bytes()), "version": 1}))
    if not finished:
        index.rename(output / "progress.json")
    before = contents(output)
    with pytest.raises(ValueError, match=r"expected .*version 2 of the format; .*\.json has version 1"):
        prepare(corpus, vocabulary, output, workers=1)
    assert contents(output) == before


def test_capitals_in_the_vocabulary_make_it_cased_unless_set_otherwise(tmp_path, corpus, vocabulary):
    assert not prepare(corpus, vocabulary, tmp_path / "1", workers=1).cased
    assert prepare(corpus, vocabulary, tmp_path / "2", workers=1, cased=True).cased
    vocabulary.write_text("\n".join([*TOKENS, "Boat"]), encoding="utf-8")
    assert prepare(corpus, vocabulary, tmp_path / "3", workers=1).cased
    assert not prepare(corpus, vocabulary, tmp_path / "4", workers=1, cased=False).cased
    assert [TokenStore(tmp_path / str(i)).cased for i in (1, 2, 3, 4)] == [False, True, True, False]


def test_large_vocabularies_are_stored_in_four_bytes(tmp_path, corpus):
    for more, dtype in ((0, "uint16"), (1, "int32")):
        tokens = [*TOKENS, *(f"w{i}" for i in range((1 << 16) - len(TOKENS) + more))]
        (tmp_path / "large.txt").write_text("\n".join(tokens), encoding="utf-8")
        prepare(corpus, tmp_path / "large.txt", tmp_path / dtype, workers=1)
        assert np.load(tmp_path / dtype / "shard-000000.ids.npy").dtype == dtype
        assert stored(TokenStore(tmp_path / dtype)) == expected(corpus)


def test_wrong_input_is_one_sentence_and_nothing_is_written(tmp_path, corpus, vocabulary):
    def refused(message, corpus=corpus, vocabulary=vocabulary, output=tmp_path / "out", **options):
        with pytest.raises(ValueError, match=message) as error:
            prepare(corpus, vocabulary, output, **{"workers": 1, **options})
        assert "\n" not in str(error.value)
        assert not (tmp_path / "out").exists()

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "vocab.txt").write_text("mine")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "wordless.txt").write_text("\u200b\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    (tmp_path / "damaged.gz").write_bytes(b"\xff")
    (corpus / "v.txt").write_bytes(vocabulary.read_bytes())
    refused("nothing does not exist", corpus=tmp_path / "nothing")
    refused("at least one line of text", corpus=tmp_path / "empty.txt")
    refused("at least one word", corpus=tmp_path / "wordless.txt")
    refused("is damaged", corpus=tmp_path / "damaged.gz")
    refused("does not exist", vocabulary=tmp_path / "nothing")
    refused("is a folder", vocabulary=tmp_path / "other")
    refused("must be a vocabulary in UTF-8", vocabulary=tmp_path / "bytes.txt")
    refused(r"a vocabulary with \[UNK\]", vocabulary=tmp_path / "empty.txt")
    refused("vocabulary outside the corpus", vocabulary=corpus / "v.txt")
    refused("folder outside the corpus", output=corpus / "out")
    refused("is a file", output=tmp_path / "empty.txt")
    refused("workers must be at least 1", workers=0)
    refused("is a different one", output=tmp_path / "other")
    assert contents(tmp_path / "other") == {"vocab.txt": b"mine"}


def test_a_vocabulary_in_the_folder_survives_a_corpus_without_words(tmp_path, vocabulary):
    (tmp_path / "out").mkdir()
    own = vocabulary.rename(tmp_path / "out" / "vocab.txt")
    (tmp_path / "wordless.txt").write_text("\u200b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="at least one word"):
        prepare(tmp_path / "wordless.txt", own, tmp_path / "out", workers=1)
    assert list(contents(tmp_path / "out")) == ["vocab.txt"]


def test_a_vocabulary_in_the_folder_is_used(tmp_path, corpus, vocabulary):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "vocab.txt").write_bytes(vocabulary.read_bytes())
    prepare(corpus, tmp_path / "out" / "vocab.txt", tmp_path / "out", workers=1)
    assert stored(TokenStore(tmp_path / "out")) == expected(corpus)
