"""Dense layers on JAX: activations and biases on a GPU, products of bfloat16 on a processor, with float32 sums."""

import functools

import keras
import numpy as np
import pytest
from helpers.kernel_checks import TOLERANCES, value_and_gradients
from keras import ops

pytestmark = pytest.mark.backend("jax")


@pytest.mark.parametrize("name", ["gelu", "gelu_erf"])
def test_an_activation_is_computed_again_and_in_float32(name, rng):
    import jax
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels.jax_dense import recomputed
    from keras_bert_rebuild.layers.activations import ACTIVATIONS

    plain = ACTIVATIONS[name]
    x, upstream = (jnp.asarray(3 * rng.standard_normal((64, 32)), "bfloat16") for _ in range(2))

    def both(function, *arrays):
        outputs, gradient = jax.vjp(function, arrays[0])
        return outputs, *gradient(arrays[1])

    program = str(jax.make_jaxpr(lambda *arrays: both(recomputed(plain), *arrays))(x, upstream))
    expensive = {"gelu": "tanh", "gelu_erf": "erf "}[name]
    assert program.count(expensive) == 2
    assert "optimization_barrier" in program
    exact = both(plain, x.astype("float32"), upstream.astype("float32"))
    for one, other, rounded in zip(both(recomputed(plain), x, upstream), exact, both(plain, x, upstream), strict=True):
        assert one.dtype == "bfloat16"
        errors = [np.abs(np.asarray(array, "float32") - np.asarray(other)).max() for array in (one, rounded)]
        assert errors[0] <= 2**-8 * np.abs(other).max()
        assert errors[0] <= errors[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_gradient_of_a_bias_is_summed_in_float32(dtype, rng):
    import jax
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels.jax_dense import product_with_bias

    dense = keras.layers.Dense(3, dtype=dtype)
    dense.build((None, 4))
    x = jnp.asarray(rng.standard_normal((8, 512, 4)), dtype)
    upstream = jnp.asarray(1 + 0.1 * rng.standard_normal((8, 512, 3)), dtype)

    def outputs(bias):
        with keras.StatelessScope(state_mapping=[(dense.bias, bias)]):
            return product_with_bias(None, dense, x)

    found, gradient = jax.vjp(outputs, dense.bias.value)
    np.testing.assert_array_equal(found, dense(x))
    exact = np.asarray(upstream, "float64").sum((0, 1))
    rounding = {"bfloat16": 2**-9, "float16": 2**-12, "float32": 1e-6}[dtype]
    np.testing.assert_allclose(np.asarray(gradient(upstream)[0], "float64"), exact, rtol=2 * rounding)


@pytest.fixture(autouse=True)
def on_a_processor(monkeypatch):
    """On a GPU, too, where the values are the same."""
    from keras_bert_rebuild.kernels import jax_dense

    monkeypatch.setattr(jax_dense, "is_on_processor", lambda: True)


# The shapes of two factors, the axes to sum over and the number of batch axes, and the same for NumPy.
LAYOUTS = {
    "rows by columns": ((3, 5, 8), (8, 6), (2,), (0,), 0, "abk,kn->abn"),
    "rows by rows": ((5, 8), (6, 8), (1,), (1,), 0, "ak,nk->an"),
    "over all tokens": ((3, 5, 8), (3, 5, 6), (0, 1), (0, 1), 0, "abk,abn->kn"),
    "over all rows": ((5, 8), (5, 6), (0,), (0,), 0, "ak,an->kn"),
    "heads, rows by rows": ((2, 3, 5, 8), (2, 3, 6, 8), (3,), (3,), 2, "bhlk,bhsk->bhls"),
    "heads, rows by columns": ((2, 3, 5, 6), (2, 3, 6, 8), (3,), (2,), 2, "bhls,bhsk->bhlk"),
    "heads, over queries": ((2, 3, 5, 6), (2, 3, 5, 8), (2,), (2,), 2, "bhls,bhlk->bhsk"),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_is_that_of_numpy(layout, dtype, rng):
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels.jax_dense import product

    *shapes, x_axes, y_axes, batch, formula = LAYOUTS[layout]
    x, y = (jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes)
    found = product(x, y, x_axes, y_axes, batch)
    assert found.dtype == ("float32" if dtype == "bfloat16" else dtype)
    expected = np.einsum(formula, *(np.asarray(factor, "float64") for factor in (x, y)))
    # bfloat16 has factors of eight bits, whose products and few sums are exact to the bits of float32.
    np.testing.assert_allclose(np.asarray(found, "float64"), expected, atol=1e-2 if dtype == "float16" else 1e-5)


def test_a_sum_over_many_tokens_is_not_rounded_to_bfloat16_on_the_way():
    import jax
    import jax.numpy as jnp

    from keras_bert_rebuild.kernels.jax_dense import product_of_rows

    x, matrix = jnp.ones((4, 1024, 2), "bfloat16"), jnp.ones((2, 3), "bfloat16")
    _, gradients = jax.vjp(lambda x, matrix: product_of_rows(x, matrix, 0), x, matrix)
    np.testing.assert_array_equal(np.asarray(gradients(jnp.ones((4, 1024, 3), "float32"))[1], "float32"), 4096)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True], ids=["a mask of keys", "a mask of pairs"])
