"""Tokens that a folder adds to its vocabulary."""

import json
import pickle

import pytest
from tokenizers import AddedToken

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
def test_added_tokens_are_read_from_every_file_that_may_name_them(folder, way):
    write(folder, way, {"[MASK]": 4, "<d>": 14, "c++": 13})
    tokenizer = load_tokenizer(folder)
    assert tokenizer.added_tokens == ("c++", "<d>")
    assert tokenizer.tokenize("ab C++<D> [MASK]") == ["a", "##b", "c++", "<d>", "[UNK]", "[UNK]", "[UNK]"]


def test_a_cased_tokenizer_finds_an_added_token_as_it_is_written():
    tokenizer = WordPieceTokenizer([*VOCABULARY, "<d>"], cased=True, added_tokens=["<d>"])
    assert tokenizer.tokenize("<d> <D>") == ["<d>", "<", "[UNK]", ">"]


@pytest.mark.parametrize("cased", [False, True])
def test_a_tokenizer_round_trips_through_its_files(tmp_path, cased):
    tokenizer = WordPieceTokenizer(VOCABULARY, cased=cased).add_tokens(["C++", "<D>"])
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    again = load_tokenizer(tmp_path)
    assert (again.vocabulary, again.cased, again.added_tokens) == (tokenizer.vocabulary, cased, ("C++", "<D>"))


def found(text, cased=False, pieces=(), **flags):
    """The tokens of a text with `Foo` added in this way."""
    vocabulary = [*VOCABULARY, "f", "##o", "##d", "##ö", "Foo", *pieces]
    added = [AddedToken("Foo", **flags), *pieces]
    return WordPieceTokenizer(vocabulary, cased=cased, added_tokens=added, fast=False).tokenize(text)


def test_a_single_word_is_not_part_of_other_words():
    assert found("food foo foo-b", single_word=True) == ["f", "##o", "##o", "##d", "Foo", "Foo", "[UNK]", "b"]
    assert found("food") == ["Foo", "d"]


@pytest.mark.parametrize("fast", [False, pytest.param(True, marks=pytest.mark.tensorflow)])
def test_an_added_token_after_the_vocabulary_is_no_piece_of_words(tmp_path, monkeypatch, fast):
    monkeypatch.setattr("keras_bert_rebuild.text.piece_table.MANY", 1)
    vocabulary = [*VOCABULARY, "f", "##o", "##d", "foo"]
    tokenizer = WordPieceTokenizer(vocabulary, cased=False, added_tokens=[AddedToken("foo", single_word=True)], fast=fast)
    assert tokenizer.tokenize("food foo") == ["f", "##o", "##o", "##d", "foo"]
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    assert "foo" not in (tmp_path / "vocab.txt").read_text(encoding="utf-8").split()
    assert load_tokenizer(tmp_path, fast=fast) == tokenizer
    inside = WordPieceTokenizer(["foo", *vocabulary[:-1]], cased=False, added_tokens=[AddedToken("foo", single_word=True)])
    assert inside.tokenize("food foo") == ["foo", "##d", "foo"]


def test_a_special_token_is_found_as_it_is_written():
    assert found("foo Foo", special=True) == ["f", "##o", "##o", "Foo"]
    assert found("foo Foo", normalized=False) == ["f", "##o", "##o", "Foo"]


def test_a_normalized_token_is_found_without_case_and_accents():
    assert found("FOO Fóö f\u200boo") == ["Foo"] * 3
    assert found("Fóo", cased=True) == ["[UNK]"]


def test_characters_that_grow_in_lower_case_are_handled():
    vocabulary = [*VOCABULARY, "<id>"]
    tokenizer = WordPieceTokenizer(vocabulary, cased=False, added_tokens=["<id>"])
    assert tokenizer.tokenize("<İd> <ID> <\u212ad>") == ["<id>", "<id>", "<", "[UNK]", ">"]
    kept = WordPieceTokenizer(vocabulary, cased=False, added_tokens=["<id>"], strip_accents=False)
    assert kept.tokenize("<İd> <ID>") == ["<", "[UNK]", ">", "<id>"]


