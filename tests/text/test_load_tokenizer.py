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
