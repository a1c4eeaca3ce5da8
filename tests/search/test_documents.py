"""Documents on disk: their order by id, and the memory that sorting takes."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.documents import FILES, DocumentStore, write_documents
from keras_bert_rebuild.search.index_files import IndexFiles, files_record


def written(folder, documents):
    count = write_documents(folder, documents)
    return DocumentStore(IndexFiles(folder, files_record(folder, FILES)), count)


IDS = st.one_of(
    st.text("ab\0\x01", max_size=20),
    st.text(max_size=9),
    st.text("é\U0001f600\uffff\ud800z", max_size=9),
    st.integers(0, 10**20).map(str),
)


@settings(max_examples=150, deadline=None)
@given(names=st.lists(IDS, min_size=1, max_size=40, unique=True))
def test_ids_are_sorted_as_their_characters(tmp_path_factory, names):
    store = written(tmp_path_factory.mktemp("documents"), [Document(name, "", "x") for name in names])
    expected = sorted(range(len(names)), key=lambda row: names[row].encode("utf-8", "surrogatepass"))
    assert store.ranks.tolist() == np.argsort(expected).tolist()
    assert [store.row(name) for name in names] == list(range(len(names)))
    assert [store.id(row) for row in range(len(names))] == names


@settings(max_examples=40, deadline=None)
@given(names=st.lists(IDS, min_size=1, max_size=20, unique=True), data=st.data())
def test_an_id_that_occurs_twice_is_found(tmp_path_factory, names, data):
    first = data.draw(st.integers(0, len(names) - 1))
    second = data.draw(st.integers(first + 1, len(names)))
    names.insert(second, names[first])
    with pytest.raises(ValueError, match=f"documents {first + 1} and {second + 1} of the corpus have "):
        write_documents(tmp_path_factory.mktemp("twice"), [Document(name, "", "x") for name in names])


def test_one_long_id_does_not_take_its_length_for_every_document(tmp_path):
    names = [*(f"d{number}" for number in range(20_000)), "\U0001f600" * 512]
    tracemalloc.start()
    store = written(tmp_path, [Document(name, "", "x") for name in names])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.row(names[-1]) == 20_000
    assert peak < 200 * len(names), f"{peak / len(names):.0f} bytes for every document"
