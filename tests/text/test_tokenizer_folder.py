"""The files of a tokenizer: vocabularies, settings and added tokens of the folders of transformers."""

import json
import pickle

import pytest
from tokenizers import AddedToken

from keras_bert_rebuild import WordPieceTokenizer, load_tokenizer
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceSettings

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "hello", "안녕", "한국", "ș", "s", "a-b", "a", "-", "b"]
CLEANING = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


def folder_of(path, settings=None, pipeline=None, vocabulary=VOCABULARY, **more):
    """A folder with tokenizer_config.json, tokenizer.json and other given files; a vocab.txt if there is no tokenizer.json."""
    files = {f"{name}.json": values for name, values in more.items()}
    if settings is not None:
        files["tokenizer_config.json"] = settings
    if pipeline is None:
        (path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    else:
        model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {token: i for i, token in enumerate(vocabulary)}}
        files["tokenizer.json"] = {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": CLEANING,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100, **model},
            **pipeline,
        }
    for name, values in files.items():
        (path / name).write_text(json.dumps(values), encoding="utf-8")
    return path


def test_without_stripping_accents_hangul_stays_whole(tmp_path):
    folder = folder_of(tmp_path, {"do_lower_case": True, "strip_accents": False})
    assert load_tokenizer(folder).tokenize("안녕 한국 HELLO Ș") == ["안녕", "한국", "hello", "ș"]


def test_accents_can_be_stripped_with_case_retained(tmp_path):
    folder = folder_of(tmp_path, {"do_lower_case": False, "strip_accents": True})
    assert load_tokenizer(folder).tokenize("ș S") == ["s", "[UNK]"]


@pytest.mark.parametrize(
    ("settings", "cleaning", "expected"),
    [
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, None, (True, None, False)),
        (None, {"lowercase": False, "strip_accents": True}, (False, True, True)),
        ({"do_lower_case": True}, {"lowercase": False, "handle_chinese_chars": False}, (True, None, False)),
        ({"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"}, {"lowercase": False}, (False, None, True)),
    ],
)
def test_settings_are_those_of_tokenizer_config_or_else_of_tokenizer_json(tmp_path, settings, cleaning, expected):
    pipeline = None if cleaning is None else {"normalizer": CLEANING | cleaning}
    tokenizer = WordPieceTokenizer.from_pretrained(folder_of(tmp_path, settings, pipeline))
    assert tokenizer.settings == WordPieceSettings(*expected)


def test_an_assumption_about_case_is_reported(tmp_path):
    folder = folder_of(tmp_path, vocabulary=[*VOCABULARY, "Hello"])
    with pytest.warns(
        UserWarning, match="do not say whether the tokenizer is cased; since the vocabulary has upper-case letters, case and"
    ):
        assert load_tokenizer(folder).tokenize("Hello") == ["Hello"]
    assert load_tokenizer(folder, cased=False).tokenize("Hello") == ["hello"]
    assert load_tokenizer(folder_of(tmp_path)).tokenize("Hello") == ["hello"]


@pytest.mark.parametrize("setting", [{"never_split": ["a-b"]}, {"do_basic_tokenize": False}])
def test_settings_of_slow_tokenizers_are_named(tmp_path, setting):
    with pytest.warns(UserWarning, match=f"{next(iter(setting))} in .* is ignored, as transformers 5 does"):
        load_tokenizer(folder_of(tmp_path, {"do_lower_case": True, **setting}))


def test_rules_other_than_googles_are_not_run_as_googles(tmp_path):
    folder = folder_of(tmp_path, pipeline={"pre_tokenizer": {"type": "WhitespaceSplit"}})
    with pytest.raises(ValueError, match="has a WordPiece model on WhitespaceSplit words, normalizer BertNormalizer: use load_tok"):
        WordPieceTokenizer.from_pretrained(folder)
    assert load_tokenizer(folder).tokenize("A-b") == ["a-b"]


