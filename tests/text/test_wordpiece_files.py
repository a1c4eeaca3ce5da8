"""The settings of a `WordPieceTokenizer` next to its vocabulary."""

import json

import pytest

from keras_bert_rebuild import WordPieceTokenizer, load_tokenizer
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
