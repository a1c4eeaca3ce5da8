"""`load_tokenizer` recognises the kind of a tokenizer from its files."""

import importlib.util
import json

import pytest
from helpers import minilm, small_tokenizers

from keras_bert_rebuild import WordPieceTokenizer, load_tokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

needs_sentencepiece = pytest.mark.skipif(not importlib.util.find_spec("sentencepiece"), reason="needs sentencepiece")


def write(folder, name, value):
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


@pytest.fixture
def bpe(tmp_path):
    small_tokenizers.byte_level_bpe(tmp_path)
    return tmp_path


def test_vocab_txt_is_wordpiece():
    assert isinstance(load_tokenizer(minilm.FOLDER), WordPieceTokenizer)
    assert load_tokenizer(minilm.FOLDER / "vocab.txt", cased=True).cased


def test_vocab_json_is_byte_level_bpe(bpe):
    assert isinstance(load_tokenizer(bpe), ByteLevelBPETokenizer)
    assert isinstance(load_tokenizer(bpe / "merges.txt"), ByteLevelBPETokenizer)
    (bpe / "vocab.json").unlink()
    assert isinstance(load_tokenizer(bpe), ByteLevelBPETokenizer)
    assert isinstance(load_tokenizer(bpe / "tokenizer.json"), ByteLevelBPETokenizer)
    dotted = bpe / "release-1.0"
    dotted.mkdir()
    (bpe / "tokenizer.json").rename(dotted / "tokenizer.json")
    assert isinstance(load_tokenizer(dotted), ByteLevelBPETokenizer)


@needs_sentencepiece
@pytest.mark.parametrize(("family", "file"), [("albert", "spiece.model"), ("xlm_roberta", "sentencepiece.bpe.model")])
def test_sentencepiece_models_have_their_family(tmp_path, family, file):
    (tmp_path / file).write_bytes(small_tokenizers.sentencepiece(family))
    for path in (tmp_path, tmp_path / file):
        tokenizer = load_tokenizer(path)
        assert isinstance(tokenizer, SentencePieceTokenizer)
        assert tokenizer.family == family
    write(tmp_path, "config.json", {"model_type": family.replace("_", "-")})
    assert load_tokenizer(tmp_path).family == family
    write(tmp_path, "config.json", {"model_type": "camembert"})
    with pytest.raises(ValueError, match=r"must belong to a model of type .*; the settings next to it name \['camembert'\]"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("settings", "pipeline", "pair"),
    [
        ({}, {}, "[CLS] a b [SEP] c [SEP] 000011"),
        ({"model_input_names": ["input_ids", "attention_mask"]}, {}, "[CLS] a b [SEP] c [SEP] 000000"),
        ({"model_input_names": ["input_ids", "token_type_ids"]}, {}, "[CLS] a b [SEP] c [SEP] 000011"),
        ({"truncation_side": "left"}, {}, "[CLS] b c [SEP] d [SEP] 000011"),
        ({}, {"truncation": {"direction": "Left"}}, "[CLS] b c [SEP] d [SEP] 000011"),
        ({"truncation_side": "right"}, {"truncation": {"direction": "Left"}}, "[CLS] a b [SEP] c [SEP] 000011"),
        ({"padding_side": "left", "model_max_length": 4}, {}, "[CLS] a b [SEP] c [SEP] 000011"),
    ],
)
@pytest.mark.parametrize("splitter", ["BertPreTokenizer", "WhitespaceSplit"])
def test_segments_and_the_side_of_a_cut_are_those_of_the_settings(tmp_path, settings, pipeline, pair, splitter):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcd"]
    values = {
        "model": {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(tokens)}, "unk_token": "[UNK]"},
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": splitter},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        **pipeline,
    }
    values["model"] |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    if "truncation" in pipeline:
        values["truncation"] |= {"max_length": 9, "strategy": "LongestFirst", "stride": 0}
    write(tmp_path, "tokenizer.json", values)
    write(tmp_path, "tokenizer_config.json", settings)
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, WordPieceTokenizer if splitter == "BertPreTokenizer" else PipelineTokenizer)
    row = tokenizer.encode_batch(["a b c"], ["c d"], max_len=6, pad_to="longest")
    tokens = " ".join(tokenizer.tokens[i] for i in row.ids[0].tolist())
    assert f"{tokens} {''.join(map(str, row.segments[0].tolist()))}" == pair