def test_white_space_belongs_to_tokens_that_strip_it():
    vocabulary = {token: i for i, token in enumerate([*VOCABULARY, "Foo"])}
    rules = [AddedToken("Foo", lstrip=True, rstrip=True)]
    tokenizer = WordPieceTokenizer(vocabulary, cased=False, added_tokens=rules)
    text = "a  foo\tb"
    encoding = tokenizer.encode_batch([text, "\ud800 foo"], return_offsets=True)
    assert [text[start:stop] for start, stop in encoding.offsets[0]][1:-1] == ["a", "foo", "b"]
    assert tokenizer.rules["Foo"] == rules[0]
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


def test_flags_in_the_settings_have_priority_over_tokenizer_json(folder):
    written = {"content": "c++", "id": 13, "normalized": False, "single_word": True}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece"}, "added_tokens": [written]}))
    assert load_tokenizer(folder).rules["c++"] == AddedToken("c++", normalized=False, single_word=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {"13": {"content": "c++", "rstrip": True}}}))
    assert load_tokenizer(folder).rules["c++"] == AddedToken("c++", rstrip=True)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_further_special_tokens_are_added(folder, file):
    (folder / file).write_text(json.dumps({"additional_special_tokens": ["c", {"content": "[E1]"}]}))
    tokenizer = load_tokenizer(folder)
    assert tokenizer.tokenize("a[E1]ac [e1]") == ["a", "[E1]", "a", "c", "[UNK]", "[UNK]", "[UNK]"]
    assert tokenizer.vocabulary["[E1]"] == len(VOCABULARY)


def test_flags_round_trip_through_their_files(tmp_path):
    rules = [AddedToken("Foo", single_word=True, lstrip=True), AddedToken("[E1]", special=True)]
    tokenizer = WordPieceTokenizer([*VOCABULARY, "Foo", "[E1]"], cased=False, added_tokens=rules, mask_takes_space=True)
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    assert load_tokenizer(tmp_path) == tokenizer


def test_added_tokens_are_strings_or_added_tokens():
    with pytest.raises(ValueError, match=r"added_tokens must be strings or tokenizers.AddedToken; got int 5"):
        WordPieceTokenizer(VOCABULARY, added_tokens=[5])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"<d>": 5}, "'<d>' has 5, and so has 'a'"),
        ({"a": 77}, "'a' has 77 and 5"),
        ({"x": 20, "y": 20}, "'y' has 20, and so has 'x'"),
    ],
)
def test_a_duplicate_id_or_token_is_refused(folder, tokens, message):
    write(folder, "added_tokens.json", tokens)
    with pytest.raises(ValueError, match=f"must give every added token an id of its own; {message}"):
        load_tokenizer(folder)


def test_added_tokens_must_be_in_the_vocabulary():
    with pytest.raises(ValueError, match="added_tokens must be tokens of the vocabulary; got 'e'"):
        WordPieceTokenizer(VOCABULARY, added_tokens=["a", "e"])


@pytest.mark.parametrize("token", ["\u200b", "\u0301", "##ING", "##a b", "##é", "##."])
def test_a_token_that_no_text_can_have_is_refused(token):
    tokenizer = WordPieceTokenizer(VOCABULARY, cased=False)
    with pytest.raises(ValueError, match="tokens must be able to occur in normalised texts; got"):
        tokenizer.add_tokens(["<date>", token])


def test_upper_case_tokens_are_found_in_lower_cased_texts_and_case_stays_as_it_was():
    tokenizer = WordPieceTokenizer(VOCABULARY).add_tokens(["New York", "##ing", "ABC"])
    assert not tokenizer.cased
    assert tokenizer.tokenize("new york ABC abc") == ["New York", "ABC", "ABC"]
    assert not tokenizer.add_tokens(["DEF"]).cased
