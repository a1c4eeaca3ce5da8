"""Reading a folder of tokens, and refusing one that is not whole; offsets read piece by piece are those of an array in memory."""

import hashlib
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.offsets import JoinedOffsets, SelectedOffsets
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.token_store import TokenStore, span_indexes

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three"]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("\n".join(TOKENS), encoding="utf-8")
    return path


@pytest.fixture(params=[60, 10**6], ids=["shards", "shard"])
def folder(request, tmp_path, vocabulary):
    """A store of several shards or of one; some documents and passages have no tokens."""
    documents = [["one two", "three one"], ["\u200b", "two"], ["\u200b"], ["x one", "two three two"], ["three"], ["\u200b" * 15]]
    text = "\n\n".join("\n".join(document) for document in documents * 5)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    prepare(tmp_path / "a.txt", vocabulary, tmp_path / "store", workers=1, block_bytes=request.param)
    return tmp_path / "store"


def flat(folder):
    return np.concatenate([np.load(path) for path in sorted(folder.glob("*.ids.npy"))])


def test_ids_are_read_at_positions_of_any_shape(folder, rng):
    store, ids = TokenStore(folder), flat(folder)
    assert store.num_tokens == len(ids) == 5 * 11
    for shape in ((), (0,), (1,), (7,), (3, 4), (2, 3, 5), (0, 4)):
        positions = rng.integers(0, len(ids), shape)
        found = store.ids_at(positions)
        assert found.dtype == "int32"
        assert found.shape == shape
        assert (found == ids[positions]).all()
    assert (store.ids_at(list(range(len(ids)))) == ids).all()


def test_starts_are_those_of_passages_and_documents_that_have_tokens(folder):
    store = TokenStore(folder)
    lengths = [2, 2, 1, 2, 3, 1] * 5
    assert store.passage_starts.tolist() == np.cumsum([0, *lengths]).tolist()
    assert store.document_starts.tolist() == np.cumsum([0, *[4, 1, 5, 1] * 5]).tolist()
    assert store.passage_starts.dtype == store.document_starts.dtype == "int64"


def test_an_invalid_position_is_an_error(folder):
    store = TokenStore(folder)
    for positions in ([-1], [store.num_tokens], [[0, 1], [2, 1000]]):
        with pytest.raises(IndexError, match=rf"\[0, {store.num_tokens}\)"):
            store.ids_at(positions)


def test_a_store_is_pickled_as_its_path(folder):
    store = TokenStore(folder)
    store.ids_at([0])
    packed = pickle.dumps(store)
    assert len(packed) < 500
    assert (pickle.loads(packed).ids_at(np.arange(20)) == store.ids_at(np.arange(20))).all()


