"""The encoder of a model as an object: its blocks, and runs outside of it, also rematerialised, that compute the same."""

import functools
import itertools

import keras
import numpy as np
import pytest
from helpers.kernel_checks import value_and_gradients
from helpers.small import HEADS, LENGTH, VOCAB, compiled, small_batch, small_model, spread
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.kernels.token_layout import TokenLayout
from keras_bert_rebuild.layers import FeedForward, MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.encoder_blocks import Context, run_block
from keras_bert_rebuild.models.encoder_view import REMATERIALISED, EncoderView, on_tokens_alone
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.models.rematerialised import rematerialised

pytestmark = pytest.mark.backend

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
        alone = view.run(inputs, on_tokens_alone(TokenLayout(ops.convert_to_tensor(real))))
        np.testing.assert_allclose(array(alone)[real], expected[real], atol=2e-5)


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
        "tokens alone": on_tokens_alone(TokenLayout(start.mask)).rules,
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


SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": LENGTH + 2,
}
REMATERIALISED_MODELS = {
    "bert": ({"attention_probs_dropout_prob": 0.1, "labels": ("a", "b")}, ("mlm", "nsp", "classification")),
    "albert": ({"family": "albert", "num_hidden_layers": 2, "num_hidden_groups": 1, "embedding_size": 8}, ("mlm", "sop")),
    "roberta": ({"family": "roberta", "type_vocab_size": 0, "pad_token_id": 1, "position_offset": 2}, ("mlm",)),
    "no blocks": ({"num_hidden_layers": 0}, ("mlm",)),
    "adapters": ({"adapter_size": 3}, ("mlm",)),
}


def family_batch(config, model, rng):
    (ids, segments, chosen), (labels, pair) = small_batch(rng)
    ids[ids == 0] = config.pad_token_id
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": chosen}
    x = tuple(given[tensor.name] for tensor in model.inputs)
    return x, {head: labels if head == "MLM" else pair for head in model.output_names}


@pytest.mark.slow
@pytest.mark.parametrize("family", REMATERIALISED_MODELS)
def test_a_step_with_dropout_is_the_step_without_it(family, rng):
    changes, heads = REMATERIALISED_MODELS[family]
    config = BertConfig(**{**SMALL, **changes})
    weights, results = None, []
    for remat in (False, True):
        keras.utils.set_random_seed(3)  # the same seeds of dropout
        model = build_model(config, heads, seq_len=LENGTH)
        weights = weights or spread(model, rng).get_weights()
        model.set_weights(weights)
        compiled(model, max_predictions=4, remat=remat, optimizer=keras.optimizers.SGD(1.0), metrics=None)
        x, y = family_batch(config, model, np.random.default_rng(5))
        loss = model.train_on_batch(x, y)
        results.append((float(np.ravel(loss)[0]), model.get_weights(), seeds_of(model)))
    (loss, plain, seeds), (remat_loss, with_remat, remat_seeds) = results
    assert remat_loss == pytest.approx(loss, rel=1e-6)
    for one, other in zip(plain, with_remat, strict=True):
        np.testing.assert_allclose(other, one, atol=2e-6)
    np.testing.assert_array_equal(remat_seeds, seeds)


def seeds_of(model):
    return [keras.ops.convert_to_numpy(v).astype("int64") for v in model.variables if v.name == "seed_generator_state"]


@pytest.mark.slow
def test_dropout_seeds_advance_as_without_rematerialisation(rng):
    (block,) = EncoderView(small_model(dropout_rate=0.5, transformer_num=1)).blocks
    layers = block.layers
    x = keras.ops.convert_to_tensor(rng.normal(size=(2, LENGTH, 16)).astype("float32"))
    mask = keras.ops.ones((2, LENGTH), "bool")
    states = [v for layer in layers for v in layer.variables if v.name == "seed_generator_state"]
    before = [keras.ops.convert_to_numpy(state).copy() for state in states]
    runs = []
    run = functools.partial(run_block, block, context=Context(mask=mask, training=True))
    for function in (run, rematerialised(layers, run)):
        keras.utils.set_random_seed(1)
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        runs.append([keras.ops.convert_to_numpy(function(x)) for _ in range(2)])
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-6)
    assert np.abs(runs[0][0] - runs[0][1]).max() > 0.1


@pytest.mark.slow
def test_layers_paths_and_outputs_do_not_change(rng, tmp_path):
    x, y = small_batch(rng)
    model = small_model(transformer_num=1)
    rows = summary(model)
    compiled(model, max_predictions=4, loss_chunk=9, remat=True)
    model.train_on_batch(x, y)
    assert summary(model) == rows
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.remat
    assert again.loss[0].chunk == 9
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    for one, other in zip(model.predict(x, verbose=0), again.predict(x, verbose=0), strict=True):
        np.testing.assert_array_equal(one, other)


def summary(model):
    rows = []
    model.summary(print_fn=lambda row, **_: rows.append(row))
    return "".join(rows).split("Total params")[0]  # the lines after that count the optimizer


def test_files_of_other_models_do_not_mention_rematerialisation():
    assert "remat" not in small_model(transformer_num=1).get_config()
