"""Generator and discriminator share an embedding, and a step is the sum of their losses, with samples of the softmax in between."""

import keras
import numpy as np
import pytest
from helpers.kernel_checks import value_and_gradients
from helpers.reference import cross_entropy
from helpers.small import spread, step
from keras import ops

from keras_bert_rebuild import BertConfig, compile_model
from keras_bert_rebuild.anatomy.heads import DRAW_BITS
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, uniform
from keras_bert_rebuild.models.replaced_token_model import GENERATOR, build_replaced_token_model, sample_tokens
from keras_bert_rebuild.recipes.step_costs import embedding_params

pytestmark = pytest.mark.backend

VOCAB, LENGTH, WEIGHT = 40, 12, 50.0
CONFIG = BertConfig.from_dict(
    {
        "family": "electra",
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "embedding_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": LENGTH,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": 3,
    }
)
GENERATOR_CONFIG = CONFIG.replace(hidden_size=6, num_attention_heads=1, intermediate_size=10)


def make(rng, weight=WEIGHT, packed=False, **changes):
    configs = [config.replace(**changes) for config in (CONFIG, GENERATOR_CONFIG)]
    return spread(build_replaced_token_model(*configs, weight, packed=packed), rng)


def batch(rng, rows=6):
    """Inputs and labels; the last three positions are padding, and one of them claims to be chosen."""
    labels = rng.integers(5, VOCAB, (rows, LENGTH))
    labels[:, -3:] = CONFIG.pad_token_id
    chosen = np.zeros((rows, LENGTH), int)
    chosen[:, [2, 5, 7, 10]] = 1
    tokens = np.where(chosen * (labels != CONFIG.pad_token_id), 4, labels)
    draws = rng.integers(0, 1 << DRAW_BITS, labels.shape)
    return tuple(x.astype("int32") for x in (tokens, labels % 2, draws, chosen)), labels[..., None].astype("int32")


def reference(model, x, labels):
    """The numbers of a step from separate calls of both models, in NumPy."""
    tokens, segments, draws, chosen = x
    real = tokens != CONFIG.pad_token_id
    p = ops.convert_to_numpy(model.generator([tokens, segments, chosen, real.astype("int32")])).astype("float64")
    at = chosen.astype(bool) & real
    sampled = (np.cumsum(p, -1) <= (draws / 2.0**DRAW_BITS)[..., None]).sum(-1)
    read = np.where(at, sampled, tokens)
    logits = ops.convert_to_numpy(model.discriminator([read.astype("int32"), segments, real.astype("int32")]))[..., 0]
    replaced = at & (read != labels[..., 0])
    rtd = np.log1p(np.exp(-np.abs(logits))) + np.maximum(logits, 0) - replaced * logits
    mlm = cross_entropy(np.log(np.maximum(p[at], 1e-30)), labels[..., 0][at]).mean()
    return {
        "MLM_loss": mlm,
        "MLM_accuracy": (p.argmax(-1) == labels[..., 0])[at].mean(),
        "RTD_loss": rtd[real].mean(),
        "RTD_accuracy": ((logits > 0) == replaced)[real].mean(),
        "RTD_replaced": replaced[real].mean(),
        "loss": mlm + WEIGHT * rtd[real].mean(),
    }, read


@pytest.mark.slow
def test_both_models_read_one_embedding():
    model = build_replaced_token_model(CONFIG, GENERATOR_CONFIG)
    for layer in ("Embedding-Token", "Embedding-Segment", "Embedding-Position", "Embedding-Norm"):
        assert model.generator.get_layer(layer) is model.discriminator.get_layer(layer)
    assert model.generator.get_layer("Embedding-Mapping") is not model.discriminator.get_layer("Embedding-Mapping")
    parts = CONFIG.num_params(["rtd"]) + GENERATOR_CONFIG.num_params(["mlm"])
    assert model.count_params() == parts - embedding_params(CONFIG)
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths)
    assert [path for path in paths if path.endswith("Embedding-Token/embeddings")] == ["Embedding-Token/embeddings"]
    assert {f"{GENERATOR}/Embedding-Mapping/kernel", "Embedding-Mapping/kernel"} < set(paths)


