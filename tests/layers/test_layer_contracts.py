"""Every layer meets the contract of `check_layer`."""

import keras
import numpy as np
import pytest
from helpers.check_layer import POLICIES, check_layer

from keras_bert_rebuild import layers

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
IDS = np.array([[3, 1, 4, 0, 0], [2, 6, 5, 3, 1]], "int32")
TABLE = np.random.default_rng(1).normal(size=(7, 8)).astype("float32")


def test_token_embedding():
    check_layer(lambda **k: layers.TokenEmbedding(7, 8, mask_zero=True, **k), IDS, [(2, 5, 8), (7, 8)], input_dtypes=["int32"])


def test_token_embedding_with_a_padding_mask():
    check_layer(
        lambda **k: layers.TokenEmbedding(7, 8, **k), [IDS, IDS * 0 + 1], [(2, 5, 8), (7, 8)], input_dtypes=["int32", "int32"]
    )


@pytest.mark.parametrize(("mode", "shape"), [("add", (2, 5, 8)), ("concat", (2, 5, 16))])
def test_position_embedding(mode, shape):
    check_layer(lambda **k: layers.PositionEmbedding(6, 8, mode=mode, **k), X, shape)


def test_position_embedding_of_given_positions():
    check_layer(lambda **k: layers.PositionEmbedding(6, 8, mode="expand", **k), IDS, (2, 5, 8), input_dtypes=["int32"])


def test_task_embedding():
    task = np.array([[1], [0]], "int32")
    check_layer(
        lambda **k: layers.TaskEmbedding(3, 8, mask_zero=True, **k), [X, task], (2, 5, 8), input_dtypes=["float32", "int32"]
    )


@pytest.mark.parametrize("mode", ["add", "concat"])
def test_trig_pos_embedding(mode):
    check_layer(lambda **k: layers.TrigPosEmbedding(mode=mode, output_dim=8, **k), X, (2, 5, 8 if mode == "add" else 16))


@pytest.mark.parametrize(
    "arguments", [{}, {"attention_dropout": 0.2}, {"history_only": True}, {"use_bias": False, "activation": "relu"}]
)
def test_multi_head_self_attention(arguments):
    # JAX compiles no float16 attention for CPUs ("F16_F16_F32 is not supported by dot_general on CPU").
    policies = POLICIES[:2] if keras.backend.backend() == "jax" else POLICIES
    check_layer(lambda **k: layers.MultiHeadSelfAttention(2, **arguments, **k), X, (2, 5, 8), policies=policies)


@pytest.mark.parametrize("arguments", [{}, {"dropout_rate": 0.2, "activation": layers.gelu}])
def test_feed_forward(arguments):
    check_layer(lambda **k: layers.FeedForward(16, **arguments, **k), X, (2, 5, 8))


def test_rms_normalization():
    check_layer(lambda **k: layers.RMSNormalization(epsilon=1e-5, **k), X, (2, 5, 8))


def test_dropout():
    check_layer(lambda **k: layers.Dropout(0.2, **k), X, (2, 5, 8))


def test_layer_normalization():
    check_layer(lambda **k: layers.LayerNormalization(**k), X, (2, 5, 8))


def test_add():
    check_layer(lambda **k: layers.Add(**k), [X, X + 1], (2, 5, 8))


def test_dense():
    check_layer(lambda **k: layers.Dense(2, **k), X[:, 0], (2, 2))


@pytest.mark.parametrize("use_bias", [True, False])
def test_embedding_similarity(use_bias):
    batch = np.stack([TABLE[:2], TABLE[:2]])
    layer = layers.EmbeddingSimilarity(use_bias=use_bias)
    probabilities = keras.ops.convert_to_numpy(layer([batch, TABLE]))
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-6)
    copy = layers.EmbeddingSimilarity.from_config(layer.get_config())
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(copy([batch, TABLE])), probabilities)


@pytest.mark.parametrize("return_masked", [True, False])
def test_masked(return_masked):
    shapes = [(2, 5, 8), (2, 5)] if return_masked else (2, 5, 8)
    check_layer(lambda **k: layers.Masked(return_masked=return_masked, **k), [X, IDS], shapes, input_dtypes=["float32", "int32"])


def test_extract():
    check_layer(lambda **k: layers.Extract(index=1, **k), X, (2, 8))


def test_masked_global_max_pool_1d():
    check_layer(lambda **k: layers.MaskedGlobalMaxPool1D(**k), X, (2, 8))


def test_masked_conv_1d():
    check_layer(lambda **k: layers.MaskedConv1D(4, 3, **k), X, (2, 3, 4))
