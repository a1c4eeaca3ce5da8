"""The encoder of a model as an object: its blocks, and runs outside of the model that compute what it computes."""

import itertools

import keras
import numpy as np
import pytest
from helpers.gradients import value_and_gradients
from helpers.small import HEADS, small_batch, small_model, spread
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.kernels.real_tokens import RealTokens
from keras_bert_rebuild.layers import FeedForward, MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import PLAIN, executing
from keras_bert_rebuild.models.encoder_view import REMATERIALISED, EncoderView, on_tokens_alone
from keras_bert_rebuild.models.find_encoder import find_encoder

SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
}
SHARED = {"family": "albert", "num_hidden_layers": 4, "num_hidden_groups": 2, "embedding_size": 8}


def inputs_of(model, rng):
    """Rows of several lengths by name."""
    ids = rng.integers(5, 12, (3, 9))
    for row, length in enumerate((9, 5, 2)):
        ids[row, length:] = model.get_layer("Embedding-Token").pad_id
    zeros = np.zeros_like(ids)
    segments = zeros.copy()
    segments[:, 3:] = model.config.type_vocab_size > 1
    known = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": zeros}
    return {tensor.name: known.get(tensor.name, zeros) for tensor in model.inputs}


def array(tensor):
    return ops.convert_to_numpy(ops.stop_gradient(tensor))


@pytest.mark.parametrize("module", modules(), ids=name_of_module)
def test_a_run_of_any_family_gives_what_the_model_gives(module, rng):
    model = spread(build_model(tiny_config(module)), rng)
    view, inputs = EncoderView(model), inputs_of(model, rng)
    expected = array(model(bare_if_one([inputs[tensor.name] for tensor in model.inputs]), training=False))
    real = inputs["Input-Token"] != model.config.pad_token_id
    np.testing.assert_allclose(array(view.run(inputs))[real], expected[real], atol=2e-5)
    np.testing.assert_allclose(array(view.run(inputs, REMATERIALISED))[real], expected[real], atol=2e-5)
    states = [*view.states(view.embed(inputs), final_norm=True)]
    assert len(states) == 1 + model.config.num_hidden_layers
    np.testing.assert_allclose(array(states[-1])[real], expected[real], atol=2e-5)
    if view.runs_on_tokens_alone and keras.config.backend() != "jax":
        alone = view.run(inputs, on_tokens_alone(RealTokens(ops.convert_to_tensor(real))))
        np.testing.assert_allclose(array(alone)[real], expected[real], atol=2e-5)


@pytest.mark.parametrize("changes", [{}, SHARED], ids=["bert", "shared blocks"])
def test_every_execution_has_the_same_gradients(changes, rng):
    view = EncoderView(spread(build_model(BertConfig(**{**SIZES, **changes})), rng))
    start = view.embed(inputs_of(view.host, rng))
    upstream = rng.normal(size=tuple(start.x.shape)) * array(start.mask)[..., None]
    ways = [PLAIN, REMATERIALISED]
    if keras.config.backend() != "jax":  # which compiles a program for each number of rows
        ways.append(on_tokens_alone(RealTokens(start.mask)))

    def run(execution):
        def through(x):
            with executing(*execution.rules):
                return view.through_blocks(start._replace(x=x))

        return value_and_gradients(through, upstream, array(start.x), dtype="float32")

    expected, real = run(PLAIN), array(start.mask)
    for way in ways:
        for one, other in zip(run(way), expected, strict=True):
            np.testing.assert_allclose(one[real], other[real], atol=2e-5)


def halved(plain, layer, *arguments, **options):
    """An intervention on the heads of every block."""
    return plain(layer, *arguments, **options) * 0.5


def doubled(plain, layer, *arguments, **options):
    """An intervention on the units of every block."""
    return plain(layer, *arguments, **options) * 2


INTERVENTIONS = {
    "heads": ((MultiHeadSelfAttention.attend, halved),),
    "units": ((FeedForward.inner, doubled),),
}
RULES = ("rematerialised", "attention map", *INTERVENTIONS)
# A rule that is added within a run of tokens alone gets their rows, and no layout of a batch.
PAIRS = [*itertools.permutations(RULES, 2), *((rule, "tokens alone") for rule in RULES)]


