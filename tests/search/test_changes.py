"""Documents that are added, updated and deleted: after every step a search is exact, and only new texts are embedded."""

import datetime
import zlib

import numpy as np
import pytest
from helpers.small_search import WholeNumbers, Words, WordVectors, brute_force, random_of, words
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.index import Index

QUERIES = ["w1 w2 w3", "w7 w1"]
# Vectors of whole numbers are exact in these.
STORAGES = [
    *((WholeNumbers, *each) for each in (("float32", None), ("float16", None), ("int8", "float32"), ("binary", "float16"))),
    *((Words, dtype, None) for dtype in ("float32", "float16")),
    *((WordVectors, dtype, None) for dtype in ("float32", "float16")),
]
NAMES = ["a", "b", "it's", '"', "ä_b", "a';--", "\\", "%", "d", "e"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "update", "update", "delete", "open"]), st.sets(st.integers(0, 9), max_size=6), st.integers(0, 3)
    ),
    min_size=1,
    max_size=6,
)


def versions(number, names):
    """Documents that depend on their ids and a number alone; some have equal texts, and of some only the metadata change."""
    for name in names:
        text = words(random_of(f"{zlib.crc32(str(name).encode()) % 7} {number // 2}"), 3)
        yield Document(name, "title" if number % 2 and name == names[0] else "", text, {"year": number} if number else {})


@pytest.mark.slow(torch=True)
@settings(max_examples=12)
@given(storage=st.sampled_from(STORAGES), whole=st.booleans(), block=st.sampled_from([2, 3, 100]), steps=STEPS)
def test_a_search_is_exact_after_every_step(tmp_path_factory, storage, whole, block, steps):
    kind, dtype, rescoring = storage
    folder, model, state = tmp_path_factory.mktemp("steps") / "index", kind(), {}
    names = [*range(-2, 8)] if whole else NAMES
    index = Index.open(folder, model, dtype=dtype, rescoring=rescoring)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(index.settings.storage), "BLOCK", block)
        for step, chosen, number in steps:
            documents = [*versions(number, [names[i] for i in sorted(chosen)])]
            present = [document for document in documents if document.id in state]
            differ = [document for document in present if state[document.id] != document]
            model.seen.clear()
            if step == "delete":
                assert index.delete([document.id for document in documents] + ["no such"]) == len(present)
                state = {name: document for name, document in state.items() if name not in {each.id for each in documents}}
            elif step == "add" and differ:
                with pytest.raises(
                    ValueError, match=r"expected documents with new ids; \d in the index differ, such as .*: update"
                ):
                    index.add(documents)
            elif step in ("add", "update"):
                changes = getattr(index, step)(iter(documents))
                assert changes == (len(documents) - len(present), len(differ), len(present) - len(differ))
                new = [d.full_text for d in documents if d.id not in state or state[d.id].full_text != d.full_text]
                assert {*model.seen} == {*new}
                assert len(model.seen) == len({*new}) or block < 100  # equal texts of a block are embedded once
                state |= {document.id: document for document in documents}
            index = Index.open(folder, model) if step == "open" and state else index
            assert len(index) == len(state)
            if not (folder / "documents.lance").exists():
                continue
            assert {document.id: document for document in index} == state
            assert index.documents(names) == state
            some = [document for document in state.values() if document.metadata.get("year", 0) > 1]
            has_year = any(name == "year" for name in index.settings.metadata_types(index._shown().schema))
            for corpus, filter in ((state.values(), None), *([(some, "year > 1")] if has_year else [])):
                for query, hits in zip(QUERIES, index.search(QUERIES, 4, rescore=10, filter=filter), strict=True):
                    assert [tuple(hit) for hit in hits] == brute_force(kind(), corpus, query, 4)
                    found = index.search([query], 20, by="bm25", filter=filter)[0]
                    shares = [document.id for document in corpus if {*query.split()} & {*document.full_text.split()}]
                    assert sorted(hit.id for hit in found) == sorted(shares)