def test_few_files_are_open_at_once(folder, monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.data.corpora.token_store._MAPS_OPEN", 2)
    store, ids = TokenStore(folder), flat(folder)
    for _ in range(3):
        assert (store.ids_at(np.arange(len(ids))[::-1]) == ids[::-1]).all()
        assert len(store._maps) <= 2


def change_json(path, change):
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def rename_file(index, name):
    files = index["shards"][0]["files"]
    files[name] = files.pop("shard-000000.ids.npy")


DAMAGED = {
    "no index": (lambda f: (f / "index.json").unlink(), "has no index.json"),
    "unfinished": (lambda f: (f / "index.json").rename(f / "progress.json"), "is not finished"),
    "index is cut": (lambda f: (f / "index.json").write_bytes((f / "index.json").read_bytes()[:99]), "damaged or something else"),
    "index is a list": (lambda f: (f / "index.json").write_text("[]"), "damaged or something else"),
    "index nests": (lambda f: (f / "index.json").write_text("[" * 100_000), "damaged or something else"),
    "index is not UTF-8": (lambda f: (f / "index.json").write_bytes(b"\xff\xff"), "damaged or something else"),
    "other format": (lambda f: change_json(f / "index.json", lambda i: i.update(format="x")), "damaged or something else"),
    "other version": (lambda f: change_json(f / "index.json", lambda i: i.update(version=99)), "version 2 of the format"),
    "part of another name": (lambda f: change_json(f / "index.json", lambda i: i.update(part=[0, 2])), "damaged or something"),
    "no settings": (lambda f: change_json(f / "index.json", lambda i: i.update(settings={})), "settings of `keras-bert prepare`"),
    "objects": (
        lambda f: change_json(f / "index.json", lambda i: i["settings"].update(dtype="O")),
        "settings of `keras-bert prepare`",
    ),
    "no shards": (lambda f: change_json(f / "index.json", lambda i: i.pop("shards")), "list of shards"),
    "a shard less": (lambda f: change_json(f / "index.json", lambda i: i["shards"].pop()), "every shard once"),
    "a shard twice": (lambda f: change_json(f / "index.json", lambda i: i["shards"].append(i["shards"][0])), "every shard once"),
    "blocks are text": (lambda f: change_json(f / "index.json", lambda i: i.update(blocks="1")), "every shard once"),
    "negative": (
        lambda f: change_json(f / "index.json", lambda i: i["shards"][0].update(tokens=-1)),
        "counts and files of a shard",
    ),
    "text": (lambda f: change_json(f / "index.json", lambda i: i["shards"][0].update(tokens="1")), "counts and files of a shard"),
    "outside": (lambda f: change_json(f / "index.json", lambda i: rename_file(i, "../v.txt")), "counts and files of a shard"),
    "absolute": (lambda f: change_json(f / "index.json", lambda i: rename_file(i, "/etc/passwd")), "counts and files of a shard"),
    "number": (
        lambda f: change_json(f / "index.json", lambda i: i["shards"][0].update(number="../0")),
        "counts and files of a shard",
    ),
    "cut": (lambda f: (f / "shard-000000.ids.npy").write_bytes((f / "shard-000000.ids.npy").read_bytes()[:-2]), "has [0-9]+"),
    "missing": (lambda f: (f / "shard-000000.documents.npy").unlink(), "documents.npy does not exist"),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "vocab.txt does not exist"),
    "other vocabulary": (lambda f: (f / "vocab.txt").write_text("other"), "vocab.txt is a different one"),
    "two runs": (lambda f: (f / "index-00000-of-00002.json").write_text("{}"), "damaged or something else"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_an_incomplete_folder_is_one_sentence(folder, damage):
    change, message = DAMAGED[damage]
    change(folder)
    with pytest.raises(ValueError, match=message) as error:
        TokenStore(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_a_folder_that_is_not_there_or_a_file_is_one_sentence(tmp_path, vocabulary):
    for path, message in ((tmp_path / "nothing", "does not exist"), (vocabulary, "is a file"), (tmp_path, "has no index")):
        with pytest.raises(ValueError, match=message):
            TokenStore(path)


def divide(folder):
    """Give a store an index for each of two parts, as earlier versions could write them."""
    index = json.loads((folder / "index.json").read_bytes())
    (folder / "index.json").unlink()
    for i in range(2):
        part = {**index, "part": [i, 2], "shards": index["shards"][i::2]}
        (folder / f"index-0000{i}-of-00002.json").write_text(json.dumps(part))


def test_parts_of_two_runs_do_not_make_a_store(tmp_path, vocabulary):
    for i, text in ((0, "one two"), (1, "one two three")):
        (tmp_path / "a.txt").write_text(text)
        prepare(tmp_path / "a.txt", vocabulary, tmp_path / f"out{i}", workers=1)
        divide(tmp_path / f"out{i}")
    (tmp_path / "out1" / "index-00001-of-00002.json").rename(tmp_path / "out0" / "index-00001-of-00002.json")
    with pytest.raises(ValueError, match="the parts of one run"):
        TokenStore(tmp_path / "out0")


def test_the_digest_of_a_store_depends_on_its_bytes_alone(tmp_path, vocabulary):
    texts = ["one two\n\nthree", "one two\n\nthree", "one\n\ntwo three", "two one\n\nthree"]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.txt").write_text(text)
        prepare(tmp_path / f"{i}.txt", vocabulary, tmp_path / f"out{i}", workers=1)
    digests = [TokenStore(tmp_path / f"out{i}").sha256 for i in range(4)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    divide(tmp_path / "out0")
    assert TokenStore(tmp_path / "out0").sha256 == digests[0]
    vocabulary.write_text("\n".join([*TOKENS, "four"]))
    prepare(tmp_path / "0.txt", vocabulary, tmp_path / "out", workers=1)
    assert TokenStore(tmp_path / "out").sha256 not in digests


def test_a_changed_byte_is_found_only_by_verify(folder):
    path = folder / "shard-000000.ids.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    store = TokenStore(folder)
    with pytest.raises(ValueError, match=r"shard-000000\.ids\.npy was changed"):
        store.verify()


def test_an_array_of_another_kind_is_one_sentence(folder):
    path = folder / "shard-000000.ids.npy"
    size = path.stat().st_size
    for content in (
        path.read_bytes().replace(b"<u2", b"<i2"),
        b"\x80" * size,
        b"\x93NUMPY" + bytes(size - 6),
        b"PK\x03\x04" + bytes(size - 4),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="expected an array"):
            TokenStore(folder).ids_at([0])


def test_inspecting_a_store_reads_no_more_than_needed(folder):
    store = TokenStore(folder)
    store.ids_at([0])
    assert len(store._maps) == 1
    (array,) = store._maps.values()
    assert type(array) is np.ndarray
    assert not array.flags.owndata
    assert not array.flags.writeable


def changed(folder, kind, change):
    """Change an array of the first shard and its digest in the index, as an attacker would."""
    path = folder / f"shard-000000.{kind}.npy"
    array = np.load(path)
    change(array)
    np.save(path, array)
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["files"][path.name] = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "index.json").write_text(json.dumps(index))


def far_end(array):
    array[-1] = 2**62


def backwards(array):
    array[:] = array[::-1].copy()


def first_below(array):
    array[0] = -5


def within(array):
    array[1] += 1


CHANGES = (far_end, backwards, first_below)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("documents", within),
        *((kind, change) for kind in ("passages", "documents") for change in (far_end, backwards, first_below)),
    ],
)
def test_boundaries_outside_of_the_tokens_are_refused(folder, kind, change):
    changed(folder, kind, change)
    with pytest.raises(ValueError, match=r"expected (ascending offsets|documents that begin at a passage)"):
        TokenStore(folder).verify()


def test_ids_outside_of_the_vocabulary_are_refused(folder):
    changed(folder, "ids", lambda ids: ids.__setitem__(3, 60_000))
    with pytest.raises(ValueError, match=r"expected ids below the vocabulary size of"):
        TokenStore(folder).verify()


@pytest.mark.parametrize("part", [[0, 10**30], [0.5, 1], [-1, 1], "01", [[], 1], None])
def test_an_index_of_absurd_parts_is_one_sentence(folder, part):
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "part": part}))
    with pytest.raises(ValueError, match="is damaged or something else"):
        TokenStore(folder)


