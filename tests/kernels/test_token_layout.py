"""A training step that leaves out padding has the values and gradients at tokens of one that does not."""

import functools
from unittest import mock

import keras
import numpy as np
import pytest
from helpers.kernel_checks import chosen_kernel, value_and_gradients
from helpers.small import compiled, small_batch, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_bert_rebuild import BertConfig, build_model, compile_model
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.families.modernbert import ModernBertConfig
from keras_bert_rebuild.kernels import token_layout, traits
from keras_bert_rebuild.kernels.token_layout import SIZES, TokenLayout, tokens_alone
from keras_bert_rebuild.layers import Dropout, FeedForward, LayerNormalization, MaskedConv1D, MultiHeadSelfAttention
from keras_bert_rebuild.layers.activations import gelu
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models import pretraining_graph
from keras_bert_rebuild.models.pretraining_model import reads_padding
from keras_bert_rebuild.models.replaced_token_model import build_replaced_token_model
from keras_bert_rebuild.models.step_plan import BLOCKS, FEED_FORWARD

pytestmark = pytest.mark.backend("tensorflow", "torch")

SIZES_OF_MODEL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 60}


def mask_of(lengths, longest):
    return np.arange(longest) < np.array(lengths)[:, None]


def on_tokens_alone(function, x, mask):
    """function(x) of the tokens alone, with any numbers at padding."""
    tokens = TokenLayout(mask)
    return tokens.padded(function(tokens.rows(x)))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_values_and_gradients_at_tokens_are_those_of_the_definition(lengths, seed):
    rng, mask = np.random.default_rng(seed), mask_of(lengths, 20)
    x, kernel, upstream = (rng.standard_normal(shape) for shape in ((len(lengths), 20, 6), (6, 6), (len(lengths), 20, 6)))
    upstream *= mask[..., None]

    def function(x, kernel):
        return on_tokens_alone(lambda rows: ops.tanh(ops.matmul(rows, kernel)), x, ops.convert_to_tensor(mask))

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
        seen.add(int(ops.shape(rows)[1]))
        return rows

    for count in range(4 * length + 1):
        mask = np.arange(4 * length).reshape(4, length) < count
        outputs = on_tokens_alone(function, ops.ones((4, length, 3)), ops.convert_to_tensor(mask))
        np.testing.assert_array_equal(ops.convert_to_numpy(outputs)[mask], 1)
    assert len(seen) <= SIZES
    assert max(seen) == 4 * length


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_attention_of_tokens_alone_has_the_values_and_gradients_of_a_batch(lengths, seed):
    rng, mask = np.random.default_rng(seed), mask_of(lengths, 20)
    x, upstream = (rng.standard_normal((len(lengths), 20, 8)) for _ in range(2))
    layer = MultiHeadSelfAttention(2, rotary_theta=100.0)
    layer.build((None, None, 8))

    def alone(x):
        tokens = TokenLayout(ops.convert_to_tensor(mask))
        with executing(*tokens.rules):
            return tokens.padded(layer(tokens.rows(x), training=True))

    upstream *= mask[..., None]
    found = value_and_gradients(alone, upstream, x, dtype="float32")
    expected = value_and_gradients(lambda x: layer(x, ops.convert_to_tensor(mask)), upstream, x, dtype="float32")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[mask], other[mask], rtol=0, atol=1e-5)
    assert not found[1][~mask].any()


@pytest.fixture
def seen(monkeypatch):
    """What left out padding, `blocks` or `feed-forward`, in models of any width."""
    if traits.runs_on_accelerator():
        pytest.skip("models leave out padding on processors only")
    names = []

    def noted(name, width, mask):
        tokens = tokens_alone(width, mask)
        if tokens is not None:
            names.append(name)
        return tokens

    monkeypatch.setattr(pretraining_graph, "tokens_alone", functools.partial(noted, "blocks"))
    monkeypatch.setattr(token_layout, "tokens_alone", functools.partial(noted, "feed-forward"))
    monkeypatch.setattr(token_layout, "WIDE", 1)
    return names


def trained(model, x, y, steps=3):
    """Losses of steps, and the weights after them."""
    losses = [model.train_on_batch(x, y)[0] for _ in range(steps)]
    return losses, [ops.convert_to_numpy(variable) for variable in model.trainable_variables]


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# What leaves out padding, and a model.
LEARNING = {
    "pairs": ("blocks", small_model),
    "adapters": ("blocks", lambda: small_model(adapter_units=3)),
    "no pairs": ("blocks", lambda: build_model(BertConfig(**SIZES_OF_MODEL, **NO_DROPOUT), ["mlm"])),
    "one block twice": (
        "blocks",
        lambda: build_model(BertConfig(**SIZES_OF_MODEL, **NO_DROPOUT, family="albert", num_hidden_groups=1), ["mlm", "sop"]),
    ),
    "rotary positions, windows, norms first": (
        "blocks",
        lambda: build_model(
            ModernBertConfig(**SIZES_OF_MODEL, pad_token_id=0, global_attn_every_n_layers=2, local_attention=4), ["mlm"]
        ),
    ),
    # Its attention needs the layout of the batch, so its dropout has the same bits.
    "relative positions": ("feed-forward", lambda: build_model(DebertaV2Config(**SIZES_OF_MODEL), ["mlm"])),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNING)