VALUES = {
    "word": st.text(st.characters(codec="utf-8"), max_size=5),
    "whole": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False),
    "truth": st.booleans(),
    "day": st.dates(),
    "moment": st.datetimes(),
    "lists": st.lists(st.text("ab'", max_size=3), min_size=1, max_size=3),
    "numbers": st.lists(st.integers(-5, 5), min_size=1, max_size=3),
}


@settings(max_examples=10)
@given(st.lists(st.fixed_dictionaries({}, optional=VALUES), min_size=1, max_size=5))
def test_metadata_of_every_type_come_back_and_filter(tmp_path_factory, metadata):
    index = Index.open(tmp_path_factory.mktemp("metadata") / "index")
    for number, each in enumerate(metadata):  # one by one: names that come later are new columns
        index.add([{"id": number, "text": "w1", **each}])
    assert [index.document(number).metadata for number in range(len(metadata))] == metadata
    for name, value in metadata[0].items():
        if name in ("whole", "truth", "word"):
            quoted = "'" + value.replace("'", "''") + "'" if name == "word" else str(value)
            found = index.search(["w1"], 9, by="bm25", filter=f"{name} = {quoted}")[0]
            expected = [number for number, each in enumerate(metadata) if name in each and each[name] == value]
            assert sorted(hit.id for hit in found) == expected


def test_values_of_numpy_are_plain_ones(tmp_path):
    index = Index.open(tmp_path / "index")
    values = {"half": np.float32(1.5), "many": np.arange(3), "none": None, "empty": [], "true": np.bool_(True)}
    index.add([{"id": np.int64(3), "text": "x", **values}])
    assert index.document(np.int64(3)).metadata == {"half": 1.5, "many": [0, 1, 2], "true": True}
    assert index.delete([np.int64(3), 2**70, "\ud800", "3", None]) == 1


@pytest.fixture(scope="module")
def years(tmp_path_factory):
    index = Index.open(tmp_path_factory.mktemp("years") / "index", WholeNumbers())
    index.add([{"id": i, "text": f"w{i}", "year": 2000 + i, "day": datetime.date(2000, 1, 1 + i)} for i in range(9)])
    return index


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([{"id": 1.5, "text": "x"}], r"expected an id, a word without white space; documents.1. has 1\.5"),
        ([{"id": 2**63, "text": "x"}], "expected an id, .* has 9223372036854775808"),
        ([{"id": 1, "text": None}], "expected a string as text; got None in documents.1."),
        ([{"id": 1, "text": "\ud800"}], r"expected text in UTF-8 as text; document '1' has '\\ud800'"),
        ([{"id": "\ud800", "text": "x"}], r"expected text in UTF-8 as id; document .* has '\\ud800'"),
        ([{"id": "a", "text": "x"}], "expected id of type int64, as in earlier documents; document 'a' has 'a', string"),
        (
            [{"id": 99, "text": "x", "year": "y"}],
            "expected year of type int64, as in earlier documents; document '99' has 'y', string",
        ),
        (
            [{"id": 99, "text": "x", "year": 1.5}],
            r"expected year of type int64, as in earlier documents; document '99' has 1\.5, double",
        ),
        ([{"id": 99, "text": "x", "b": {"a": 1}}], "expected metadata of text .* document '99' has {'a': 1} as b"),
        ([{"id": 99, "text": "x", "b": [1, "a"]}], "expected metadata of text .* has .1, 'a'. as b"),
        ([{"id": 99, "text": "x", "b": 2**63}], "numbers of 64 bits"),
        ([{"id": 99, "text": "x", "vector": 1}], "expected other names of metadata than .*vector.*; document '99' has 'vector'"),
        ([{"id": 99, "text": "x", "a.b": 1}], "without .* or a first _; document '99' has 'a.b'"),
        ([{"id": 99, "text": "x", "_b": 1}], "document '99' has '_b'"),
        ([{"id": 99, "text": "x"}, {"id": 98, "text": "x"}, {"id": 99, "text": "y"}], "expected every id once; '99' occurs twice"),
        ([{"id": 3, "text": "new"}], "expected documents with new ids; 1 in the index differ, such as '3': update them"),
    ],
)
def test_documents_that_an_index_cannot_hold_are_refused_and_nothing_changes(years, documents, message):
    before = [*years]
    with pytest.raises(ValueError, match=message) as error:
        years.add([{"id": 50, "text": "fine"}, *documents])
    assert "\n" not in str(error.value)
    assert [*Index.open(years.place)] == before


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
        Index.open(tmp_path / "index", kind()).add([{"id": 1, "text": "x"}])
    assert not (tmp_path / "index" / "documents.lance").exists()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("month > 1", r"No field named month\.$"),
        ("yaer(day) > 1", "Invalid function 'yaer'"),
        ("year > > 1", "Expected: an expression, found: >"),
        ("year", "boolean"),
        ("year = 'x'", "literal"),
        ("", "found: EOF"),
    ],
)
@pytest.mark.parametrize("by", ["vectors", "bm25"])
def test_a_wrong_filter_is_one_sentence(years, condition, words, by):
    with pytest.raises(ValueError, match=f"expected a condition on metadata, such as year >= 2020 .*{words}") as error:
        years.search(["w1"], by=by, filter=condition)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("condition", ["year between 2003 and 2005", "day >= date '2000-01-04' and year < 2006", "id in (3, 4, 5)"])
