"""What `export` refuses, the Hugging Face folder, and the files of tokenizers."""

import json

import keras
import numpy as np
import pytest
from eight_scripts import TEXTS, small_export
from helpers import small_tokenizers
from helpers.small_tasks import small_encoder
from helpers.small_tokenizers import byte_level_bpe
from tokenizers import Tokenizer

import keras_bert_rebuild
from keras_bert_rebuild import WordPieceTokenizer, from_pretrained, load_tokenizer, save_pretrained
from keras_bert_rebuild.export import export_model, runtimes, saved_model
from keras_bert_rebuild.export.export_model import export
from keras_bert_rebuild.export.tokenizer_files import sentencepiece_pipeline, tokenizer_files_outside
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer


def test_the_package_is_the_function(tmp_path, rng):
    model, tokenizer = small_export(rng, ["classification"])
    assert keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "huggingface") == tmp_path / "folder"
    again = from_pretrained(tmp_path / "folder")
    assert again.config.labels == model.config.labels
    ids = np.array([[2, 6, 7, 3]])
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(each([ids, ids * 0])) for each in (model, again)))
    assert load_tokenizer(tmp_path / "folder").vocabulary == tokenizer.vocabulary


def test_a_random_field_is_next_to_the_scores_of_labels(tmp_path, rng, monkeypatch):
    model, tokenizer = small_export(rng, ["token_classification"], crf=True)
    layer = model.get_layer("Token-Classification-CRF")
    ids = np.array([[2, 6, 7, 3]])
    outputs = model.predict([ids, ids * 0], verbose=0)
    written = []
    monkeypatch.setattr(export_model, "_write", lambda model, *rest: written.append(model))  # which needs the package onnx
    export(model, tokenizer, tmp_path / "onnx", "onnx")
    np.testing.assert_allclose(written[0].predict([ids, ids * 0], verbose=0), outputs[:, :4], atol=1e-6)
    settings = json.loads((tmp_path / "onnx" / "export.json").read_text())
    assert settings["outputs"] == ["logits"]
    assert settings["labels"] == list(model.config.labels)
    np.testing.assert_array_equal(np.array(settings["transitions"], "float32"), layer.transitions)
    np.testing.assert_array_equal(outputs[0, 4:], layer.transitions)
    export(model, tokenizer, tmp_path / "folder", "huggingface")
    assert json.loads((tmp_path / "folder" / "config.json").read_text())["architectures"] == ["BertForTokenClassification"]
    again = from_pretrained(tmp_path / "folder")
    np.testing.assert_array_equal(again.predict([ids, ids * 0], verbose=0), outputs)


@pytest.mark.parametrize("cased", [False, True])
def test_a_hugging_face_folder_has_the_tokenizer_settings(tmp_path, rng, cased):
    model, tokenizer = small_export(rng)
    export(model, WordPieceTokenizer(tokenizer.vocabulary, cased=cased), tmp_path / "folder", "huggingface", max_len=20)
    assert load_tokenizer(tmp_path / "folder").cased == cased
    assert json.loads((tmp_path / "folder" / "tokenizer_config.json").read_text())["model_max_length"] == 20