def test_a_pretraining_model_learns_the_same(kind, seen, monkeypatch, rng):
    part, make = LEARNING[kind]
    (ids, segments, chosen), (labels, following) = small_batch(rng, padding=5)
    ids[2, 3:], chosen[2, 3:] = 0, 0  # uneven

    def answer():
        keras.utils.set_random_seed(4)
        model = make()
        given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": chosen}
        x, y = [given[tensor.name] for tensor in model.inputs], [labels, following][: len(model.outputs)]
        return trained(compiled(model, max_predictions=4), x, y)

    losses, weights = answer()
    assert set(seen) == {part}
    seen.clear()
    monkeypatch.setattr(token_layout, "WIDE", 1000)
    expected, others = answer()
    assert not seen
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_dropout_differs_by_token_and_step_and_depends_on_the_seed_alone(seen, rng):
    x, (labels, _) = small_batch(rng)

    def losses(dropout):
        keras.utils.set_random_seed(4)
        config = BertConfig(**SIZES_OF_MODEL, **dict.fromkeys(NO_DROPOUT, dropout))
        model = compiled(build_model(config, ["mlm"]), max_predictions=4, optimizer=keras.optimizers.SGD(0.0))
        return [model.train_on_batch(x, labels)[0] for _ in range(3)]

    dropped = losses(0.3)
    assert dropped == losses(0.3)
    assert len(set(dropped)) == 3
    assert len(set(losses(0.0))) == 1
    tokens = TokenLayout(ops.ones((2, 4), "bool"))
    rows = ops.convert_to_numpy(Dropout(0.5)(tokens.rows(ops.ones((2, 4, 64))), training=True))[0]
    assert len({tuple(row) for row in rows}) == 8


def test_an_intervention_gets_the_layout_of_the_batch(seen, rng):
    x, y = small_batch(rng)
    model = compiled(small_model(), max_predictions=4, run_eagerly=True)
    model.train_on_batch(x, y)
    assert set(seen) == {"blocks"}
    seen.clear()
    shapes, norm = [], model.get_layer("Encoder-1-FeedForward-Norm")

    def noted(replaced, layer, *arguments, **options):
        values = replaced(layer, *arguments, **options)
        if layer is norm:
            shapes.append(tuple(values.shape))
        return values

    with executing((LayerNormalization.call, noted)):
        model.train_on_batch(x, y)
    assert shapes == [(8, 12, 16)]
    assert not seen


@pytest.mark.slow
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
    assert model._plan.without_padding is None
    plain = compile_model(build_model(BertConfig(**SIZES_OF_MODEL), ["mlm"]), max_predictions=4)
    assert plain._plan.without_padding == (None if traits.runs_on_accelerator() else BLOCKS)


def test_a_model_with_distances_between_tokens_leaves_padding_out_of_its_feed_forward_networks():
    model = compile_model(build_model(DebertaV2Config(**SIZES_OF_MODEL), ["mlm"]), max_predictions=4)
    assert model._plan.without_padding == (None if traits.runs_on_accelerator() else FEED_FORWARD)


class OfUser(keras.layers.Layer):
    """It may do anything."""


def test_layers_of_users_and_convolutions_may_read_padding():
    assert all(map(reads_padding, (OfUser(), keras.layers.Conv1D(4, 3), MaskedConv1D(4, 3))))
    assert not any(map(reads_padding, build_model(BertConfig(**SIZES_OF_MODEL), ["mlm", "nsp"]).layers))


def test_a_model_compiled_as_a_whole_computes_padding():
    assert compile_model(small_model(), max_predictions=4, jit_compile=True)._plan.without_padding is None


def test_rows_of_several_sequences_are_computed_as_a_whole(monkeypatch):
    numbers, mask = np.array([[1, 1, 2, 0]], "int32"), np.array([[True, True, True, False]])
    assert chosen_kernel(tokens_alone, 8, mask) is None
    monkeypatch.setattr(token_layout, "WIDE", 1)
    assert chosen_kernel(tokens_alone, 8, mask) == "token_layout.leave_out_padding"
    assert chosen_kernel(tokens_alone, 8, numbers) is None
    assert chosen_kernel(tokens_alone, 8, mask[:, None, None]) is None
    assert chosen_kernel(tokens_alone, 8, None) is None


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_a_feed_forward_network_of_tokens_alone_has_the_values_and_gradients_of_a_batch(lengths, seed):
    rng, mask = np.random.default_rng(seed), mask_of(lengths, 20)
    x, upstream = (rng.standard_normal((len(lengths), 20, 8)) for _ in range(2))
    upstream *= mask[..., None]
    layer, tensor = FeedForward(16, activation=gelu), ops.convert_to_tensor(mask)
    layer.build((None, None, 8))

    def alone(x):
        with mock.patch.object(token_layout, "WIDE", 1), executing((FeedForward.call, token_layout.feed_forward_of_tokens)):
            return layer(x, training=True, mask=tensor)

    found = value_and_gradients(alone, upstream, x, dtype="float32")
    expected = value_and_gradients(lambda x: layer(x, training=True), upstream, x, dtype="float32")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[mask], other[mask], rtol=0, atol=1e-5)
    assert not found[1][~mask].any()


@pytest.mark.parametrize(("options", "training"), [({"activation": "relu"}, True), ({"dropout_rate": 0.1}, True), ({}, False)])
def test_a_feed_forward_network_that_may_not_is_computed_with_padding(options, training, monkeypatch):
    monkeypatch.setattr(token_layout, "WIDE", 1)
    monkeypatch.setattr(token_layout, "tokens_alone", lambda width, mask: pytest.fail("it left out padding"))
    layer = FeedForward(16, **{"activation": gelu, **options})
    with executing((FeedForward.call, token_layout.feed_forward_of_tokens)):
        outputs = layer(ops.ones((2, 3, 8)), training=training, mask=ops.convert_to_tensor(mask_of([3, 1], 3)))
    assert tuple(outputs.shape) == (2, 3, 8)