@pytest.mark.slow
@pytest.mark.parametrize("max_predictions", [4, LENGTH])
def test_a_step_is_that_of_both_models_with_the_samples_in_between(rng, max_predictions):
    model = compile_model(make(rng), max_predictions=max_predictions)
    x, labels = batch(rng)
    expected, read = reference(model, x, labels)
    assert model.evaluate(x, labels, batch_size=4, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_array_equal(model.predict(x, verbose=0)[1], read)
    assert model.train_on_batch(x, labels, return_dict=True) == pytest.approx(expected, rel=1e-4)


def updates(rng, weight, **compiled):
    """What a step of SGD at a rate of 1 subtracts from every weight."""
    model = make(np.random.default_rng(1), weight)
    before = {variable.path: ops.convert_to_numpy(variable) for variable in model.weights}
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), **compiled)
    model.train_on_batch(*batch(np.random.default_rng(2)))
    return {variable.path: before[variable.path] - ops.convert_to_numpy(variable) for variable in model.weights}


@pytest.mark.slow
def test_the_discriminator_does_not_train_the_blocks_of_the_generator(rng):
    without, once = updates(rng, 0.0, max_predictions=4), updates(rng, 2.0, max_predictions=4)
    for path, update in once.items():
        if path.startswith(GENERATOR):
            np.testing.assert_allclose(update, without[path], atol=1e-6, err_msg=path)
        elif not path.startswith("Embedding-") or "Mapping" in path:
            assert np.abs(without[path]).max() == 0, path
            # A bias of the keys changes nothing.
            assert np.abs(update).max() > 0 or path.endswith("key/bias"), path
        else:  # the shared embedding gets the gradients of both
            assert np.abs(without[path]).max() > 0, path
            assert np.abs(update - without[path]).max() > 1e-6, path


@pytest.mark.slow
@pytest.mark.slow
def test_rematerialisation_and_gathering_do_not_change_a_step(rng):
    expected = updates(rng, WEIGHT)
    got = updates(rng, WEIGHT, max_predictions=4, remat=True)
    for path, update in expected.items():
        np.testing.assert_allclose(got[path], update, rtol=1e-4, atol=1e-4, err_msg=path)


def names_of(model):
    return [tensor.name for tensor in model.inputs]


def in_two_sequences(x):
    """The same rows, each as packed sequences of 5 tokens and of the rest."""
    return (*x, np.where(x[0] == CONFIG.pad_token_id, 0, np.where(np.arange(LENGTH) < 5, 1, 6)).astype("int32"))


@pytest.mark.slow
@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(("packed", "remat"), [(False, False), (True, True)])
def test_a_gradient_of_the_generator_is_the_slope_of_its_loss_between_two_jumps_of_the_samples(packed, remat):
    x, labels = batch(np.random.default_rng(2))
    x = in_two_sequences(x) if packed else x
    model = make(np.random.default_rng(1), packed=packed)
    _, gradients = step(model, dict(zip(names_of(model), x, strict=True)), labels, max_predictions=4, remat=remat)
    model = compile_model(make(np.random.default_rng(1), packed=packed), optimizer=keras.optimizers.SGD(0.0), remat=remat)

    def losses_at(variable, value):
        variable.assign(value)
        model.reset_metrics()
        found = model.train_on_batch(x, labels, return_dict=True)
        return np.array([float(found["MLM_loss"]), WEIGHT * float(found["RTD_loss"])])

    jumps = 0
    for variable in model.trainable_variables:
        if not variable.path.startswith(GENERATOR) or not variable.path.endswith("/kernel"):
            continue
        gradient, value = gradients[variable.path], np.array(ops.convert_to_numpy(variable))
        norm, slopes = np.linalg.norm(gradient), []
        for length in (1e-1, 1e-2, 1e-4):
            ahead, behind = (losses_at(variable, value + sign * length * gradient / norm) for sign in (1, -1))
            slopes.append((ahead - behind) / (2 * length))
        variable.assign(value)
        assert min(abs(mlm - norm) for mlm, _ in slopes) < 1e-2 * norm, (variable.path, norm, slopes)
        # The discriminator's loss depends on these weights through the samples alone: between its jumps it is constant.
        assert slopes[-1][1] == 0, (variable.path, slopes)
        jumps += slopes[0][1] != 0
    assert jumps  # a numerical gradient over one of them is no gradient