@needs_sentencepiece
@pytest.mark.parametrize("family", ["albert", "xlnet"])
def test_a_sentencepiece_folder_without_segments_has_segment_0_and_cuts_where_it_says(tmp_path, family):
    (tmp_path / "spiece.model").write_bytes(small_tokenizers.sentencepiece(family))
    plain = load_tokenizer(tmp_path)
    write(tmp_path, "tokenizer_config.json", {"model_input_names": ["input_ids"], "truncation_side": "left"})
    tokenizer, text = load_tokenizer(tmp_path), "the harbour was quiet in the hour"
    assert plain.encode_batch([text], ["the boats"], pad_to="longest").segments.any()
    assert not tokenizer.encode_batch([text], ["the boats"], pad_to="longest").segments.any()
    ids = tokenizer.encode_flat([text])[0].tolist()
    assert [i for i in tokenizer.encode_batch([text], max_len=6).ids[0].tolist() if i not in tokenizer.special_ids] == ids[-4:]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"truncation_side": "middle"}, "truncation_side at .* must be right or left; got 'middle'"),
        ({"truncation_side": 1}, "truncation_side at .* must be right or left; got 1"),
        (
            {"model_input_names": "input_ids"},
            r"model_input_names in .*tokenizer_config\.json must be a list of names; got 'input_ids'",
        ),
    ],
)
def test_settings_of_rows_that_say_nothing_are_one_sentence(bpe, settings, message):
    write(bpe, "tokenizer_config.json", settings)
    with pytest.raises(ValueError, match=message):
        load_tokenizer(bpe)


def test_settings_decide_between_several(bpe):
    write(bpe, "vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))
    with pytest.raises(ValueError, match="it has several"):
        load_tokenizer(bpe)
    write(bpe, "config.json", {"model_type": "bert"})
    assert isinstance(load_tokenizer(bpe), WordPieceTokenizer)
    write(bpe, "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizerFast"})
    write(bpe, "config.json", {"model_type": "roberta"})
    assert isinstance(load_tokenizer(bpe), ByteLevelBPETokenizer)
    assert isinstance(load_tokenizer(bpe / "vocab.txt"), WordPieceTokenizer)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize(("content", "message"), [("{", "must be JSON in UTF-8"), ("[]", "must be a JSON object; got list")])
def test_damaged_settings_are_refused_by_name(tmp_path, file, content, message):
    write(tmp_path, "vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))
    write(tmp_path, file, content)
    with pytest.raises(ValueError, match=f"{file} {message}"):
        load_tokenizer(tmp_path)


def test_other_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at nowhere; it does not exist"):
        load_tokenizer("nowhere")
    with pytest.raises(ValueError, match=" has none"):
        load_tokenizer(tmp_path)
    write(tmp_path, "tokenizer.json", {"model": {"type": "Unigram"}})
    with pytest.raises(ValueError, match=r"tokenizer.json has a Unigram model"):
        load_tokenizer(tmp_path)
    write(tmp_path, "tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"})
    with pytest.raises(ValueError, match=" name 'bertjapanese'"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("file", "values", "name"),
    [
        ("config.json", {"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}, "bertjapanese"),
        ("tokenizer_config.json", {"word_tokenizer_type": "mecab"}, "word_tokenizer_type mecab"),
        ("tokenizer_config.json", {"tokenizer_class": "KoBertTokenizer"}, "kobert"),
    ],
)
def test_a_custom_tokenizer_program_is_refused_wherever_it_is_named(tmp_path, file, values, name):
    write(tmp_path, "vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))
    write(tmp_path, file, values)
    with pytest.raises(ValueError, match=f"name '{name}', which has its own word-splitting code"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_json_with_other_rules_has_priority_over_the_files_of_its_kind(tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "-", "a-a"]
    write(tmp_path, "vocab.txt", "\n".join(vocabulary))
    write(tmp_path, "tokenizer_config.json", {"do_lower_case": True})
    assert load_tokenizer(tmp_path).tokenize("a-a") == ["a", "-", "a"]
    model = {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(vocabulary)}}
    model |= {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    write(tmp_path, "tokenizer.json", {"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model})
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, PipelineTokenizer)
    assert tokenizer.tokenize("a-a") == ["a-a"]
    # The vocabulary file itself, given by its path, is read as Google's.
    with pytest.raises(ValueError, match="use load_tokenizer"):
        load_tokenizer(tmp_path / "vocab.txt")


@needs_sentencepiece
def test_a_camembert_is_read_from_its_tokenizer_json(tmp_path):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(small_tokenizers.sentencepiece("xlm_roberta"))
    write(tmp_path, "config.json", {"model_type": "camembert"})
    pieces = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["\u2581a", -1.0], ["<mask>", 0.0]]
    values = {
        "model": {"type": "Unigram", "vocab": pieces, "unk_id": 3},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"},
    }
    write(tmp_path, "tokenizer.json", values)
    assert load_tokenizer(tmp_path).tokenize("a a") == ["\u2581a", "\u2581a"]
