"""The two streams of an XLNet against NumPy, what no token may see, and a step that trains every weight."""

import functools
import math

import keras
import numpy as np
import pytest
from helpers.reference import cross_entropy, layer_norm, softmax, weights_of
from helpers.small import spread
from keras import ops

from keras_bert_rebuild import BertConfig, build_model, compile_model
from keras_bert_rebuild.layers import QueryEmbedding
from keras_bert_rebuild.models.permutation_model import build_permutation_model, hidden_by, run_two_streams

# Two models, or two streams, of every layer.
pytestmark = [pytest.mark.backend, pytest.mark.slow]

VOCAB, LENGTH, PAD = 40, 10, 0
CONFIG = BertConfig.from_dict(
    {
        "family": "xlnet",
        "vocab_size": VOCAB,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": LENGTH,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": PAD,
    }
)
# Columns of the tokens to predict, and their places in the order.
TARGETS, PLACES = [1, 3, 4, 6], [3, 1, 4, 2]


def make(rng):
    return spread(build_permutation_model(CONFIG), rng)


def batch(rng, rows=3):
    """Inputs and labels; the last two positions are padding."""
    tokens = rng.integers(5, VOCAB, (rows, LENGTH))
    tokens[:, -2:] = PAD
    order = np.zeros((rows, LENGTH), int)
    order[:, TARGETS] = PLACES
    segments = np.tile(np.arange(LENGTH) // 3, (rows, 1))
    return [array.astype("int32") for array in (tokens, segments, order, order > 0)], tokens[..., None].astype("int32")


erf = np.vectorize(math.erf)
norm = functools.partial(layer_norm, epsilon=CONFIG.layer_norm_eps)


def streams(model, tokens, segments, hidden):
    """Both streams in NumPy, of one text; the vectors of the queries at all positions."""
    w = weights_of(model)
    seen = (hidden == 0) & (tokens != PAD)[None]
    h, g = w["Embedding-Token/embeddings"][tokens], np.tile(w["Embedding-Query/vector"], (LENGTH, 1))
    heads, width, size = CONFIG.num_attention_heads, CONFIG.hidden_size, CONFIG.hidden_size // CONFIG.num_attention_heads
    distances = np.arange(LENGTH)[:, None] - np.arange(LENGTH)[None]
    angles = distances[..., None] / 10000 ** (np.arange(0, width, 2) / width)
    sines = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    other = (segments[:, None] != segments[None]).astype(int)

    def attend(block, queries, keys, visible):
        name = f"Encoder-{block}-MultiHeadSelfAttention"
        q, k, v, r = (
            (x @ w[f"{name}/{part}/kernel"]).reshape(*x.shape[:-1], heads, size)
            for x, part in ((queries, "query"), (keys, "key"), (keys, "value"), (sines, "position_key"))
        )
        u, at, of = (w[f"{name}/{part}_bias"].reshape(heads, size) for part in ("content", "position", "segment"))
        kinds = w[f"{name}/segment_embeddings"].reshape(2, heads, size)[other]
        scores = np.einsum("ihk,jhk->hij", q + u, k) + np.einsum("ihk,ijhk->hij", q + at, r)
        scores = (scores + np.einsum("ihk,ijhk->hij", q + of, kinds)) / np.sqrt(size)
        mixed = np.einsum("hij,jhk->ihk", softmax(np.where(visible, scores, -1e30)), v).reshape(LENGTH, width)
        x = norm(queries + mixed @ w[f"{name}/output/kernel"], w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"])
        name = f"Encoder-{block}-FeedForward"
        inner = x @ w[f"{name}/intermediate/kernel"] + w[f"{name}/intermediate/bias"]
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = x + inner @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]
        return norm(x, w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"])

    for block in range(1, CONFIG.num_hidden_layers + 1):
        h, g = attend(block, h, h, seen | np.eye(LENGTH, dtype=bool)), attend(block, g, h, seen)
    return g, w


def test_the_streams_are_those_of_the_paper_at_all_positions_and_at_some(rng):
    model = make(rng)
    x, _ = batch(rng)
    hidden = rng.integers(0, 2, (3, LENGTH, LENGTH)).astype("int32")
    hidden[:, :, 0] = 0  # every token sees one
    positions = np.array([[4, 1, 9], [0, 2, 3], [7, 7, 5]], "int32")
    inputs = [x[0], x[1], x[3]]
    everywhere, some = (ops.convert_to_numpy(run_two_streams(model.model, inputs, hidden, at)) for at in (None, positions))
    expected = np.stack([streams(model, *row)[0] for row in zip(x[0], x[1], hidden, strict=True)])
    np.testing.assert_allclose(everywhere, expected, atol=2e-5)
    np.testing.assert_allclose(some, np.take_along_axis(expected, positions[..., None], 1), atol=2e-5)


def test_a_prediction_does_not_depend_on_its_token_or_later_ones(rng):
    model = make(rng)
    x, _ = batch(rng)
    before = model.predict(x, verbose=0)
    for place in range(1, len(TARGETS) + 1):
        tokens = x[0].copy()
        later = [column for column, at in zip(TARGETS, PLACES, strict=True) if at >= place]
        tokens[:, later] = rng.integers(5, VOCAB, (len(tokens), len(later)))
        after = model.predict([tokens, *x[1:]], verbose=0)
        for column, at in zip(TARGETS, PLACES, strict=True):
            if at <= place:
                np.testing.assert_array_equal(after[:, column], before[:, column])
            else:
                assert np.abs(after[:, column] - before[:, column]).max() > 1e-6
    # A token that is given is seen by all.
    tokens = x[0].copy()
    tokens[:, 2] = (tokens[:, 2] + 1) % 5 + 5
    after = model.predict([tokens, *x[1:]], verbose=0)
    assert (np.abs(after - before).max(-1)[:, TARGETS] > 1e-7).all()


def test_an_order_hides_what_is_predicted_later():
    order = np.array([[0, 2, 1, 0]])
    hidden = ops.convert_to_numpy(hidden_by(ops.convert_to_tensor(order)))[0].astype(int)
    np.testing.assert_array_equal(hidden, [[0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]])


@pytest.mark.parametrize("settings", [{}, {"max_predictions": 4}, {"max_predictions": 6, "loss_chunk": 5}])
def test_a_step_is_the_cross_entropy_of_the_queries_and_trains_every_weight(rng, settings):
    model = make(rng)
    x, labels = batch(rng)
    logits = []
    for tokens, segments, order in zip(*x[:3], strict=True):
        g, w = streams(model, tokens, segments, ops.convert_to_numpy(hidden_by(ops.convert_to_tensor(order[None])))[0])
        logits.append(g[TARGETS] @ w["Embedding-Token/embeddings"].T + w["MLM-Sim/bias"])
    expected = cross_entropy(np.concatenate(logits), labels[:, TARGETS, 0].reshape(-1)).mean()
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), **settings)
    assert model.evaluate(x, labels, verbose=0, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-4)
    before = [ops.convert_to_numpy(variable).copy() for variable in model.weights]
    assert model.train_on_batch(x, labels, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-4)
    for variable, start in zip(model.weights, before, strict=True):
        assert np.abs(ops.convert_to_numpy(variable) - start).max() > 0, variable.path


