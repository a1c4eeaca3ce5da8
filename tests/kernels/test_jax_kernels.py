"""Attention on JAX with pairs or key lengths, as cuDNN takes them, equals attention with a mask."""

import keras
import numpy as np
import pytest
from helpers.plain_form import chosen as chosen_kernel
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.layers import MultiHeadSelfAttention

pytestmark = pytest.mark.backend("jax")

# Which tokens of two examples are not padding.
MASKS = {
    "no padding": ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
    "behind": ([1, 1, 1, 0, 0], [1, 1, 1, 1, 0]),
    "before": ([0, 0, 1, 1, 1], [1, 1, 1, 1, 1]),
    "between": ([1, 0, 1, 0, 1], [1, 1, 1, 0, 0]),
}


@pytest.mark.parametrize("name", ["attend_by_pairs", "attend_by_key_lengths"])
@pytest.mark.parametrize("where", MASKS)
def test_values_and_gradients_equal_those_with_the_mask(rng, where, name):
    import jax

    from keras_bert_rebuild.kernels import jax_kernels

    tensors = [rng.normal(size=(2, 5, 2, 8)).astype("float32") for _ in range(3)]
    mask, weights = np.array(MASKS[where], bool), rng.normal(size=(2, 5, 2, 8)).astype("float32")

    def by_kernel(*tensors):
        return (getattr(jax_kernels, name)(*tensors, mask, implementation="xla") * weights).sum()

    def by_mask(*tensors):
        return (keras.ops.dot_product_attention(*tensors, mask=mask[:, None, None, :]) * weights).sum()

    got, expected = (jax.value_and_grad(function, argnums=(0, 1, 2))(*tensors) for function in (by_kernel, by_mask))
    assert got[0] == pytest.approx(float(expected[0]), rel=1e-6)
    for one, other in zip(got[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_an_example_with_only_padding_is_finite(rng):
    from keras_bert_rebuild.kernels.jax_kernels import attend_by_key_lengths

    x = rng.normal(size=(2, 3, 1, 8)).astype("float32")
    answer = attend_by_key_lengths(x, x, x, np.array([[1, 1, 0], [0, 0, 0]], bool), implementation="xla")
    assert np.isfinite(answer).all()


@pytest.mark.slow
@pytest.mark.parametrize("remat", [False, True])
def test_a_training_step_is_the_same_without_a_branch(rng, monkeypatch, remat):
    from keras_bert_rebuild.kernels import jax_kernels

    x, y = small_batch(rng)
    weights, steps, used = small_model(transformer_num=1).get_weights(), [], []
    by_pairs = jax_kernels.attend_by_pairs

    def attend(*tensors):
        used.append(1)
        return by_pairs(*tensors, implementation="xla")

    monkeypatch.setattr(jax_kernels, "attend_by_pairs", attend)
    for has_kernel in (False, True):
        monkeypatch.setattr(jax_kernels, "has_fused_kernel", lambda query, has_kernel=has_kernel: has_kernel)
        model = compiled(small_model(transformer_num=1), max_predictions=4, remat=remat)
        model.set_weights(weights)
        steps.append((model.train_on_batch(x, y)[0], model.get_weights()))
        assert bool(used) == has_kernel
    assert steps[1][0] == pytest.approx(steps[0][0], rel=1e-6)
    for one, other in zip(steps[1][1], steps[0][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", ["attend_by_pairs", "attend_by_key_lengths"])
def test_no_kernel_branches_on_where_the_padding_is(name):
    import jax

    from keras_bert_rebuild.kernels import jax_kernels

    x, mask = np.zeros((2, 4, 1, 8), "float32"), np.ones((2, 4), bool)
    program = str(jax.make_jaxpr(lambda x, mask: getattr(jax_kernels, name)(x, x, x, mask, implementation="xla"))(x, mask))
    assert "cond[" not in program


def test_a_mask_of_pairs_is_made_for_even_lengths_where_it_is_smaller_than_the_keys(monkeypatch):
    from keras_bert_rebuild.kernels import jax_kernels, jax_trials

    monkeypatch.setattr(jax_kernels, "has_fused_kernel", lambda query: True)

    def chosen(length, mask="bool"):
        query = np.zeros((1, length, 2, 8), "float32")
        layer = MultiHeadSelfAttention(2)
        name = chosen_kernel(MultiHeadSelfAttention.attend, layer, query, query, query, np.ones((1, length), mask))
        return name.removeprefix("jax_attention.")

    assert [chosen(length) for length in (32, 33, 34)] == ["attend_by_pairs", "attend_by_key_lengths", "attend_by_key_lengths"]
    assert chosen(32, "int32") == "attend_by_pairs"
    monkeypatch.setattr(jax_trials, "has_flash", lambda query, dropout: True)
    assert [chosen(32, mask) for mask in ("int32", "bool")] == ["attend_by_sequences", "attend_by_pairs"]


def test_a_processor_has_no_such_kernel():
    from keras_bert_rebuild.kernels import traits
    from keras_bert_rebuild.kernels.jax_kernels import has_fused_kernel

    if traits.runs_on_accelerator():
        pytest.skip("this is no processor")
    assert not has_fused_kernel(keras.ops.zeros((1, 2, 1, 64), "bfloat16"))
