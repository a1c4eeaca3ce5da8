"""OpenVINO folders, run in a separate process; MiniLM in float32 and in int8."""

import numpy as np
import pytest
from eight_scripts import TEXTS, answers, small_export
from foreign import run_foreign
from helpers import minilm
from helpers.connections import connections_of
from helpers.small_tasks import PETS, TOKENIZER, small_encoder

import keras_bert_rebuild
from keras_bert_rebuild import EmbeddingStream, from_pretrained, load_tokenizer
from keras_bert_rebuild.export.openvino import OpenVINORunner, calibration_rows
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder


def test_every_output_is_the_same(tmp_path, rng):
    model, tokenizer = small_export(rng, ["pooler", "classification"])
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "openvino")
    got = run_foreign("foreign_runtime.py", tmp_path / "folder", TEXTS, tmp_path)
    encoded, (states, _, logits) = answers(model, tokenizer, TEXTS)
    assert list(got) == ["input_ids", "last_hidden_state", "pooler_output", "logits"]
    np.testing.assert_allclose(got["last_hidden_state"][encoded.mask == 1], states[encoded.mask == 1], atol=1e-5)
    np.testing.assert_allclose(got["logits"], logits, atol=1e-5)


@pytest.mark.slow(torch=True)
def test_neither_openvino_nor_nncf_reports_what_it_is_used_for(tmp_path):
    SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER).save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("".join(f"{example.text}\n" for example in PETS) * 20)
    export = ["export", "--model", tmp_path / "model", "--output", tmp_path / "served", "--format", "openvino_int8"]
    embed = ["embed", tmp_path / "texts.txt", "--model", tmp_path / "served", "--output", tmp_path / "vectors.npy"]
    assert connections_of(tmp_path, [*export, "--calibrate", tmp_path / "texts.txt"], embed) == ("", [])


@pytest.fixture(scope="module")
def trained():
    return from_pretrained(minilm.FOLDER, heads=()), load_tokenizer(minilm.FOLDER)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("format", ["onnx", "openvino", "saved_model"])
def test_a_real_model_answers_the_same_everywhere(tmp_path, trained, format):
    model, tokenizer = trained
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", format, poolings="mean", normalize=True)
    script = "foreign_tensorflow.py" if format == "saved_model" else "foreign_runtime.py"
    got = run_foreign(script, tmp_path / "folder", TEXTS, tmp_path)["sentence_embedding"]
    expected = EmbeddingStream.of_model(model, tokenizer, normalize=True)(TEXTS)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.slow(torch=True)
def test_int8_keeps_the_direction_of_vectors(tmp_path, trained):
    model, tokenizer = trained
    sentences = minilm.TEXT.read_text(encoding="utf-8").replace("\n", " ").split(". ")
    texts = [*sentences, *(sentence[:20] for sentence in sentences)]
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "openvino_int8", poolings="mean", normalize=True, texts=texts)
    runner = OpenVINORunner(tmp_path / "folder")
    small = EmbeddingStream(runner, runner.tokenizer, runner.max_len)(texts)
    cosines = np.sum(small * EmbeddingStream.of_model(model, tokenizer, normalize=True)(texts), axis=1)
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.97
    sizes = [(tmp_path / "folder" / name).stat().st_size for name in ("model.bin", "model_int8.bin")]
    assert sizes[1] < 0.3 * sizes[0]


def test_half_of_the_calibration_rows_are_short(rng):
    _, tokenizer = small_export(rng)
    texts = [*(f"word {'word ' * int(n)}" for n in rng.integers(10, 30, 500)), *["word word"] * 5, "", " "]
    rows = calibration_rows(tokenizer, texts, max_len=40, count=60)
    lengths = [len(ids) for ids in rows.ids]
    assert len(lengths) == 60
    assert max(lengths[30:]) <= 12 < min(lengths[i] for i in range(30) if lengths[i] > 5)
    again = calibration_rows(tokenizer, texts, max_len=40, count=60)
    assert all(np.array_equal(a, b) for a, b in zip(rows.ids, again.ids, strict=True))


def test_other_folders_are_refused_in_a_sentence(tmp_path, rng):
    keras_bert_rebuild.export(*small_export(rng), tmp_path / "folder", "onnx")
    with pytest.raises(ValueError, match=r"must have a model for OpenVINO; export\.json says 'onnx'"):
        OpenVINORunner(tmp_path / "folder")