@pytest.mark.slow
def test_rematerialisation_does_not_change_a_step(rng):
    ends = []
    for settings in ({}, {"max_predictions": 4, "remat": True}):
        model = make(np.random.default_rng(1))
        before = model.get_weights()
        compile_model(model, optimizer=keras.optimizers.SGD(1.0), **settings)
        model.train_on_batch(*batch(np.random.default_rng(2)))
        ends.append([end - start for end, start in zip(model.get_weights(), before, strict=True)])
    for weight, plain, again in zip(model.weights, *ends, strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-4, atol=1e-5, err_msg=weight.path)


def test_layers_and_weights_are_those_of_the_model_alone(rng):
    model = build_permutation_model(CONFIG)
    alone = build_model(CONFIG, ["mlm"])
    assert sorted(weight.path for weight in model.weights) == sorted(weight.path for weight in alone.weights)
    assert {layer.name for layer in model.layers} == {layer.name for layer in alone.layers} | {"Input-Order"}
    assert len(alone.trainable_weights) == len(model.trainable_weights) - 1
    assert model.count_params() == alone.count_params() == CONFIG.num_params(["mlm"])
    layer = QueryEmbedding(trained=True)
    layer.build((None, None, 4))
    again = QueryEmbedding.from_config(layer.get_config())
    assert (again.trained, QueryEmbedding().trained, len(layer.trainable_weights)) == (True, False, 1)


@pytest.mark.slow
def test_bfloat16_changes_the_loss_little(rng):
    x, labels = batch(rng)
    losses = []
    for policy in ("float32", "mixed_bfloat16"):
        keras.config.set_dtype_policy(policy)
        model = compile_model(make(np.random.default_rng(1)), max_predictions=4)
        losses.append(model.evaluate(x, labels, verbose=0, return_dict=True)["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_what_it_cannot_do_is_refused_in_one_sentence():
    model = build_permutation_model(CONFIG)
    with pytest.raises(
        ValueError, match=r"a PermutationModel cannot be saved itself: save its part, model\.model, or a checkpoint"
    ):
        model.get_config()
    with pytest.raises(ValueError, match="a two-stream model must be of the family xlnet; got bert"):
        build_permutation_model(BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1))
    with pytest.raises(ValueError, match="two streams need a model with a query vector, a config and a block, such as an XLNet"):
        run_two_streams(keras.Sequential(name="plain"), [], None)
