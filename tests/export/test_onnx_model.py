"""ONNX and OpenVINO folders, run in a separate process; MiniLM in float32 and in int8."""

import keras
import numpy as np
import onnx
import pytest
from eight_scripts import TEXTS, answers, small_export, static_export
from foreign import run_foreign
from helpers import minilm
from helpers.other_process import connections_of
from helpers.small import spread
from helpers.small_tasks import PETS, TOKENIZER, small_encoder

import keras_bert_rebuild
from keras_bert_rebuild import EmbeddingStream, from_pretrained, layers, load_tokenizer
from keras_bert_rebuild.export import onnx_model as written
from keras_bert_rebuild.export.openvino import OpenVINORunner, calibration_rows
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.tasks.embedding_model import embedding_model
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder

HEADS = ["pooler", "mlm", "nsp", "sop", "classification", "token_classification", "question_answering", "multiple_choice", "rtd"]


def compared(model, tokenizer, folder, scratch, expected_of=None):
    """Export, run there and here, and compare every output."""
    keras_bert_rebuild.export(model, tokenizer, folder, "onnx", max_len=40)
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    got = run_foreign("tokenizers", folder, TEXTS, scratch)
    encoded, outputs = answers(expected_of or model, tokenizer, TEXTS)
    np.testing.assert_array_equal(got.pop("input_ids"), encoded.ids)
    assert len(got) == len(outputs)
    for value, expected in zip(got.values(), outputs, strict=True):
        if expected.ndim == 3:  # values at padding are undefined
            value, expected = value[encoded.mask == 1], expected[encoded.mask == 1]
        np.testing.assert_allclose(value, expected, atol=1e-5)
    return got


def test_every_head_answers_the_same(tmp_path, rng):
    model, tokenizer = small_export(rng, HEADS)
    got = compared(model, tokenizer, tmp_path / "folder", tmp_path)
    assert list(got)[:3] == ["last_hidden_state", "pooler_output", "token_probabilities"]


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "albert", "embedding_size": 8, "num_hidden_groups": 1},
        {"family": "distilbert", "type_vocab_size": 0, "hidden_act": "gelu_erf"},
        {"hidden_act": "quick_gelu", "pooler_act": "relu"},
        {"padding_mask": True},
        {"adapter_size": 3},
    ],
    ids=["albert", "distilbert", "activations", "padding_mask", "adapters"],
)
def test_members_of_the_family_answer_the_same(tmp_path, rng, changes):
    model, tokenizer = small_export(rng, ["classification"], **changes)
    compared(model, tokenizer, tmp_path / "folder", tmp_path)


def test_a_static_model_becomes_one_of_any_length_with_poolings(tmp_path, rng):
    model, tokenizer = static_export(rng)
    pooled = embedding_model(model, ("cls", "max", "mean"), normalize=True, any_length=True)
    got = compared(pooled, tokenizer, tmp_path / "folder", tmp_path)
    assert list(got) == ["sentence_embedding"]
    dims = onnx.load(str(tmp_path / "folder" / "model.onnx")).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["batch", "length"]