@pytest.mark.slow
def test_a_sampled_token_of_padding_is_read_as_a_token(rng):
    model = compile_model(make(rng), max_predictions=4)
    bias = np.zeros(VOCAB, "float32")
    bias[CONFIG.pad_token_id] = 1e3
    model.generator.get_layer("MLM-Sim").bias.assign(bias)
    x, labels = batch(rng)
    assert (model.predict(x, verbose=0)[1][:, [2, 5, 7]] == CONFIG.pad_token_id).all()
    expected, _ = reference(model, x, labels)
    got = model.evaluate(x, labels, verbose=0, return_dict=True)
    assert got["RTD_replaced"] == pytest.approx(3 / 9)
    assert got["RTD_loss"] == pytest.approx(expected["RTD_loss"], rel=1e-4)


@pytest.mark.slow
def test_bfloat16_changes_the_losses_little(rng):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = compile_model(make(rng, initializer_range=0.02), max_predictions=4)
    x, labels = batch(rng)
    expected, _ = reference(model, x, labels)
    got = model.evaluate(x, labels, verbose=0, return_dict=True)
    assert got["MLM_loss"] == pytest.approx(expected["MLM_loss"], rel=0.05)
    assert np.isfinite(got["RTD_loss"])


@pytest.mark.slow
def test_what_it_cannot_do_is_refused_in_one_sentence():
    model = build_replaced_token_model(CONFIG, GENERATOR_CONFIG)
    with pytest.raises(ValueError, match="loss_chunk must be None for a generator, which samples from all logits; got 8"):
        compile_model(model, loss_chunk=8)
    with pytest.raises(ValueError, match="a ReplacedTokenModel cannot be saved itself: save its parts"):
        model.get_config()
    with pytest.raises(ValueError, match="must have the same embedding, which they share; got "):
        build_replaced_token_model(CONFIG, GENERATOR_CONFIG.replace(vocab_size=9))
    with pytest.raises(ValueError, match="the loss of RTD must ignore the labels of padding"):
        model.compile("sgd", ["sparse_categorical_crossentropy", None, keras.losses.BinaryCrossentropy(from_logits=True)])


def samples_of(logits, draws):
    return ops.convert_to_numpy(sample_tokens(ops.convert_to_tensor(logits), ops.convert_to_tensor(draws, dtype="int32")))


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def test_samples_follow_the_softmax():
    rows, classes = 40_000, 12
    logits = np.linspace(-3.0, 1.5, classes).astype("float32")
    draws = below(uniform(keys(3, 0, np.arange(rows // 20)), 20, Stream.SAMPLE), 1 << DRAW_BITS).astype("int32")
    got = samples_of(np.broadcast_to(logits, (*draws.shape, classes)), draws)
    expected = softmax(logits) * rows
    counts = np.bincount(got.ravel(), minlength=classes)
    # Chi-square with 11 degrees of freedom: 99.9 % of samples of the softmax are below 31.3.
    assert ((counts - expected) ** 2 / expected).sum() < 31.3


def test_a_sample_is_the_first_token_whose_cumulated_probability_exceeds_the_draw(rng):
    logits = rng.normal(0, 2, (6, 7, 30)).astype("float32")
    draws = rng.integers(0, 1 << DRAW_BITS, (6, 7))
    sums = np.cumsum(softmax(logits.astype("float64")), axis=-1)
    expected = (sums <= (draws / 2.0**DRAW_BITS)[..., None]).sum(-1)
    np.testing.assert_array_equal(samples_of(logits, draws), expected)


def test_no_draw_selects_a_token_without_probability_or_none_at_all():
    logits = np.array([[-1e9, 0, 0, -1e9], [-1e9, -1e9, -1e9, 0], [0, -1e9, -1e9, -1e9]], "float32")
    for draw, expected in ((0, [1, 3, 0]), ((1 << DRAW_BITS) - 1, [2, 3, 0])):
        np.testing.assert_array_equal(samples_of(logits, np.full(3, draw)), expected)


def test_no_gradient_flows_through_a_sample(rng):
    logits = rng.normal(0, 1, (5, 9)).astype("float32")
    draws = ops.convert_to_tensor(rng.integers(0, 1 << DRAW_BITS, 5), dtype="int32")

    def times_sample(logits):
        return logits * ops.cast(sample_tokens(logits, draws), "float32")[:, None]

    _, gradient = value_and_gradients(times_sample, np.ones((5, 9)), logits)
    np.testing.assert_allclose(gradient, np.broadcast_to(samples_of(logits, draws)[:, None], (5, 9)))
