"""The tokenizer's files next to an exported model, for tokenizers of every kind."""

import pytest
from helpers import given_tokenizers, small_tokenizers
from tokenizers import Tokenizer

from keras_bert_rebuild import from_pretrained, load_tokenizer
from keras_bert_rebuild.export import export_model
from keras_bert_rebuild.export.export_model import export
from keras_bert_rebuild.export.tokenizer_files import sentencepiece_pipeline
from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

KINDS = pytest.mark.parametrize("kind", given_tokenizers.KINDS, ids=lambda kind: kind.__name__)


@KINDS
def test_an_exported_folder_has_the_tokenizer_that_was_given(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(export_model, "_write", lambda *arguments: None)  # the model itself needs the package onnx
    tokenizer, model = given_tokenizers.given(kind, tmp_path, ())
    export(model, tokenizer, tmp_path / "folder", "onnx", max_len=20)
    again = load_tokenizer(tmp_path / "folder")
    assert again.rules == tokenizer.rules
    texts, pairs = given_tokenizers.TEXTS, given_tokenizers.TEXTS[::-1]
    ours = tokenizer.encode_batch(texts, pairs, max_len=20)
    assert [row.tolist() for row in again.encode_batch(texts, pairs, max_len=20).ids] == [row.tolist() for row in ours.ids]
    outside = Tokenizer.from_file(str(tmp_path / "folder" / "tokenizer.json"))
    outside.no_padding()
    theirs = outside.encode_batch(list(zip(texts, pairs, strict=True)))
    assert [row.ids for row in theirs] == [row.tolist() for row in ours.ids]
    assert [row.type_ids for row in theirs] == [row.tolist() for row in ours.segments]


def test_a_sentencepiece_model_with_other_rules_has_no_pipeline():
    pytest.importorskip("sentencepiece")
    pairs = small_tokenizers.sentencepiece("albert", model_type="bpe", vocab_size=120)
    assert sentencepiece_pipeline(SentencePieceTokenizer(pairs, "albert")) is None
    spaces = small_tokenizers.sentencepiece("albert", remove_extra_whitespaces=False)
    assert sentencepiece_pipeline(SentencePieceTokenizer(spaces, "albert")) is None


def test_a_sentencepiece_pipeline_has_the_ids_of_the_model():
    pytest.importorskip("sentencepiece")
    lines = [line for line in small_tokenizers.SENTENCES if not any(map(str.isdigit, line))]
    for family in ("albert", "xlm_roberta"):
        tokenizer = SentencePieceTokenizer(small_tokenizers.sentencepiece(family), family)
        pipeline = sentencepiece_pipeline(tokenizer)
        assert [row.ids for row in pipeline.encode_batch(lines)] == [row.tolist() for row in tokenizer.encode_batch(lines).ids]
        assert pipeline.token_to_id(tokenizer.tokens[tokenizer.mask_id]) == tokenizer.mask_id


@KINDS
def test_a_hugging_face_folder_has_the_tokenizer_that_was_given(tmp_path, kind):
    tokenizer, model = given_tokenizers.given(kind, tmp_path, ())
    export(model, tokenizer, tmp_path / "folder", "huggingface", max_len=20)
    assert load_tokenizer(tmp_path / "folder") == tokenizer


def test_a_given_tokenizer_replaces_the_files_of_the_model(tmp_path):
    tokenizer, model = given_tokenizers.given(given_tokenizers.byte_level_bpe, tmp_path, ())
    save_pretrained(model, tmp_path / "came", vocabulary=tokenizer)
    came = from_pretrained(tmp_path / "came")
    other = load_tokenizer(tmp_path / "came", add_prefix_space=False)
    export(came, other, tmp_path / "folder", "huggingface")
    assert not load_tokenizer(tmp_path / "folder").add_prefix_space
