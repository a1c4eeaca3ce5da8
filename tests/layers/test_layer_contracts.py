"""Every layer meets one contract: symbolic and eager call, config round trip and a training step, under three dtype policies."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild import layers

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def check_layer(make, arrays, output_shapes, *, input_dtypes=None, trains=True, policies=POLICIES):
    """Build, symbolic call, eager call, config round trip and one training step, under three dtype policies.

    Args:
        make: makes the layer from keyword arguments.
        arrays: one array, or a list of them.
        output_shapes: the shape of the output, or a list of shapes.
        input_dtypes: of the symbolic inputs, float32 if not given.
        trains: whether some output is differentiable.
    """
    flat = arrays if isinstance(arrays, list) else [arrays]
    dtypes = input_dtypes or ["float32"] * len(flat)
    shapes = output_shapes if isinstance(output_shapes, list) else [output_shapes]
    for policy in policies:
        keras.config.set_dtype_policy(policy)
        layer = make(name="layer")

        symbolic_inputs = [keras.Input(a.shape[1:], batch_size=len(a), dtype=d) for a, d in zip(flat, dtypes, strict=True)]
        symbolic = layer(symbolic_inputs if isinstance(arrays, list) else symbolic_inputs[0])
        tensors = [keras.ops.convert_to_tensor(a, dtype=d) for a, d in zip(flat, dtypes, strict=True)]
        eager = layer(tensors if isinstance(arrays, list) else tensors[0])
        for s, e, shape in zip(_list(symbolic), _list(eager), shapes, strict=True):
            assert tuple(s.shape) == tuple(e.shape) == shape, (policy, s.shape, e.shape, shape)
            assert keras.backend.standardize_dtype(s.dtype) == keras.backend.standardize_dtype(e.dtype), policy
            assert np.isfinite(_numpy(e)).all(), policy
        if type(layer).compute_output_shape is not keras.Layer.compute_output_shape:  # which would run the layer
            of_inputs = [a.shape for a in flat] if isinstance(arrays, list) else arrays.shape
            assert layer.compute_output_shape(of_inputs) == output_shapes

        copy = type(layer).from_config(layer.get_config())
        assert copy.get_config() == layer.get_config()
        assert [v.path for v in layer.weights] == [v.path.replace(copy.name, layer.name) for v in _built(copy, tensors, arrays)]
        copy.set_weights(layer.get_weights())
        for a, b in zip(_list(copy(tensors if isinstance(arrays, list) else tensors[0])), _list(eager), strict=True):
            np.testing.assert_array_equal(_numpy(a), _numpy(b))

        if trains:
            _check_training(make, arrays, flat, dtypes)
    keras.config.set_dtype_policy("float32")


def _check_training(make, arrays, flat, dtypes):
    inputs = [keras.Input(a.shape[1:], dtype=d) for a, d in zip(flat, dtypes, strict=True)]
    layer = make()
    output = _list(layer(inputs if isinstance(arrays, list) else inputs[0]))[0]
    if len(output.shape) > 2:
        output = layers.MaskedGlobalMaxPool1D()(output)
    model = keras.Model(inputs if isinstance(arrays, list) else inputs[0], keras.layers.Dense(1, dtype="float32")(output))
    # A scaled loss overflows float16 in its first steps, which are then skipped: this is one step.
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", auto_scale_loss=False)
    before = [np.array(w) for w in layer.get_weights()]
    loss = model.train_on_batch(tuple(flat) if isinstance(arrays, list) else flat[0], np.full((len(flat[0]), 1), 3.0))
    assert np.isfinite(loss)
    if before:
        assert any((a != b).any() for a, b in zip(before, layer.get_weights(), strict=True)), "no weight moved"
    assert all(np.isfinite(w).all() for w in layer.get_weights())


def _built(layer, tensors, arrays):
    layer(tensors if isinstance(arrays, list) else tensors[0])
    return layer.weights


def _list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _numpy(x):
    return np.asarray(keras.ops.convert_to_numpy(x), "float64")


X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
IDS = np.array([[3, 1, 4, 0, 0], [2, 6, 5, 3, 1]], "int32")
TABLE = np.random.default_rng(1).normal(size=(8, 8)).astype("float32")
SINES = np.random.default_rng(2).normal(size=(10, 8)).astype("float32")
DIFFER = IDS[:, :, None] != IDS[:, None]
TASK = np.array([[1], [0]], "int32")
SAME = (2, 5, 8)
OF_IDS = {"input_dtypes": ["int32"]}
AND_IDS = {"input_dtypes": ["float32", "int32"]}
# JAX compiles no float16 attention for CPUs ("F16_F16_F32 is not supported by dot_general on CPU").
OF_ATTENTION = {"policies": POLICIES[:2] if keras.backend.backend() == "jax" else POLICIES}
ONCE = {"trains": False}  # an input without a batch axis, or no weight that a gradient reaches

# Layer and what is special: the settings, the inputs, the shapes of the outputs, and the options of `check_layer`.
CASES = {
    "Add": ({}, [X, X + 1], SAME, {}),
    "ConditionalRandomField": ({}, X[:, :4, :3] - 9, (2, 9, 3), {}),  # so that the maximum is a transition
    "Dense": ({"units": 2}, X[:, 0], (2, 2), {}),
    "DisentangledSelfAttention": ({"head_num": 2, "buckets": 4, "reach": 9}, [X, TABLE], SAME, {**OF_ATTENTION, **ONCE}),
    "DistanceEmbedding": ({"reach": 1}, X, (10, 8), ONCE),
    "Dropout": ({"rate": 0.2}, X, SAME, {}),
    "Embedding": ({"input_dim": 7, "output_dim": 8}, IDS, SAME, OF_IDS),
    "Extract": ({"index": 1}, X, (2, 8), {}),
    "FeedForward": ({"units": 16}, X, SAME, {}),
    "FeedForward, with dropout": ({"units": 16, "dropout_rate": 0.2, "activation": layers.gelu}, X, SAME, {}),
    "FeedForward, gated": ({"units": 16, "gated": True, "use_bias": False}, X, SAME, {}),
    "FirstFeatures": ({"width": 3}, X, (2, 5, 3), {}),
    "LayerNormalization": ({}, X, SAME, {}),
    "Masked": ({}, [X, IDS], SAME, AND_IDS),
    "Masked, with the positions": ({"return_masked": True}, [X, IDS], [SAME, (2, 5)], AND_IDS),
    "MaskedConv1D": ({"filters": 4, "kernel_size": 3}, X, (2, 3, 4), {}),
    "MaskedGlobalMaxPool1D": ({}, X, (2, 8), {}),
    "MaskedPositionPool1D": ({}, X, (2, 8), {}),
    "MaskedSquareRootPool1D": ({}, X, (2, 8), {}),
    "MultiHeadSelfAttention": ({"head_num": 2}, X, SAME, OF_ATTENTION),
    "MultiHeadSelfAttention, with dropout": ({"head_num": 2, "attention_dropout": 0.2}, X, SAME, OF_ATTENTION),
    "MultiHeadSelfAttention, causal": ({"head_num": 2, "history_only": True}, X, SAME, OF_ATTENTION),
    "MultiHeadSelfAttention, no bias": ({"head_num": 2, "use_bias": False, "activation": "relu"}, X, SAME, OF_ATTENTION),
    "MultiHeadSelfAttention, windowed": ({"head_num": 2, "window": 1, "rotary_theta": 10.0}, X, SAME, OF_ATTENTION),
    "PositionEmbedding": ({"input_dim": 6, "output_dim": 8, "mode": "add"}, X, SAME, {}),
    "PositionEmbedding, beside": ({"input_dim": 6, "output_dim": 8, "mode": "concat"}, X, (2, 5, 16), {}),
    "PositionEmbedding, of given ones": ({"input_dim": 6, "output_dim": 8, "mode": "expand"}, IDS, SAME, OF_IDS),
    "QueryEmbedding": ({}, X, SAME, ONCE),
    "RelativeEmbedding": ({"input_dim": 8, "output_dim": 8}, X, (8, 8), ONCE),
    "RelativeSelfAttention": (
        {"head_num": 2, "use_bias": False},
        [X, SINES, DIFFER],
        SAME,
        {**OF_ATTENTION, **ONCE, "input_dtypes": ["float32", "float32", "bool"]},
    ),
    "ResidualDense": ({"units": 8, "activation": "tanh"}, X, SAME, {}),
    "ResidualDense, with a matrix": ({"units": 3, "activation": "relu", "use_bias": False}, X, (2, 5, 3), {}),
    "RMSNormalization": ({"epsilon": 1e-5}, X, SAME, {}),
    "ScoredTokens": ({}, [X, IDS], SAME, AND_IDS),
    "SegmentDifference": ({}, IDS, (2, 5, 5), {**OF_IDS, **ONCE}),
    "TaskEmbedding": ({"input_dim": 3, "output_dim": 8, "mask_zero": True}, [X, TASK], SAME, AND_IDS),
    "TokenEmbedding": ({"input_dim": 7, "output_dim": 8, "mask_zero": True}, IDS, [SAME, (7, 8)], OF_IDS),
    "TokenEmbedding, with a mask": (
        {"input_dim": 7, "output_dim": 8},
        [IDS, IDS * 0 + 1],
        [SAME, (7, 8)],
        {"input_dtypes": ["int32", "int32"]},
    ),
    "TrigPosEmbedding": ({"output_dim": 8}, X, SAME, {}),
    "TrigPosEmbedding, beside": ({"output_dim": 8, "mode": "concat"}, X, (2, 5, 16), {}),
    "WithoutLeadingTokens": ({"count": 2}, X, SAME, {}),
}
# Layers that need a mask, or two inputs without a batch axis, and have tests of their own.
APART = {"EmbeddingSimilarity", "ExtractFirsts"}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_meets_the_contract(case):
    settings, arrays, shapes, options = CASES[case]
    make = getattr(layers, case.partition(",")[0])
    check_layer(lambda **names: make(**settings, **names), arrays, shapes, **options)


def test_every_layer_has_a_case():
    public = {name for name, value in vars(layers).items() if isinstance(value, type) and issubclass(value, keras.layers.Layer)}
    assert public == {case.partition(",")[0] for case in CASES} | APART


@pytest.mark.parametrize("use_bias", [True, False])
def test_a_copy_of_embedding_similarity_gives_the_same_probabilities(use_bias):
    batch = np.stack([TABLE[:2], TABLE[:2]])
    layer = layers.EmbeddingSimilarity(use_bias=use_bias)
    probabilities = keras.ops.convert_to_numpy(layer([batch, TABLE]))
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-6)
    copy = layers.EmbeddingSimilarity.from_config(layer.get_config())
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(copy([batch, TABLE])), probabilities)
