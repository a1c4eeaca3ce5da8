"""`keras_bert_rebuild.backend` and `activations`, as keras_bert's users import them."""

import keras
import numpy as np
import pytest

import keras_bert_rebuild
from keras_bert_rebuild.activations import gelu
from keras_bert_rebuild.activations.gelu_fallback import gelu as gelu_fallback
from keras_bert_rebuild.activations.gelu_tensorflow import gelu as gelu_tensorflow
from keras_bert_rebuild.backend import GONE, OTHER, SAME
from keras_bert_rebuild.backend import backend as K  # noqa: N812

pytestmark = pytest.mark.backend

X = np.array([[0.25, 0.5, 0.75], [0.125, 1.0, 2.0]], "float32")
Y = np.array([[1.0, 0.5, 0.25], [2.0, 1.0, 0.5]], "float32")

# Name, arguments, and the result of Keras 2, in NumPy.
CALLS = (
    ("argmax", (X,), X.argmax(-1)),
    ("argmin", (X,), X.argmin(-1)),
    ("cast", (X, "int32"), X.astype("int32")),
    ("clip", (X, 0.3, 1.5), X.clip(0.3, 1.5)),
    ("concatenate", ([X, Y],), np.concatenate([X, Y], -1)),
    ("constant", ([1.0, 2.0],), np.array([1.0, 2.0])),
    ("cumprod", (X,), X.cumprod(0)),
    ("cumsum", (X,), X.cumsum(0)),
    ("dot", (X, Y.T), X @ Y.T),
    ("equal", (X, Y), X == Y),
    ("expand_dims", (X,), X[..., None]),
    ("flatten", (X,), X.ravel()),
    ("gather", (X, np.array([1, 0, 1])), X[[1, 0, 1]]),
    ("get_value", (X,), X),
    ("l2_normalize", (X, -1), X / np.linalg.norm(X, axis=-1, keepdims=True)),
    ("max", (X, 1), X.max(1)),
    ("maximum", (X, Y), np.maximum(X, Y)),
    ("mean", (X, 1), X.mean(1)),
    ("mean", (X,), X.mean()),
    ("not_equal", (X, Y), X != Y),
    ("one_hot", (np.array([2, 0]), 3), np.eye(3)[[2, 0]]),
    ("permute_dimensions", (X, (1, 0)), X.T),
    ("pow", (X, 2.0), X**2),
    ("relu", (X - 0.5,), np.maximum(X - 0.5, 0)),
    ("repeat_elements", (X, 2, 1), X.repeat(2, 1)),
    ("reshape", (X, (3, 2)), X.reshape(3, 2)),
    ("softmax", (X,), np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
    ("square", (X,), X**2),
    ("squeeze", (X[..., None], -1), X),
    ("stack", ([X, Y],), np.stack([X, Y])),
    ("std", (X, 1), X.std(1)),
    ("sum", (X, -1, True), X.sum(-1, keepdims=True)),
    ("tile", (X, (2, 1)), np.tile(X, (2, 1))),
    ("zeros_like", (X,), X * 0),
)


@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_functions_of_the_old_backend_give_the_same_results(name, arguments, expected):
    tensors = keras.tree.map_structure(lambda a: keras.ops.convert_to_tensor(a) if isinstance(a, np.ndarray) else a, arguments)
    got = keras.ops.convert_to_numpy(getattr(K, name)(*tensors))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_what_is_listed_as_unchanged_exists():
    assert all(hasattr(keras.ops, name) for name in SAME)
    assert not {*SAME} & {*OTHER}
    assert not {*SAME, *OTHER} & {*GONE}
    assert {"mean", "int_shape", "epsilon"} <= {*dir(K)}


def test_what_keras_3_still_has_in_its_backend_is_its_own():
    assert K.backend() == keras.config.backend()
    assert K.epsilon() == keras.config.epsilon()
    assert K.floatx() == "float32"


def test_the_rate_of_an_optimizer_is_read_and_set_as_it_was():
    optimizer = keras_bert_rebuild.AdamWarmup(10, 2, lr=0.5)
    K.set_value(optimizer.lr, 0.125)
    assert K.get_value(optimizer.lr) == np.float32(0.125)
    variable = K.variable([1.0, 2.0], name="steps")
    K.update_add(variable, [1.0, 1.0])
    assert K.get_value(variable).tolist() == [2.0, 3.0]
    assert K.int_shape(variable) == (2,)
    assert K.dtype(variable) == "float32"


@pytest.mark.parametrize("name", GONE)
def test_removed_functions_are_named_with_their_replacement(name):
    with pytest.raises(AttributeError, match=rf"Keras 3 has no K\.{name}; its replacement is "):
        getattr(K, name)


def test_an_unknown_function_is_an_attribute_error():
    assert not hasattr(K, "symbolic")
    with pytest.raises(AttributeError, match=r"Keras 3 has no K\.ctc_decode; functions of tensors are in keras\.ops"):
        K.ctc_decode  # noqa: B018


def test_a_layer_of_the_old_backend_works_in_a_graph():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: K.mean(x, axis=-1, keepdims=True), output_shape=(1,))(inputs))
    np.testing.assert_allclose(model.predict(X, verbose=0), X.mean(-1, keepdims=True), rtol=1e-6)


def test_the_forms_of_gelu_are_distinguished_by_their_modules():
    x = keras.ops.convert_to_tensor([-1.0, 1.0])
    tanh, erf = [-0.15880796, 0.841192], [-0.15865526, 0.8413447]
    for function, expected in ((gelu, tanh), (gelu_fallback, tanh), (gelu_tensorflow, erf)):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(function(x)), expected, atol=1e-6)


def test_the_names_of_activations_in_old_files_are_known():
    objects = keras_bert_rebuild.get_custom_objects()
    assert objects["gelu_fallback"] is gelu
    assert objects["gelu_tensorflow"] is gelu_tensorflow


def test_custom_objects_can_be_set_for_the_process():
    before = dict(keras.saving.get_custom_objects())
    try:
        keras_bert_rebuild.set_custom_objects()
        known = keras.saving.get_custom_objects()
        assert known["TokenEmbedding"] is keras_bert_rebuild.layers.TokenEmbedding
        assert {*keras_bert_rebuild.bert.get_encoder_custom_objects()} <= {*known}
    finally:
        keras.saving.get_custom_objects().clear()
        keras.saving.get_custom_objects().update(before)