def test_attention_without_dropout_has_the_values_and_gradients_of_keras(pairs, rng):
    from keras_bert_rebuild.kernels.jax_dropout import attend

    mask = np.arange(6) < np.array([6, 4])[:, None]
    of_pairs = mask[:, None, None, :] & (np.tri(6, dtype=bool) if pairs else True)
    arrays, upstream = [rng.standard_normal((2, 6, 3, 8)) for _ in range(3)], rng.standard_normal((2, 6, 3, 8))
    plain = functools.partial(ops.dot_product_attention, mask=ops.convert_to_tensor(of_pairs))
    expected = value_and_gradients(plain, upstream, *arrays, dtype="float32")
    kernel = functools.partial(attend, mask=of_pairs if pairs else mask)
    for dtype in ("float32", "bfloat16"):
        for one, other in zip(value_and_gradients(kernel, upstream, *arrays, dtype=dtype), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2 * TOLERANCES[dtype] * max(1.0, np.abs(other).max()))


def dots(function, *arrays):
    """The types of the products in a compiled program and its gradients: those of their factors, and those of their results."""
    import re

    import jax

    def step(*arrays):
        outputs, gradients = jax.vjp(function, *arrays)
        return outputs, gradients(outputs)

    program = jax.jit(step).lower(*arrays).as_text()
    return re.findall(r"dot_general .* : \(tensor<[^>]*x(\w+)>, tensor<[^>]*x(\w+)>\) -> tensor<[^>]*x(\w+)>", program)


@pytest.mark.parametrize("kind", ["attention", "attention with dropout", "feed-forward", "vocabulary"])
def test_every_product_of_a_layer_in_training_takes_bfloat16_and_gives_float32(kind, rng):
    import jax.numpy as jnp

    from keras_bert_rebuild.layers import EmbeddingSimilarity, FeedForward, MultiHeadSelfAttention

    x, rate = jnp.asarray(rng.standard_normal((2, 6, 8)), "bfloat16"), 0.1 if kind.endswith("dropout") else 0.0
    with_policy = {"dtype": "mixed_bfloat16"}
    if kind == "vocabulary":
        layer, table = EmbeddingSimilarity(**with_policy), jnp.asarray(rng.standard_normal((11, 8)), "bfloat16")
        layer.build([(None, None, 8), (11, 8)])
        found = dots(lambda x, table: layer([x, table], return_logits=True), x, table)
        assert len(found) == 3
    else:
        attention = kind.startswith("attention")
        layer = MultiHeadSelfAttention(2, attention_dropout=rate, **with_policy) if attention else FeedForward(16, **with_policy)
        layer.build((None, None, 8))
        # The gradient of attention computes scores again.
        found = dots(lambda x: layer(x, training=True), x)
        assert len(found) == (4 * 2 + 2 + 5 if attention else 4)
    assert set(found) == {("bf16", "bf16", "f32")}


@pytest.mark.slow
def test_a_step_in_bfloat16_changes_weights_as_one_in_float32_does(rng):
    """Through blocks, attention with padding and the head over the vocabulary."""
    from keras_bert_rebuild import get_model

    tokens = rng.integers(5, 60, (4, 12))
    tokens[1, 7:] = 0
    inputs, labels, changes = [tokens, np.zeros_like(tokens), np.ones_like(tokens)], rng.integers(5, 60, (4, 12)), {}
    for policy in ("float32", "mixed_bfloat16"):
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(3)
        model = get_model(
            60, pos_num=12, seq_len=12, embed_dim=32, transformer_num=2, head_num=4, feed_forward_dim=64, dropout_rate=0.0
        )
        model = keras.Model(model.inputs, model.outputs[0])
        before = [weight.numpy() for weight in model.weights]
        model.compile(keras.optimizers.SGD(1.0), "sparse_categorical_crossentropy")
        model.train_on_batch(inputs, labels)
        changes[policy] = [weight.numpy() - one for weight, one in zip(model.weights, before, strict=True)]
    for one, exact in zip(*reversed(changes.values()), strict=True):
        assert np.linalg.norm(one - exact) <= 0.03 * np.linalg.norm(exact) + 1e-4
