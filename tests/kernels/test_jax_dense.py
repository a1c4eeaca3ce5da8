"""Activations and biases on a GPU: computed again and in float32, and summed in float32, on any device."""

import keras
import numpy as np
import pytest

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
