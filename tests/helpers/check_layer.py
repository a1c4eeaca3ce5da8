"""The contract of every layer, checked in one call."""

import keras
import numpy as np

from keras_bert_rebuild.layers import MaskedGlobalMaxPool1D

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
        output = MaskedGlobalMaxPool1D()(output)
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