# The spans of positions equal those found by a search for every position.


STARTS = np.array([0, 5, 6, 20, 300])


@given(st.lists(st.lists(st.integers(0, 299), min_size=4, max_size=4), max_size=6))
def test_every_position_has_its_span(rows):
    positions = np.array(rows, "int64").reshape(-1, 4)
    found = np.broadcast_to(span_indexes(STARTS, positions), positions.shape)
    assert (found == np.searchsorted(STARTS, positions, side="right") - 1).all()
    assert (span_indexes(STARTS, positions.ravel()) == found.ravel()).all()


def test_rows_within_one_span_have_one_number():
    assert span_indexes(STARTS, np.array([[7, 19, 8], [5, 5, 5]])).tolist() == [[2], [1]]


# The lengths of the spans of every piece; none of a piece that only continues the last span of the one before.
PIECES = st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(1, 9), max_size=6)), min_size=1, max_size=8)


def joined(pieces):
    """The offsets, and the same in memory; each piece begins with some tokens of the last span of the piece before."""
    arrays = [rest + np.cumsum([0, *lengths]) for rest, lengths in pieces]
    begins = np.cumsum([0, *(int(array[-1]) for array in arrays)])
    counts = [len(lengths) for _, lengths in pieces]
    parts = [array[:-1] + begin for array, begin in zip(arrays, begins, strict=False)]
    return JoinedOffsets(arrays.__getitem__, counts, begins), np.concatenate([*parts, begins[-1:]])


def check(offsets, expected):
    assert len(offsets) == len(expected)
    np.testing.assert_array_equal(offsets, expected)
    np.testing.assert_array_equal(offsets[1:3], expected[1:3])
    np.testing.assert_array_equal(offsets[[[0, -1]]], expected[[[0, -1]]])
    assert offsets[-1] == expected[-1]
    values = np.arange(-2, expected[-1] + 3)
    for side in ("left", "right"):
        np.testing.assert_array_equal(np.searchsorted(offsets, values, side=side), np.searchsorted(expected, values, side=side))


@given(PIECES.filter(lambda pieces: all(rest or lengths for rest, lengths in pieces)))
def test_joined_offsets_are_those_of_the_concatenated_pieces(pieces):
    check(*joined(pieces))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.data())
def test_selected_offsets_are_those_of_the_parts_that_stay(lengths, data):
    whole = np.cumsum([0, *lengths])
    stays = np.array(data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], stays, [0]]))).reshape(-1, 2)
    cut = np.array([data.draw(st.integers(0, lengths[first] - 1)) for first, _ in edges], "int64")  # a part may begin within a span
    origins = whole[edges[:, 0]] + cut
    begins = np.cumsum([0, *(whole[edges[:, 1]] - origins)])
    kept = np.array(lengths)
    kept[edges[:, 0]] -= cut
    offsets = SelectedOffsets(whole, *edges.T, origins, begins)
    check(offsets, np.cumsum([0, *kept[stays]]))


def test_an_index_outside_is_an_error():
    offsets, expected = joined([(0, [2, 3]), (1, [4])])
    for index in (4, -5, [0, 9]):
        with pytest.raises(IndexError, match="expected indices below 4"):
            offsets[index]
    assert list(offsets) == offsets.tolist() == expected.tolist()