@pytest.mark.parametrize("pair", PAIRS, ids=" in ".join)
def test_two_rules_of_any_kind_and_order_change_what_each_changes(pair, rng):
    view = EncoderView(spread(build_model(BertConfig(**SIZES)), rng))
    start, maps = view.embed(inputs_of(view.host, rng)), []
    real = array(start.mask)
    upstream = rng.normal(size=tuple(start.x.shape)) * real[..., None]

    def recorded(plain, layer, query, key, value, mask=None, training=None):
        maps.append(layer.probabilities(query, key, mask).shape)
        return plain(layer, query, key, value, mask, training)

    if "tokens alone" in pair and keras.config.backend() == "jax":
        pytest.skip("JAX compiles a program for each number of rows")
    rules = {
        **INTERVENTIONS,
        "rematerialised": REMATERIALISED.rules,
        "tokens alone": on_tokens_alone(RealTokens(start.mask)).rules,
        "attention map": ((MultiHeadSelfAttention.attend, recorded),),
    }

    def run(names):
        def through(x):
            with executing(*itertools.chain(*(rules[name] for name in names))):
                return view.through_blocks(start._replace(x=x))

        return value_and_gradients(through, upstream, array(start.x), dtype="float32")

    expected = run([name for name in pair if name in INTERVENTIONS])
    maps.clear()
    for one, other in zip(run(pair), expected, strict=True):
        np.testing.assert_allclose(one[real], other[real], atol=2e-5)
    assert set(maps) == ({(3, HEADS, 9, 9)} if "attention map" in pair else set())


def test_blocks_are_in_the_order_of_execution_with_the_anatomy_of_the_config():
    view = EncoderView(build_model(BertConfig(**{**SIZES, **SHARED}), ["mlm"]))
    assert view.numbers == [1, 1, 2, 2]
    assert [block.attention.name for block in view.blocks] == [f"Encoder-{n}-MultiHeadSelfAttention" for n in (1, 1, 2, 2)]
    assert view.heads == [(0, 1)] * 4
    assert (view.width, view.max_length, view.final_norm) == (16, 12, None)
    assert view.anatomy == view.host.config.encoder()
    assert find_encoder(view.host).numbers == view.numbers


def test_a_graph_without_a_config_is_read_from_its_connections(rng):
    model = spread(small_model(training=True), rng)
    (ids, segments, chosen), _ = small_batch(rng, 2)
    for last, count in (("Encoder-2-FeedForward-Norm", 2), ("Encoder-1-FeedForward-Norm", 1)):
        part = keras.Model(model.inputs, model.get_layer(last).output)
        view = find_encoder(part)
        assert (view.anatomy, view.numbers) == (None, [*range(1, count + 1)])
        found = view.run({"Input-Token": ids, "Input-Segment": segments})
        np.testing.assert_allclose(array(found), array(part([ids, segments, chosen], training=False)), atol=2e-5)
    with pytest.raises(ValueError, match="expected a model with a config, from get_model"):
        EncoderView(part)


def test_only_some_blocks_run_and_no_gradient_flows_if_unwanted(rng):
    view = EncoderView(spread(build_model(BertConfig(**SIZES)), rng))
    start = view.embed(inputs_of(view.host, rng))
    whole = [*view.states(start)]
    for last in (0, 1, 2):
        part = [*view.states(start, last, gradients=False)]
        assert len(part) == last + 1
        for one, other in zip(part, whole, strict=False):
            np.testing.assert_array_equal(array(one), array(other))


def test_blocks_with_other_layers_regularised_outputs_or_shared_distances_need_the_layout_of_the_batch():
    alone = lambda model: EncoderView(model).runs_on_tokens_alone  # noqa: E731
    assert alone(small_model())
    assert not alone(build_model(BertConfig(**{**SIZES, "num_hidden_layers": 0}), ["mlm"]))
    relative = [module for module in modules() if tiny_config(module).encoder().relative is not None]
    assert relative
    assert not any(alone(build_model(tiny_config(module))) for module in relative)
    model = small_model()
    model.get_layer("Encoder-2-FeedForward").activity_regularizer = keras.regularizers.L2(0.1)
    assert not alone(model)