@pytest.mark.parametrize(
    ("settings", "pipeline", "message"),
    [
        ({"do_lower_case": "yes"}, None, "do_lower_case at .* must be true or false; got 'yes'"),
        ({"strip_accents": [1]}, None, "strip_accents at .* must be true or false"),
        ({"added_tokens_decoder": [1]}, None, "'added_tokens_decoder' in .* must be a JSON object; got list"),
        ({"added_tokens_decoder": {"5": {"content": 7}}}, None, "must give every added token a content"),
        ({"added_tokens_decoder": {"x": {"content": "y"}}}, None, "an id, a whole number of at least 0; got 'x'"),
        ({"additional_special_tokens": 5}, None, "additional_special_tokens in .* must be a list of tokens"),
        (None, {"model": []}, "'model' in .* must be a JSON object; got list"),
        (None, {"model": {"type": "WordPiece", "vocab": [1]}}, "must be an object from token to id"),
        (None, {"normalizer": 5}, "'normalizer' in .* must be a JSON object; got int"),
        (None, {"added_tokens": {}}, "'added_tokens' in .* must be a list of JSON objects; got dict"),
        (None, {"post_processor": {"type": "BertProcessing", "sep": 5}}, "must name its two tokens"),
    ],
)
def test_a_value_of_another_type_is_one_sentence(tmp_path, settings, pipeline, message):
    with pytest.raises(ValueError, match=message):
        load_tokenizer(folder_of(tmp_path, settings, pipeline))


def test_both_texts_of_a_pair_have_segment_0_if_the_model_has_one_segment(tmp_path):
    config = {"model_type": "roberta", "type_vocab_size": 1}
    encoding = load_tokenizer(folder_of(tmp_path, {"do_lower_case": True}, config=config)).encode_batch(["a"], ["b"])
    assert encoding.segments[0].tolist() == [0] * 5
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    sep = {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    post = {
        "type": "TemplateProcessing",
        "single": [*template, sep],
        "pair": [*template, sep, {"Sequence": {"id": "B", "type_id": 0}}, sep],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in (("[CLS]", 2), ("[SEP]", 3))},
    }
    (tmp_path / "other").mkdir()
    assert load_tokenizer(folder_of(tmp_path / "other", pipeline={"post_processor": post})).second_segment == 0


def test_the_mask_strips_the_space_as_the_files_say(tmp_path):
    text = "a  [MASK] b"
    for takes in (True, False):
        folder = folder_of(tmp_path, {"do_lower_case": True, "mask_token": {"content": "[MASK]", "lstrip": takes}})
        tokenizer = load_tokenizer(folder)
        assert bool(tokenizer.takes_space) is takes
        encoding = tokenizer.encode_batch([text], special_tokens_in_text=True, return_offsets=True)
        assert [text[start:stop] for start, stop in encoding.offsets[0]][1:-1] == ["a", "[MASK]", "b"]


@pytest.mark.parametrize("file", ["tokenizer_config", "special_tokens_map"])
def test_settings_that_name_another_special_token_are_one_sentence(tmp_path, file):
    vocabulary = [*VOCABULARY, "[BOS]"]
    files = {file: {"cls_token": "[BOS]"}, "tokenizer_config": {"do_lower_case": True}}
    files[file] = {**files.get(file, {}), "cls_token": {"content": "[BOS]"}, "sep_token": "[SEP]"}
    with pytest.raises(ValueError, match=r"cls_token at .* must be '\[CLS\]', as in every WordPieceTokenizer; got '\[BOS\]'"):
        load_tokenizer(folder_of(tmp_path, vocabulary=vocabulary, settings=files.pop("tokenizer_config"), **files))


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "c", "d", "+", "<", ">"]
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
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
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
    tokenizer = WordPieceTokenizer([*WORDS, "<d>"], cased=True, added_tokens=["<d>"])
    assert tokenizer.tokenize("<d> <D>") == ["<d>", "<", "[UNK]", ">"]


@pytest.mark.parametrize("cased", [False, True])
def test_a_tokenizer_round_trips_through_its_files(tmp_path, cased):
    tokenizer = WordPieceTokenizer(WORDS, cased=cased).add_tokens(["C++", "<D>"])
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    again = load_tokenizer(tmp_path)
    assert (again.vocabulary, again.cased, again.added_tokens) == (tokenizer.vocabulary, cased, ("C++", "<D>"))