def test_filters_are_sql_over_metadata(years, condition):
    assert {hit.id for hit in years.search(["w1"], filter=condition)[0]} == {3, 4, 5}


def test_nothing_is_made_for_no_documents_and_a_file_is_no_index(tmp_path):
    index = Index.open(tmp_path / "index", WholeNumbers())
    assert (index.add([]), len(index), index.delete(["a"])) == ((0, 0, 0), 0, 0)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match=r"expected an index; nothing is at .*index: add documents first"):
        index.search(["q"])
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"expected a folder to write to; .*file is a file"):
        Index.open(tmp_path / "file", WholeNumbers()).add([{"id": 1, "text": "x"}])
    with pytest.raises(ValueError, match=r"expected the snapshot 'a'; there is no index at"):
        Index.open(tmp_path / "none", snapshot="a")


def test_snapshots_have_distinct_plain_names(years):
    years.snapshot("first.1")
    with pytest.raises(ValueError, match=r"expected a new name of a snapshot; .* has 'first\.1' already"):
        years.snapshot("first.1")
    for name in ("", "a b", "../x", "é"):
        with pytest.raises(ValueError, match=r"expected a name of letters, digits and \. - _ for a snapshot"):
            years.snapshot(name)
    with pytest.raises(ValueError, match=r"expected a snapshot of .*, first\.1; got 'second'"):
        Index.open(years.place, snapshot="second")


def test_an_index_is_replaced_at_once_and_by_other_settings(tmp_path):
    index = Index.open(tmp_path / "index", WholeNumbers())
    index.add([{"id": 1, "text": "w1"}, {"id": 2, "text": "w2"}])
    new = Index.open(tmp_path / "index", Words(), dtype="float16", overwrite=True)
    with pytest.raises(ValueError, match="occurs twice"):
        new.add([{"id": "a", "text": "w2"}] * 2)
    assert len(Index.open(tmp_path / "index", WholeNumbers())) == 2
    new.add([{"id": "a", "text": "w2"}])
    new.add([{"id": "b", "text": "w2"}])
    assert [hit.id for hit in Index.open(tmp_path / "index", Words()).search(["w2"])[0]] == ["b", "a"]
    assert [hit.id for hit in new.search(["w2"], by="bm25")[0]] == ["b", "a"]
    assert len(index) == 2  # it is a reader of the old state


def test_files_of_the_user_in_the_folder_stay(tmp_path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"must be an empty folder or hold a search index; .* holds notes.txt"):
        Index.open(tmp_path / "index").add([{"id": 0, "text": "x"}])
    (tmp_path / "index" / "notes.txt").rename(tmp_path / "notes.txt")
    Index.open(tmp_path / "index").add([{"id": 0, "text": "x"}])
    (tmp_path / "notes.txt").rename(tmp_path / "index" / "notes.txt")
    Index.open(tmp_path / "index").add([{"id": 1, "text": "x"}])
    assert (tmp_path / "index" / "notes.txt").read_text() == "mine"