def test_a_pooled_model_keeps_the_files_of_its_tokenizer(tmp_path, monkeypatch):
    monkeypatch.setattr(export_model, "_write", lambda *arguments: None)  # the model itself needs the package onnx
    family = {"family": "roberta", "position_offset": 2, "pad_token_id": 1, "type_vocab_size": 1, "mlm_act": "gelu_erf"}
    save_pretrained(small_encoder((), vocab_size=420, **family), tmp_path / "encoder")
    byte_level_bpe(tmp_path / "encoder")
    tokenizer = load_tokenizer(tmp_path / "encoder")
    export(from_pretrained(tmp_path / "encoder"), tokenizer, tmp_path / "folder", "onnx", poolings="mean")
    assert load_tokenizer(tmp_path / "folder").vocabulary == tokenizer.vocabulary


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("tflite", {}, "format must be one of saved_model, onnx"),
        ("onnx", {"poolings": ["median"]}, "poolings must be some of cls, max, mean"),
        ("onnx", {"texts": ["a"]}, "texts for calibration are only for the format openvino_int8; got onnx"),
        ("openvino_int8", {}, "openvino_int8 needs texts for calibration; got None"),
        ("onnx", {"max_len": 41}, "from 4 to 40, the maximum of the model; got 41"),
        ("huggingface", {"poolings": "mean"}, "cannot have poolings"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(tmp_path, rng, format, options, message):
    model, tokenizer = small_export(rng)
    with pytest.raises(ValueError, match=message):
        export(model, tokenizer, tmp_path / "folder", format, **options)
    assert not (tmp_path / "folder").exists()


def test_a_file_is_not_replaced_by_a_folder(tmp_path, rng):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(ValueError, match=r"expected a folder to write to; .* is a file"):
        export(*small_export(rng), tmp_path / "model", "saved_model")


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    with pytest.raises(ValueError, match=r"needs the package no_such_package.*: pip install onnx\."):
        runtimes.needed_package("no_such_package", "onnx")


def test_a_saved_model_needs_tensorflow(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(saved_model.keras.config, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="KERAS_BACKEND=tensorflow"):
        export(*small_export(rng), tmp_path / "folder")


@pytest.mark.parametrize("cased", [False, True])
def test_the_package_tokenizers_reads_the_same_ids(rng, cased):
    model, tokenizer = small_export(rng)
    tokenizer = WordPieceTokenizer(tokenizer.vocabulary, cased=cased)
    files = tokenizer_files_outside(model, tokenizer, 40)
    assert json.loads(files["tokenizer_config.json"])["do_lower_case"] is not cased
    theirs = Tokenizer.from_str(files["tokenizer.json"].decode())
    ours = tokenizer.encode_batch(TEXTS, max_len=40)
    assert [row.ids for row in theirs.encode_batch(TEXTS)] == tokenizer.encode_batch(
        TEXTS, max_len=40, pad_to="longest"
    ).ids.tolist()
    assert len(ours.ids[-1]) == 40


@pytest.mark.parametrize("max_len", [14, 15])
def test_the_package_tokenizers_cuts_pairs_into_halves(rng, max_len):
    model, tokenizer = small_export(rng)
    theirs = Tokenizer.from_str(tokenizer_files_outside(model, tokenizer, max_len)["tokenizer.json"].decode())
    pairs = [("word " * first, "x " * second) for first in range(4, 9) for second in range(4, 9)]
    ours = tokenizer.encode_batch(*zip(*pairs, strict=True), max_len=max_len, truncation="halves", pad_to="longest")
    assert [row.ids for row in theirs.encode_batch(pairs)] == ours.ids.tolist()


def test_only_what_an_export_wrote_is_replaced(tmp_path, rng, monkeypatch):
    model, tokenizer = small_export(rng, ["classification"])
    folder = tmp_path / "folder"
    monkeypatch.setattr(export_model, "_write", lambda model, tokenizer, folder, *_: (folder / "model.onnx").write_text("written"))
    export(model, tokenizer, folder, "onnx")
    for name in ("assets/photo.jpg", "merges.txt", "model.bin", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("of the user")
    export(model, tokenizer, folder, "onnx")
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.read_text() == "of the user"}
    assert kept == {"assets/photo.jpg", "merges.txt", "model.bin", "notes.txt"}
    with pytest.raises(ValueError, match=r"folder holds assets, which its export\.json does not name, so it is not replaced"):
        export(model, tokenizer, folder, "saved_model")
    assert (folder / "assets" / "photo.jpg").exists()
    assert (folder / "model.onnx").exists()


# The tokenizer's files next to an exported model, for tokenizers of every kind.


KINDS = pytest.mark.parametrize("kind", small_tokenizers.KINDS, ids=lambda kind: kind.__name__)


@KINDS
def test_an_exported_folder_has_the_tokenizer_that_was_given(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(export_model, "_write", lambda *arguments: None)  # the model itself needs the package onnx
    tokenizer, model = small_tokenizers.with_encoder(kind, tmp_path, ())
    export(model, tokenizer, tmp_path / "folder", "onnx", max_len=20)
    again = load_tokenizer(tmp_path / "folder")
    assert again.rules == tokenizer.rules
    texts, pairs = small_tokenizers.TEXTS, small_tokenizers.TEXTS[::-1]
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
    tokenizer, model = small_tokenizers.with_encoder(kind, tmp_path, ())
    export(model, tokenizer, tmp_path / "folder", "huggingface", max_len=20)
    assert load_tokenizer(tmp_path / "folder") == tokenizer


def test_a_given_tokenizer_replaces_the_files_of_the_model(tmp_path):
    tokenizer, model = small_tokenizers.with_encoder(small_tokenizers.changed_bpe, tmp_path, ())
    save_pretrained(model, tmp_path / "came", vocabulary=tokenizer)
    came = from_pretrained(tmp_path / "came")
    other = load_tokenizer(tmp_path / "came", add_prefix_space=False)
    export(came, other, tmp_path / "folder", "huggingface")
    assert not load_tokenizer(tmp_path / "folder").add_prefix_space
