"""`keras-bert vocab` and `prepare`: a vocabulary and tokens from files, what is printed, and exit codes."""

import functools
import gzip

import pytest
from helpers.command_line import said_by_verb
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.data.corpora import read_corpus
from keras_bert_rebuild.data.corpora.read_corpus import WordCounts
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.vocabulary import SPECIAL_TOKENS, train_vocabulary

TEXT = "The miller grinds the wheat.\nThe baker bakes, and Émile eats!\n\nMillers and bakers meet at the mill.\n" * 3


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def learnt(*arguments):
    assert main(["vocab", *map(str, arguments)]) == 0
    return arguments[-1].read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("cased", [False, True])
def test_the_vocabulary_is_that_of_the_words_of_the_corpus(tmp_path, corpus, cased, capsys):
    tokens = learnt(corpus, "--vocab-size", 180, *(["--cased"] if cased else []), "--output", tmp_path / "v.txt")
    assert tokens == train_vocabulary(split_words(TEXT, cased), 180)
    assert tokens[: len(SPECIAL_TOKENS)] == list(SPECIAL_TOKENS)
    assert ("É" in tokens) == cased
    assert f"{len(tokens)} tokens" in capsys.readouterr().out


def test_repeated_runs_and_compressed_files_give_the_same_vocabulary(tmp_path, corpus):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    for name in ("1", "2"):
        learnt(corpus, "--vocab-size", 190, "--output", tmp_path / name)
    learnt(folder, "--vocab-size", 190, "--output", tmp_path / "3")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes() == (tmp_path / "3").read_bytes()


@given(st.lists(st.text("aÀé, .博\u00a0\x0b\u0301\u03a3\u200b\t", max_size=12), max_size=6), st.booleans())
def test_counting_between_spaces_counts_words(passages, cased):
    words = WordCounts(cased)
    for passage in passages:
        words.add(passage)
    expected = [word for passage in passages for word in split_words(passage, cased)]
    assert sorted(words.finish().elements()) == sorted(expected)


def test_counting_in_little_memory_counts_the_same(monkeypatch):
    monkeypatch.setattr(read_corpus, "_CHUNKS_HELD", 2)
    words = WordCounts()
    for _ in range(3):
        words.add("one two, three two")
    assert words.finish() == {"one": 3, "two": 6, ",": 3, "three": 3}


def test_what_is_left_out_is_reported(tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good words\nbad \xff\nand " + b"x" * 201 + b"\n")
    assert "words" not in learnt(path, "--vocab-size", 150, "--output", tmp_path / "v.txt")
    said = capsys.readouterr()
    assert "a.txt, line 2: not UTF-8, skipped" in said.err
    assert "1 words of over 200 characters left out" in said.err
    assert "150 were requested" in said.out


said_by = functools.partial(said_by_verb, "prepare")

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "barks", "Dog"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a corpus and a vocabulary, the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("\n".join(TOKENS))
    (tmp_path / "corpus.txt").write_bytes(b"a Dog barks\nbarks\n\n\xff\na cat\n")
    return tmp_path


def test_counts_and_lines_left_out_are_reported(here, capsys):
    said = said_by(capsys, "corpus.txt", "--tokenizer", "v.txt", "--output", "out")
    assert "tokens   6, cased; 16.67% of them [UNK]" in said.out
    assert "2 documents, 3 passages" in said.out
    assert "corpus.txt, line 4: not UTF-8, skipped" in said.err
    assert TokenStore(here / "out").ids_at(range(6)).tolist() == [5, 8, 7, 7, 5, 1]
    assert "0 of 1 shard; the rest existed already" in said_by(capsys, "corpus.txt", "--tokenizer", "v.txt", "--output", "out").out


def test_options_reach_the_store(here, capsys):
    arguments = ("corpus.txt", "--tokenizer", "v.txt", "--uncased", "--document-per-file", "--processes", 1)
    said_by(capsys, *arguments, "--output", "out")
    store = TokenStore(here / "out")
    assert store.ids_at(range(6)).tolist() == [5, 6, 7, 7, 5, 1]
    assert store.document_starts.tolist() == [0, 6]
    assert not store.cased


def test_what_was_removed_is_reported_with_an_example(here, capsys):
    (here / "twice.txt").write_text("a dog barks a dog barks a dog barks\n\na dog barks a dog barks a dog barks\n\na dog\n")
    arguments = ("twice.txt", "--tokenizer", "v.txt", "--output", "out", "--processes", 1)
    said = said_by(capsys, *arguments, "--deduplicate", "near", "--similarity", 0.9).out
    assert "removed  1 document of 9 tokens, the same as an earlier one" in said
    assert "         such as    a dog barks a dog barks a dog barks" in said
    assert "removed  0 passages of 0 tokens, nearly the same as an earlier one" in said
    assert TokenStore(here / "out").num_tokens == 11
    assert said_by(capsys, *arguments, "--deduplicate", "near", "--similarity", 0.9).out.startswith(said.partition("wrote")[0])
    said_by(capsys, *arguments[:-4], "--output", "other", "--deduplicate", "exact", "--apart-from", "out")


WRONG = {
    "vocab --output v2.txt": [
        ("nothing.txt", "nothing.txt does not exist"),
        ("empty.txt", "at least one line of text"),
        ("wordless.txt", "at least one word"),
        ("damaged.txt.xz", "is damaged"),
        ("corpus.txt --output .", "is a folder"),
        ("corpus.txt --output nowhere/v.txt", "No such folder to write to: nowhere"),
        ("corpus.txt --output corpus.txt", "must not be the input"),
        (".", "outside ., which is read"),
        ("corpus.txt --vocab-size 104", "--vocab-size must be above"),
        ("corpus.txt --vocab-size 110", "size must be at least"),
    ],
    "prepare --output out": [
        ("nothing.txt --tokenizer v.txt", "nothing.txt does not exist"),
        ("empty.txt --tokenizer v.txt", "at least one line of text"),
        ("corpus.txt --tokenizer nothing.txt", "does not exist"),
        ("corpus.txt --tokenizer empty.txt", "a vocabulary with"),
        ("corpus.txt --tokenizer v.txt --processes 0", "expected a whole number of at least 1; got '0'"),
        ("corpus.txt --tokenizer v.txt --address auto", "--address is for --engine ray"),
        ("corpus.txt --tokenizer v.txt --similarity 0.9", "--similarity is for --deduplicate near"),
        ("corpus.txt --tokenizer v.txt --deduplicate near --similarity 0.2", "similarity must be in [0.5, 1)"),
        ("corpus.txt --tokenizer v.txt --apart-from nothing", "--apart-from needs deduplicate"),
        ("corpus.txt --tokenizer v.txt --output empty.txt", "is a file"),
        ("corpus.txt --tokenizer v.txt --output empty.txt/out", "empty.txt"),
    ],
}


@pytest.mark.parametrize(("command", "arguments", "message"), [(command, *row) for command, rows in WRONG.items() for row in rows])
def test_wrong_input_exits_with_2_and_changes_no_file(here, capsys, command, arguments, message):
    (here / "empty.txt").write_text("\n\n")
    (here / "wordless.txt").write_text("\u200b\n", encoding="utf-8")
    (here / "damaged.txt.xz").write_bytes(b"no archive")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    verb, *output = command.split()
    assert message in said_by_verb(verb, capsys, *output, *arguments.split(), code=2).err
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before
