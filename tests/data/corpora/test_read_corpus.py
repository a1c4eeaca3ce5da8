"""Reading a corpus, block by block or whole, holding out documents of it, and the corpus of docstrings."""

import gzip
import hashlib
import lzma
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
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader
from keras_bert_rebuild.data.text_files import corpus_files

TEXT = "The ferry leaves at nine.\nIt is seldom late.\n\nNo one waits — except the gulls.\n"
DOCUMENTS = [["The ferry leaves at nine.", "It is seldom late."], ["No one waits — except the gulls."]]


def documents_of(path, **options):
    reader = CorpusReader(path, **options)
    return [document for block in reader.blocks() for document in block.documents], reader


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_plain_and_compressed_files_give_the_same_documents(tmp_path, suffix, pack, line_end):
    path = tmp_path / f"corpus.txt{suffix}"
    path.write_bytes(pack(("\ufeff" + TEXT.replace("\n", line_end)).encode()))
    documents, reader = documents_of(path)
    assert documents == read_documents(path) == DOCUMENTS
    assert reader.notes() == []


def test_a_folder_is_read_by_name_with_sub_folders_and_nothing_but_text(tmp_path):
    (tmp_path / "m").mkdir()
    for name in ("b.txt", "m/a.md", "z.TXT"):
        (tmp_path / name).write_text(name)
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"a.txt.xz"))
    (tmp_path / "n.md.gz").write_bytes(gzip.compress(b"n.md.gz"))
    (tmp_path / "picture.gz").write_bytes(b"")
    (tmp_path / "table.csv").write_text("1")
    (tmp_path / "folder.txt").mkdir()
    names = ["a.txt.xz", "b.txt", "m/a.md", "n.md.gz", "z.TXT"]
    assert [name for name, _ in corpus_files(tmp_path)] == names
    assert documents_of(tmp_path)[0] == [[name] for name in names]


def test_a_file_can_be_one_document_with_blank_lines(tmp_path):
    (tmp_path / "1.txt").write_text("a\n\n\nb\n")
    (tmp_path / "2.txt").write_text("\nc")
    assert documents_of(tmp_path, document_per_file=True)[0] == [["a", "b"], ["c"]]


def test_lines_that_are_not_utf8_are_left_out_and_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\nbad \xff\n\nfine\n\xc3\n")
    (tmp_path / "b.txt").write_bytes(b"\xe4\nlast")
    documents, reader = documents_of(tmp_path)
    assert documents == [["good"], ["fine"], ["last"]]
    assert reader.bad_lines == 3
    assert reader.notes() == [f"{place}: not UTF-8, skipped" for place in ("a.txt, line 2", "a.txt, line 5", "b.txt, line 1")]


def test_only_the_first_bad_lines_are_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\n" + b"\xff\n" * 25)
    _, reader = documents_of(tmp_path)
    assert reader.bad_lines == 25
    assert len(reader.notes()) == 21
    assert reader.notes()[-1] == "and 5 more lines that are not UTF-8"


def test_a_strict_reader_reports_where_the_text_is_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffé\nok ".encode() + b"\xff")
    with pytest.raises(ValueError, match=r"a\.txt is not, at byte 9 \(line 2\)\.$"):
        read_documents(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.txt.gz", gzip.compress(TEXT.encode())[:-20]),
        ("sum.txt.gz", gzip.compress(TEXT.encode())[:-8] + bytes(8)),
        ("inside.txt.gz", gzip.compress(TEXT.encode())[:12] + b"\xff" * 40),
        ("other.txt.gz", TEXT.encode()),
        ("cut.txt.xz", lzma.compress(TEXT.encode())[:-20]),
        ("other.txt.xz", TEXT.encode()),
        ("empty.txt.xz", b""),
    ],
    # gzip writes the time: digests of the content would differ between two workers.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_file_is_one_sentence_with_its_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^the corpus must have intact files; \S+{name} is damaged: [^\n]*\.$"):
        documents_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "does not exist"), (b"\n \n", "has none"), (b"\xff", "and 1 that are not")]
)
def test_a_corpus_without_text_is_one_sentence(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        documents_of(tmp_path / "a.txt")


def test_a_long_line_is_cut_at_a_space_and_counted(tmp_path):
    (tmp_path / "a.txt").write_text("one two three four five six\nseven\n")
    documents, reader = documents_of(tmp_path, line_bytes=12)
    assert documents == [["one two", "three four", "five six", "seven"]]
    assert reader.cut_lines == 1
    assert "1 lines longer than 12 bytes" in reader.notes()[0]


@given(st.text("aé博🙂 ", min_size=1, max_size=60), st.integers(8, 20))
def test_no_part_of_a_long_line_is_lost(tmp_path_factory, text, line_bytes):
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_text(f"start\n{text}\nend", encoding="utf-8")
    documents, reader = documents_of(path, line_bytes=line_bytes)
    assert "".join(p.replace(" ", "") for d in documents for p in d) == "start" + text.replace(" ", "") + "end"
    assert reader.bad_lines == 0
    assert reader.cut_lines == (len(text.encode()) + 1 > line_bytes)
    assert len(documents) == (1 if text.strip() else 2) or reader.cut_lines


PASSAGES = st.lists(st.lists(st.text("abé", min_size=1, max_size=12), min_size=1, max_size=8), min_size=1, max_size=12)


@given(PASSAGES, st.integers(10, 120))
def test_blocks_hold_all_passages_and_are_cut_where_documents_end(tmp_path_factory, documents, block_bytes):
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    text = "\n\n".join("\n".join(document) for document in documents)
    path.write_text(text, encoding="utf-8")
    reader = CorpusReader(path, block_bytes=block_bytes)
    blocks = list(reader.blocks())
    assert [block.number for block in blocks] == list(range(len(blocks)))
    assert [p for block in blocks for d in block.documents for p in d] == [p for d in documents for p in d]
    for block in blocks:
        assert block.text_bytes <= block_bytes or block.documents == [[block.documents[0][0]]]
    whole = []
    for block in blocks:
        if block.continues:
            whole[-1] += block.documents[0]
        whole += block.documents[block.continues :]
    assert whole == documents
    sizes = [sum(len(p.encode()) + 1 for p in document) for document in documents]
    if text:
        sizes[-1] -= 1  # the last line has no end
    long = [size > block_bytes and len(document) > 1 for size, document in zip(sizes, documents, strict=True)]
    assert any(block.continues for block in blocks) == any(long)
    assert blocks[-1].file_bytes == path.stat().st_size == reader.file_bytes


def test_reading_again_gives_and_counts_the_same(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\nb\nc\n\xff\n\nlonger line\n")
    reader = CorpusReader(tmp_path, block_bytes=4, line_bytes=8)
    first, notes = list(reader.blocks()), reader.notes()
    assert list(reader.blocks()) == first
    assert reader.notes() == notes
    assert len(notes) == 2


# Reading documents, holding out some, the docstring corpus, and the digest of a corpus in memory.


ANY_DOCUMENTS = st.lists(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4), min_size=2, max_size=60)


@given(ANY_DOCUMENTS, st.integers(0, 3))
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


def test_one_document_in_twenty_is_held_out_and_always_the_same():
    documents = [[f"passage {i}"] for i in range(2000)]
    train, test = hold_out(documents)
    assert 60 < len(test) < 140
    assert hold_out(documents) == (train, test)
    assert hold_out(documents, seed=1) != (train, test)


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
