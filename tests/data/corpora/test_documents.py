"""Reading documents, holding out some, the docstring corpus, and the digest of a corpus in memory."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_corpus import small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.documents import (
    TokenCorpus,
    corpus_digest,
    docstring_document,
    docstring_files,
    hold_out,
    prose,
    read_documents,
)
from keras_bert_rebuild.data.corpora.held_out import SomeDocuments

DOCUMENTS = st.lists(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4), min_size=2, max_size=60)


def test_a_line_is_a_passage_and_a_blank_line_ends_a_document(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffOne.\r\n Two. \n\n\n\nThree.".encode())
    assert read_documents(path) == [["One.", "Two."], ["Three."]]


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "sub" / "c.txt").write_text("c")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    assert read_documents(tmp_path) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "does not exist"), (b" \n\n", "at least one line"), (b"ok \xff\xfe", "at byte 3")]
)
def test_a_corpus_that_cannot_be_read_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_documents(path)


@given(DOCUMENTS)
def test_written_documents_are_read_back_unchanged(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents))
    assert read_documents(path) == documents


@given(DOCUMENTS, st.integers(0, 3))
def test_held_out_documents_have_something_new(documents, seed):
    try:
        train, test = hold_out(documents, every=4, seed=seed)
    except ValueError as error:
        assert ("2 held-out documents with passages that are not in training" in str(error)) == (len(documents) >= 4)  # noqa: PT017
        return
    assert min(len(train), len(test)) >= 2
    assert sorted(train + test) == sorted(documents)
    seen = {passage for document in train for passage in document}
    assert sum(any(passage not in seen for passage in document) for document in test) >= 2


def test_documents_with_repeated_passages_are_not_held_out():
    with pytest.raises(ValueError, match="2 held-out documents with passages that are not in training"):
        hold_out([["the same"], ["the same", "again"], ["again"]] * 20)


def test_one_document_in_twenty_is_held_out_and_always_the_same():
    documents = [[f"passage {i}"] for i in range(2000)]
    train, test = hold_out(documents)
    assert 60 < len(test) < 140
    assert hold_out(documents) == (train, test)
    assert hold_out(documents, seed=1) != (train, test)


def test_three_documents_cannot_be_split():
    with pytest.raises(ValueError, match=r"at least 4 documents, .*; got 3"):
        hold_out([["one"], ["two"], ["three"]])
    assert [len(part) for part in hold_out([["one"], ["two"], ["three"], ["four"]])] == [2, 2]


def test_prose_leaves_out_code_and_lists_of_arguments():
    docstring = """Return the larger of two numbers, or the first of them if both are equal.

    Args:
        x_1: float64[n, m]; y_2: int32[k]; z_3: |S1 (see <3>)

    >>> larger(1, 2) and some more words to make it long enough
    2

    Too short.
    """
    assert prose(docstring) == ["Return the larger of two numbers, or the first of them if both are equal."]


def test_each_docstring_of_a_file_is_gathered_once(tmp_path):
    sentence = "This sentence has enough words in it to count as prose."
    path = tmp_path / "module.py"
    path.write_text(
        f'"""{sentence}"""\n\nclass A:\n    """{sentence}"""\n    def f(self):\n        """{sentence[:-1]}, twice."""\n'
    )
    assert docstring_document(path) == [sentence, sentence[:-1] + ", twice."]
    path.write_text("def broken(:\n")
    assert docstring_document(path) == []


def test_the_standard_library_and_installed_packages_have_files_in_a_fixed_order():
    files = docstring_files(("numpy", "not_installed_anywhere"))
    assert files == docstring_files(("numpy",))
    assert any(file.name == "json" or "json" in file.parts for file in files)
    assert not any("tests" in file.parts for file in files)
    assert len(files) > 500


def test_the_digest_covers_everything_in_a_corpus():
    ids, passages, documents = np.array([2, 0, 1], "int32"), np.array([0, 1, 2, 3]), np.array([0, 2, 3])
    corpus = TokenCorpus(ids, passages, documents, ["a", "b", "c"])
    content = passages.astype("<i8").tobytes() + documents.astype("<i8").tobytes() + ids.astype("<i4").tobytes() + b"a\nb\nc"
    changes = [
        {},
        {"ids": ids[::-1]},
        {"passage_starts": documents},
        {"document_starts": np.array([0, 1, 3])},
        {"vocabulary": ["a", "b", "d"]},
    ]
    assert len({corpus_digest(replace(corpus, **change)) for change in changes}) == 5
    assert corpus_digest(corpus) == hashlib.sha256(content).hexdigest()
    assert corpus_digest(replace(corpus, ids=ids.astype("uint16"))) == corpus_digest(corpus)


def test_the_digest_does_not_depend_on_block_size_or_kind_of_corpus(monkeypatch):
    corpus = small_corpus()
    digests = set()
    for size in (1, 100, 10**6):
        monkeypatch.setattr("keras_bert_rebuild.data.corpora.documents._BLOCK", size)
        digests |= {corpus_digest(corpus), corpus_digest(SomeDocuments(corpus, np.arange(20)))}
    assert len(digests) == 1