def found(text, cased=False, pieces=(), **flags):
    """The tokens of a text with `Foo` added in this way."""
    vocabulary = [*WORDS, "f", "##o", "##d", "##ö", "Foo", *pieces]
    added = [AddedToken("Foo", **flags), *pieces]
    return WordPieceTokenizer(vocabulary, cased=cased, added_tokens=added).tokenize(text)


def test_a_single_word_is_not_part_of_other_words():
    assert found("food foo foo-b", single_word=True) == ["f", "##o", "##o", "##d", "Foo", "Foo", "[UNK]", "b"]
    assert found("food") == ["Foo", "d"]


def test_an_added_token_after_the_vocabulary_is_no_piece_of_words(tmp_path):
    vocabulary = [*WORDS, "f", "##o", "##d", "foo"]
    tokenizer = WordPieceTokenizer(vocabulary, cased=False, added_tokens=[AddedToken("foo", single_word=True)])
    assert tokenizer.tokenize("food foo") == ["f", "##o", "##o", "##d", "foo"]
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    assert "foo" not in (tmp_path / "vocab.txt").read_text(encoding="utf-8").split()
    assert load_tokenizer(tmp_path) == tokenizer
    inside = WordPieceTokenizer(["foo", *vocabulary[:-1]], cased=False, added_tokens=[AddedToken("foo", single_word=True)])
    assert inside.tokenize("food foo") == ["foo", "##d", "foo"]


def test_a_special_token_is_found_as_it_is_written():
    assert found("foo Foo", special=True) == ["f", "##o", "##o", "Foo"]
    assert found("foo Foo", normalized=False) == ["f", "##o", "##o", "Foo"]


def test_a_normalized_token_is_found_without_case_and_accents():
    assert found("FOO Fóö f\u200boo") == ["Foo"] * 3
    assert found("Fóo", cased=True) == ["[UNK]"]


def test_characters_that_grow_in_lower_case_are_handled():
    vocabulary = [*WORDS, "<id>"]
    tokenizer = WordPieceTokenizer(vocabulary, cased=False, added_tokens=["<id>"])
    assert tokenizer.tokenize("<İd> <ID> <\u212ad>") == ["<id>", "<id>", "<", "[UNK]", ">"]
    kept = WordPieceTokenizer(vocabulary, cased=False, added_tokens=["<id>"], strip_accents=False)
    assert kept.tokenize("<İd> <ID>") == ["<", "[UNK]", ">", "<id>"]


def test_white_space_belongs_to_tokens_that_strip_it():
    vocabulary = {token: i for i, token in enumerate([*WORDS, "Foo"])}
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
    assert tokenizer.vocabulary["[E1]"] == len(WORDS)


def test_flags_round_trip_through_their_files(tmp_path):
    rules = [AddedToken("Foo", single_word=True, lstrip=True), AddedToken("[E1]", special=True)]
    tokenizer = WordPieceTokenizer([*WORDS, "Foo", "[E1]"], cased=False, added_tokens=rules, mask_takes_space=True)
    for name, content in vocabulary_files(tokenizer, 20).items():
        (tmp_path / name).write_bytes(content)
    assert load_tokenizer(tmp_path) == tokenizer


def test_added_tokens_are_strings_or_added_tokens():
    with pytest.raises(ValueError, match=r"added_tokens must be strings or tokenizers.AddedToken; got int 5"):
        WordPieceTokenizer(WORDS, added_tokens=[5])


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
        WordPieceTokenizer(WORDS, added_tokens=["a", "e"])


@pytest.mark.parametrize("token", ["\u200b", "\u0301", "##ING", "##a b", "##é", "##."])
def test_a_token_that_no_text_can_have_is_refused(token):
    tokenizer = WordPieceTokenizer(WORDS, cased=False)
    with pytest.raises(ValueError, match="tokens must be able to occur in normalised texts; got"):
        tokenizer.add_tokens(["<date>", token])


def test_upper_case_tokens_are_found_in_lower_cased_texts_and_case_stays_as_it_was():
    tokenizer = WordPieceTokenizer(WORDS).add_tokens(["New York", "##ing", "ABC"])
    assert not tokenizer.cased
    assert tokenizer.tokenize("new york ABC abc") == ["New York", "ABC", "ABC"]
    assert not tokenizer.add_tokens(["DEF"]).cased
