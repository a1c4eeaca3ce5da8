"""A training step that leaves out padding has the values and gradients at tokens of one that does not."""

import keras
import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from helpers.small import compiled, small_batch, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_bert_rebuild import BertConfig, build_model, compile_model, kernels
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.kernels import conditions, real_tokens, traits
from keras_bert_rebuild.kernels.choice import choose
from keras_bert_rebuild.kernels.real_tokens import SIZES, of_real_tokens
from keras_bert_rebuild.layers import MaskedConv1D
from keras_bert_rebuild.models.pretraining_model import reads_padding
from keras_bert_rebuild.models.replaced_token_model import build_replaced_token_model

pytestmark = pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX compiles a program for each number of rows")

SIZES_OF_MODEL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 60}


def mask_of(lengths, longest):
    return np.arange(longest) < np.array(lengths)[:, None]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_values_and_gradients_at_tokens_are_those_of_the_definition(lengths, seed):
    rng, mask = np.random.default_rng(seed), mask_of(lengths, 20)
    x, kernel, upstream = (rng.standard_normal(shape) for shape in ((len(lengths), 20, 6), (6, 6), (len(lengths), 20, 6)))
    upstream *= mask[..., None]

    def function(x, kernel):
        return of_real_tokens(lambda rows: ops.tanh(ops.matmul(rows, kernel)), x, ops.convert_to_tensor(mask))

    found, of_x, of_kernel = value_and_gradients(function, upstream, x, kernel, dtype="float32")
    expected = np.tanh(x @ kernel)
    slope = (1 - expected**2) * upstream
    np.testing.assert_allclose(found[mask], expected[mask], rtol=0, atol=1e-5)
    np.testing.assert_allclose(of_x, slope @ kernel.T, rtol=0, atol=1e-4)
    np.testing.assert_allclose(of_kernel, np.einsum("bld,ble->de", x, slope), rtol=0, atol=1e-4)


@pytest.mark.parametrize("length", [32, 5, 33])
def test_a_shape_has_few_numbers_of_rows_and_a_full_batch_has_all(length):
    seen = set()

    def function(rows):
        seen.add(int(ops.shape(rows)[0]))
        return rows

    for count in range(4 * length + 1):
        mask = np.arange(4 * length).reshape(4, length) < count
        outputs = of_real_tokens(function, ops.ones((4, length, 3)), ops.convert_to_tensor(mask))
        np.testing.assert_array_equal(ops.convert_to_numpy(outputs)[mask], 1)
    assert len(seen - {0}) <= SIZES
    assert max(seen) == 4 * length


@pytest.fixture
def seen(monkeypatch):
    """The masks of calls that left out padding, in models of any width."""
    if traits.runs_on_accelerator():
        pytest.skip("models leave out padding on processors only")
    masks = []

    def noted(function, x, mask):
        masks.append(mask)
        return of_real_tokens(function, x, mask)

    monkeypatch.setattr(real_tokens, "of_real_tokens", noted)
    monkeypatch.setattr(conditions, "WIDE", 1)
    return masks


def trained(model, x, y, steps=3):
    """Losses of steps, and the weights after them."""
    losses = [model.train_on_batch(x, y)[0] for _ in range(steps)]
    return losses, [ops.convert_to_numpy(variable) for variable in model.trainable_variables]


@pytest.mark.parametrize("next_sentence", [True, False])
def test_a_pretraining_model_learns_the_same(next_sentence, seen, monkeypatch, rng):
    x, (labels, following) = small_batch(rng, padding=5)
    x[0][2, 3:], x[2][2, 3:] = 0, 0  # uneven
    y = [labels, following] if next_sentence else labels

    def answer():
        keras.utils.set_random_seed(4)
        model = small_model(dropout_rate=0.1) if next_sentence else build_model(BertConfig(**SIZES_OF_MODEL), ["mlm"])
        return trained(compiled(model, max_predictions=4), x, y)

    losses, weights = answer()
    assert len(seen) > 0
    seen.clear()
    monkeypatch.setattr(conditions, "WIDE", 1000)
    expected, others = answer()
    assert not seen
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_what_reads_padding_gets_all_of_it(seen, rng):
    x, y = small_batch(rng)
    model = compiled(small_model(), max_predictions=4)
    model.evaluate(x, y, verbose=0)
    model.predict_on_batch(x)
    model(x, training=True)
    encoder = build_model(BertConfig(**SIZES_OF_MODEL), ())
    encoder.compile(keras.optimizers.SGD(0.1), "mean_squared_error")  # over all positions
    encoder.train_on_batch(x[:2], np.zeros((8, 12, 16), "float32"))
    assert not seen
    model.train_on_batch(x, y)
    assert seen


OTHERS = {
    # Its loss is the user's.
    "a head of all tokens": lambda: build_model(BertConfig(**SIZES_OF_MODEL, labels=("a", "b")), ["mlm", "token_classification"]),
    "a convolution": lambda: build_model(DebertaV2Config(**SIZES_OF_MODEL, conv_kernel_size=3), ["mlm"]),
    "replaced tokens": lambda: build_replaced_token_model(BertConfig(**SIZES_OF_MODEL), BertConfig(**SIZES_OF_MODEL)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_models_that_read_padding_or_mix_neighbours_compute_it(kind):
    model = OTHERS[kind]()
    compile_model(model, max_predictions=4)
    assert not model._plan.skips_padding
    plain = compile_model(build_model(BertConfig(**SIZES_OF_MODEL), ["mlm"]), max_predictions=4)
    assert plain._plan.skips_padding == (not traits.runs_on_accelerator())


class OfUser(keras.layers.Layer):
    """It may do anything."""


def test_layers_of_users_and_convolutions_may_read_padding():
    assert all(map(reads_padding, (OfUser(), keras.layers.Conv1D(4, 3), MaskedConv1D(4, 3))))
    assert not any(map(reads_padding, build_model(BertConfig(**SIZES_OF_MODEL), ["mlm", "nsp"]).layers))


def test_a_model_compiled_as_a_whole_computes_padding():
    assert not compile_model(small_model(), max_predictions=4, jit_compile=True)._plan.skips_padding


def test_rows_of_several_sequences_are_computed_as_a_whole(monkeypatch):
    monkeypatch.setattr(conditions, "WIDE", 1)
    numbers, mask = np.array([[1, 1, 2, 0]], "int32"), np.array([[True, True, True, False]])
    with kernels.padding_is_unread():
        assert choose("of_tokens", np.zeros((1, 4, 8)), mask) is not None
        assert choose("of_tokens", np.zeros((1, 4, 8)), numbers) is None
        assert choose("of_tokens", np.zeros((1, 4, 8)), None) is None
    assert choose("of_tokens", np.zeros((1, 4, 8)), mask) is None
