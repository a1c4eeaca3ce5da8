"""ONNX files, run by ONNX Runtime in a separate process."""

import keras
import numpy as np
import onnx
import pytest
from eight_scripts import TEXTS, answers, small_export, static_export
from foreign import run_foreign
from helpers.small import spread

import keras_bert_rebuild
from keras_bert_rebuild import layers
from keras_bert_rebuild.export import onnx_model as written
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.tasks.embedding_model import embedding_model

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