def test_weights_too_large_for_one_file_are_next_to_it(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(written, "MOST_BYTES", 1000)
    model, tokenizer = small_export(rng)
    compared(model, tokenizer, tmp_path / "folder", tmp_path)
    assert (tmp_path / "folder" / "model.onnx.data").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_operations_without_counterpart_are_named(rng):
    model, _ = small_export(rng)
    odd = BertModel(model.inputs, keras.layers.GlobalMaxPooling1D(name="Odd")(model.outputs[0]))
    with pytest.raises(ValueError, match="Odd is a GlobalMaxPooling1D"):
        written.onnx_model(odd)
    model.quantize("int8")
    with pytest.raises(ValueError, match="weights must be floats, exported before quantisation; got int8"):
        written.onnx_model(model)


class Dense(keras.layers.Dense):
    """Called like a layer that has nodes, and computes something else."""

    def call(self, inputs):
        return 2 * super().call(inputs)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Dense(3, name="Odd"), "Odd is a Dense"),
        (keras.layers.LayerNormalization(scale=False, name="Odd"), "Odd: scale must be True to be exported to ONNX; got False"),
        (keras.layers.UnitNormalization(axis=1, name="Odd"), "Odd: axis must be -1 to be exported to ONNX; got 1"),
        (keras.layers.GlobalAveragePooling1D(keepdims=True, name="Odd"), "Odd: keepdims must be False .* got True"),
        (layers.MultiHeadSelfAttention(2, history_only=True, name="Odd"), "Odd: history_only must be False .* got True"),
        (
            layers.PositionEmbedding(40, 16, mode="concat", name="Odd"),
            "Odd: mode must be 'add' to be exported to ONNX; got 'concat'",
        ),
    ],
)
def test_a_setting_that_no_node_reads_is_named(rng, layer, message):
    model, _ = small_export(rng)
    with pytest.raises(ValueError, match=message):
        written.onnx_model(BertModel(model.inputs, layer(model.outputs[0])))


@pytest.mark.parametrize("half", ["MultiHeadSelfAttention", "FeedForward"])
def test_a_field_of_the_anatomy_that_is_new_to_onnx_is_named(rng, monkeypatch, half):
    model, _ = small_export(rng)
    known = model.get_layer(f"Encoder-1-{half}").get_config()
    monkeypatch.setattr(getattr(layers, half), "get_config", lambda layer: {**known, "sinks": 4})
    with pytest.raises(ValueError, match=f"Encoder-1-{half}: sinks must be None to be exported to ONNX; got 4"):
        written.onnx_model(model)


def test_a_call_with_more_than_inputs_is_named(rng):
    model, _ = small_export(rng)
    attention = layers.MultiHeadSelfAttention(2, rotary_theta=10.0, name="Odd")
    odd = BertModel(model.inputs, attention(model.outputs[0], positions=model.inputs[0]))
    with pytest.raises(ValueError, match=r"Odd: .* must be called with its inputs only; got positions"):
        written.onnx_model(odd)


def test_layers_of_keras_around_the_encoder_answer_the_same(tmp_path, rng):
    model, tokenizer = small_export(rng)
    x = model.outputs[0]
    one, two = keras.layers.Dense(16, "tanh")(x), keras.layers.LayerNormalization(center=False)(x)
    joined = keras.layers.Concatenate()([keras.layers.Add()([one, two, x]), keras.layers.Dropout(0.5)(two), one])
    pooled = keras.layers.GlobalAveragePooling1D()(joined)
    odd = BertModel(model.inputs, keras.layers.RMSNormalization()(pooled + pooled))
    compared(spread(odd, rng), tokenizer, tmp_path / "folder", tmp_path)


# OpenVINO folders, run in a separate process; MiniLM in float32 and in int8.


def test_every_output_is_the_same(tmp_path, rng):
    model, tokenizer = small_export(rng, ["pooler", "classification"])
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "openvino")
    got = run_foreign("tokenizers", tmp_path / "folder", TEXTS, tmp_path)
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
    runtime = "tensorflow" if format == "saved_model" else "tokenizers"
    got = run_foreign(runtime, tmp_path / "folder", TEXTS, tmp_path)["sentence_embedding"]
    expected = EmbeddingStream.from_model(model, tokenizer, normalize=True)(TEXTS)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.slow(torch=True)
def test_int8_keeps_the_direction_of_vectors(tmp_path, trained):
    model, tokenizer = trained
    sentences = minilm.TEXT.read_text(encoding="utf-8").replace("\n", " ").split(". ")
    texts = [*sentences, *(sentence[:20] for sentence in sentences)]
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "openvino_int8", poolings="mean", normalize=True, texts=texts)
    runner = OpenVINORunner(tmp_path / "folder")
    small = EmbeddingStream(runner, runner.tokenizer, runner.max_len)(texts)
    cosines = np.sum(small * EmbeddingStream.from_model(model, tokenizer, normalize=True)(texts), axis=1)
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
