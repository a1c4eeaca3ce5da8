"""Tokens that a folder adds to its vocabulary."""

import json

import pytest

from keras_bert_rebuild import WordPieceTokenizer, load_tokenizer
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "c", "d", "+", "<", ">"]
WAYS = {
    "added_tokens.json": lambda tokens: tokens,
    "tokenizer_config.json": lambda tokens: {"added_tokens_decoder": {str(i): {"content": token} for token, i in tokens.items()}},
    "tokenizer.json": lambda tokens: {
        "model": {"type": "WordPiece"},
        "added_tokens": [{"id": i, "content": token} for token, i in tokens.items()],
    },
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return tmp_path


def write(folder, way, tokens):
    (folder / way).write_text(json.dumps(WAYS[way](tokens)), encoding="utf-8")


@pytest.mark.parametrize("way", WAYS)
def test_added_tokens_are_read_from_each_of_the_files_that_may_name_them(folder, way):
    write(folder, way, {"[MASK]": 4, "<d>": 14, "c++": 13})
    tokenizer = load_tokenizer(folder)
    assert tokenizer.added_tokens == ("c++", "<d>")
    assert tokenizer.tokenize("ab C++<D> [MASK]") == ["a", "##b", "c++", "<d>", "[UNK]", "[UNK]", "[UNK]"]


def test_where_case_is_kept_an_added_token_is_found_as_it_is_written():
    tokenizer = WordPieceTokenizer([*VOCABULARY, "<d>"], cased=True, added_tokens=["<d>"])
    assert tokenizer.tokenize("<d> <D>") == ["<d>", "<", "[UNK]", ">"]


@pytest.mark.parametrize("cased", [False, True])
def test_a_tokenizer_comes_back_from_the_files_that_it_is_written_to(tmp_path, cased):
    tokenizer = WordPieceTokenizer(VOCABULARY, cased=cased).add_tokens(["C++", "<D>"])
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    again = load_tokenizer(tmp_path)
    assert (again.vocabulary, again.cased, again.added_tokens) == (tokenizer.vocabulary, cased, ("C++", "<D>"))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [({"<d>": 5}, "'<d>' has 5, beside 'a'"), ({"a": 77}, "'a' has 77, beside 5"), ({"x": 20, "y": 20}, "'y' has 20, beside 'x'")],
)
def test_an_id_or_a_token_that_is_there_twice_is_refused(folder, tokens, message):
    write(folder, "added_tokens.json", tokens)
    with pytest.raises(ValueError, match=f"must give every added token an id of its own; {message}"):
        load_tokenizer(folder)


def test_added_tokens_must_be_in_the_vocabulary():
    with pytest.raises(ValueError, match="added_tokens must be tokens of the vocabulary; got 'e'"):
        WordPieceTokenizer(VOCABULARY, added_tokens=["a", "e"])
