"""`keras-bert prepare`: what it prints and its exit codes."""

import functools

import pytest
from helpers.command_line import said_by_verb

from keras_bert_rebuild.data.corpora.token_store import TokenStore

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
    for i in range(2):
        said_by(capsys, *arguments, "--shard", f"{i}/2", "--output", "out")
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.txt", "--tokenizer", "v.txt"], "nothing.txt does not exist"),
        (["empty.txt", "--tokenizer", "v.txt"], "at least one line of text"),
        (["corpus.txt", "--tokenizer", "nothing.txt"], "does not exist"),
        (["corpus.txt", "--tokenizer", "empty.txt"], "a vocabulary with"),
        (["corpus.txt", "--tokenizer", "v.txt", "--processes", "0"], "expected a whole number of at least 1; got '0'"),
        (["corpus.txt", "--tokenizer", "v.txt", "--shard", "2/2"], "expected I/N"),
        (["corpus.txt", "--tokenizer", "v.txt", "--similarity", "0.9"], "--similarity is for --deduplicate near"),
        (["corpus.txt", "--tokenizer", "v.txt", "--deduplicate", "near", "--similarity", "0.2"], "similarity must be in [0.5, 1)"),
        (["corpus.txt", "--tokenizer", "v.txt", "--deduplicate", "near", "--shard", "0/2"], "a corpus prepared in parts"),
        (["corpus.txt", "--tokenizer", "v.txt", "--apart-from", "nothing"], "apart_from needs deduplicate"),
        (["corpus.txt", "--tokenizer", "v.txt", "--shard", "one"], "expected I/N"),
        (["corpus.txt", "--tokenizer", "v.txt", "--output", "empty.txt"], "is a file"),
        (["corpus.txt", "--tokenizer", "v.txt", "--output", "empty.txt/out"], "empty.txt"),
    ],
)
def test_wrong_input_exits_with_2_and_writes_nothing(here, capsys, arguments, message):
    (here / "empty.txt").write_text("\n\n")
    before = sorted(here.iterdir())
    said = said_by(capsys, arguments[0], "--output", "out", *arguments[1:], code=2)
    assert message in said.err
    assert sorted(here.iterdir()) == before
