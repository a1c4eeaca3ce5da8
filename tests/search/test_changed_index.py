"""An index whose files were changed answers as before or is an error of one sentence, and never anything else."""

import hashlib
import itertools
import shutil

import numpy as np
import pytest
from helpers.small_search import WholeNumbers, Words, WordVectors, small_corpus

from keras_bert_rebuild.search.index import Index

CORPUS = small_corpus(40)
QUERIES = ["w1 w2 w3", "w7", "w30 w31 w9 w4"]
STORAGES = [
    *((WholeNumbers, dtype, rescoring) for dtype, rescoring in (("float32", None), ("float16", None), ("int8", None))),
    *((WholeNumbers, dtype, rescoring) for dtype, rescoring in (("int8", "float32"), ("binary", "int8"), ("binary", "none"))),
    *((Words, dtype, None) for dtype in ("float32", "float16")),
    *((WordVectors, dtype, None) for dtype in ("float32", "float16", "int8")),
]


def answers(folder, model, **options):
    """What a search returns: ids, scores and documents; or None if the index is refused in one sentence."""
    try:
        index = Index.open(folder, model, **options)
        found = index.search(QUERIES, 5)
        stored = [documents for documents, _ in index.stored()]
        return [[(*hit, index.document(hit.id)) for hit in hits] for hits in found], stored
    except (ValueError, OSError) as error:
        said = str(error)
    assert "\n" not in said
    assert str(folder) in said
    return None


def changes(folder, draws, flips):
    """Pairs of a file and its new content: a bit less, bytes less or more, and other files of its size."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    contents = {path: path.read_bytes() for path in paths}
    for path, content in contents.items():
        head = draws.integers(0, min(128, len(content)), flips // 2)
        for at in (*head, *draws.integers(0, len(content), flips - flips // 2), len(content) - 1):
            changed = bytearray(content)
            changed[at] ^= 1 << int(draws.integers(8))
            yield path, bytes(changed)
        yield path, b""
        yield path, content[: int(draws.integers(len(content)))]
        yield path, content + content[-8:]
        yield from ((path, other) for name, other in contents.items() if name != path and len(other) == len(content))
        yield from not_numbers(path, content)


def not_numbers(path, content):
    """NaN, infinity and the highest finite number among the numbers of an array."""
    if path.suffix != ".npy" or np.load(path).dtype.kind != "f":
        return
    for value in (np.nan, np.inf, -np.inf, np.finfo(np.load(path).dtype).max):
        values = np.load(path).copy()
        if values.size:
            values.flat[values.size // 2] = value
            yield path, content[: len(content) - values.nbytes] + values.tobytes()


@pytest.mark.parametrize(("kind", "dtype", "rescoring"), STORAGES)
def test_a_changed_file_never_changes_an_answer(tmp_path, kind, dtype, rescoring):
    folder, model = tmp_path / "index", kind()
    Index.build(CORPUS, folder, model, dtype=dtype, rescoring=rescoring, block=16)
    expected = answers(folder, model)
    wrong, refused, tried = [], 0, 0
    for path, content in changes(folder, np.random.default_rng(5), 8):
        before = path.read_bytes()
        if content == before:
            continue
        path.write_bytes(content)
        found, tried = answers(folder, model), tried + 1
        refused += found is None
        if found not in (None, expected):
            wrong.append(path.name)
        path.write_bytes(before)
    assert not wrong, f"{len(wrong)} of {tried} answer wrongly: {sorted(set(wrong))}"
    assert refused > tried // 2


@pytest.mark.parametrize(
    ("kind", "dtype"), [(WholeNumbers, "float32"), (WholeNumbers, "int8"), (WordVectors, "int8"), (Words, "float16")]
)
def test_numbers_that_are_not_finite_are_refused_without_verification_too(tmp_path, kind, dtype):
    folder, model = tmp_path / "index", kind()
    Index.build(CORPUS, folder, model, dtype=dtype, block=16)
    for path in sorted(folder.glob("block-*.npy")):
        for changed, content in itertools.islice(not_numbers(path, path.read_bytes()), 3):
            before = path.read_bytes()
            changed.write_bytes(content)
            with pytest.raises(ValueError, match=r"expected finite numbers in .*index/block-0.*: build it again"):
                Index.open(folder, model, verify=False).search(QUERIES)
            path.write_bytes(before)


def test_files_of_another_index_of_the_same_sizes_are_refused(tmp_path):
    model = WholeNumbers()
    Index.build(CORPUS, tmp_path / "index", model, block=16)
    Index.build([document._replace(text=document.text[::-1]) for document in CORPUS], tmp_path / "other", model, block=16)
    expected = answers(tmp_path / "index", model)
    for path in sorted((tmp_path / "index").iterdir()):
        shutil.copytree(tmp_path / "index", tmp_path / "mixed", dirs_exist_ok=True)
        shutil.copy(tmp_path / "other" / path.name, tmp_path / "mixed")
        assert answers(tmp_path / "mixed", model) in (None, expected), path.name


def test_without_verification_nothing_is_hashed_and_the_answers_are_the_same(tmp_path, monkeypatch):
    model = WholeNumbers()
    Index.build(CORPUS, tmp_path / "index", model, block=16)
    expected = answers(tmp_path / "index", model)
    with monkeypatch.context() as patch:
        patch.setattr("hashlib.file_digest", None)
        assert answers(tmp_path / "index", model, verify=False) == expected


def test_every_file_is_hashed_once_when_it_is_first_read(tmp_path, monkeypatch):
    model, hashed, digest = WholeNumbers(), [], hashlib.file_digest
    Index.build(CORPUS, tmp_path / "index", model, block=16)
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: hashed.append(file.name) or digest(file, name))
    index = Index.open(tmp_path / "index", model)
    assert not [name for name in hashed if "block" in str(name)]
    for _ in range(3):
        index.search(QUERIES)
        index.document("d1")
    assert len(hashed) == len(set(hashed)) == len(list((tmp_path / "index").iterdir())) - 1  # all but search.json
