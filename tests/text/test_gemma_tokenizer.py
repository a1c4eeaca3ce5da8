"""The tokenizer of mmBERT, which is that of Gemma 2: encodings, offsets, words, pairs and windows are those of tokenizers."""

import json

import pytest
from helpers import small_tokenizers

from keras_bert_rebuild import load_tokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer

TEXTS = [
    *small_tokenizers.LINES,
    *small_tokenizers.SENTENCES[:6],
    "a\n\nb  the   boats",
    "<table> in<unused0>the <mask> row<eos>",
    " the harbour ",
    "▁the▁harbour ▁▁",
]
SETTINGS = (
    {},
    {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "add_bos_token": True, "add_eos_token": True},
    {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "<bos>", "sep_token": "<eos>", "mask_token": "<mask>"},
)


@pytest.fixture(scope="module")
def peer():
    return small_tokenizers.gemmas()


@pytest.fixture
def ours(peer, tmp_path):
    peer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"model_type": "modernbert"}')
    return load_tokenizer(tmp_path)


def rows_of(encodings):
    """Ids, segments, offsets and words of some rows of tokenizers."""
    return [(row.ids, row.type_ids, row.offsets, [-1 if word is None else word for word in row.word_ids]) for row in encodings]


def rows_of_ours(encoding):
    """The same of an `Encoding`."""
    offsets = [[*map(tuple, row.tolist())] for row in encoding.offsets]
    ids, segments, words = ([row.tolist() for row in rows] for rows in (encoding.ids, encoding.segments, encoding.word_ids))
    return [*zip(ids, segments, offsets, words, strict=True)]


@pytest.mark.parametrize("settings", SETTINGS, ids=["none", "gemma", "fast"])
def test_the_folder_gives_the_rows_of_the_package(peer, settings, tmp_path):
    peer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, PipelineTokenizer)
    assert (ours.pad_id, ours.sep_id, ours.cls_id, ours.unk_id, ours.mask_id) == (0, 1, 2, 3, 4)
    alone = ours.encode_batch(TEXTS, return_offsets=True, special_tokens_in_text=True)
    assert rows_of_ours(alone) == rows_of(peer.encode_batch(TEXTS))
    pairs = ours.encode_batch(TEXTS, TEXTS[::-1], return_offsets=True, special_tokens_in_text=True)
    assert rows_of_ours(pairs) == rows_of(peer.encode_batch([*zip(TEXTS, TEXTS[::-1], strict=True)]))


def test_letters_outside_the_vocabulary_are_bytes_and_come_back(ours):
    text = "naïve 中文 😀"
    tokens = ours.tokenize(text)
    assert "<0xE4>" in tokens
    assert ours.unk_id not in ours.encode_flat([text])[0].tolist()
    assert ours.decode(ours.encode_flat([text])[0]) == text


def test_special_tokens_in_a_text_are_text_unless_they_are_asked_for(ours):
    assert ours.mask_id not in ours.encode_batch(["the <mask> row"]).ids[0]
    assert ours.mask_id in ours.encode_batch(["the <mask> row"], special_tokens_in_text=True).ids[0]


@pytest.mark.parametrize(("length", "stride"), [(10, 0), (16, 5), (7, 2)])
def test_windows_and_truncation_are_those_of_the_package(ours, length, stride):
    peer = small_tokenizers.gemmas()
    peer.enable_truncation(length, stride=stride)
    for text in small_tokenizers.SENTENCES[:3]:
        row = peer.encode(text)
        windows = ours.encode_batch([text], max_len=length, stride=stride, return_offsets=True)
        assert rows_of_ours(windows) == rows_of([row, *row.overflowing])
        assert rows_of_ours(ours.encode_batch([text], max_len=length, return_offsets=True)) == rows_of([row])
