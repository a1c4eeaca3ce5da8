"""Vectors of packed texts are those of the texts apart, in value and gradient, also a chunk of rows at a time."""

import keras
import numpy as np
import pytest
from helpers.small import spread
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import build_model
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.data.labelled.group_batches import PackedGroups
from keras_bert_rebuild.models.packed_vectors import POOLINGS, TextVectors, can_be_packed, pooled_texts, vector_model
from keras_bert_rebuild.training.retrieval_losses import InBatchNegativesLoss

pytestmark = pytest.mark.backend

SIZES = (3, 9, 5, 12, 2, 7, 4, 6, 10, 3, 8)
GROUPS = np.array([[0, 1, 2], [3, 4, -1], [5, 6, 7], [8, 9, 10]])
LENGTH = 16
MODULES = {name_of_module(module): module for module in modules()}
# Whether a row may hold several of their texts.
FAMILIES = dict.fromkeys(("bert", "roberta", "modernbert", "deberta_v2"), True)
FAMILIES |= {"deberta_v2 with convolution": False, "xlnet": False}


def encoder(name="bert", seed=3, **changes):
    name, _, convolution = name.partition(" with ")
    changes |= {"conv_kernel_size": 3 if convolution else 0} if name == "deberta_v2" else {}
    config = tiny_config(MODULES[name]).replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return spread(build_model(config.replace(**changes)), np.random.default_rng(seed))


def texts_of(model):
    rng = np.random.default_rng(1)
    return [rng.integers(5, model.config.vocab_size, size).astype("int32") for size in SIZES]


def segments_of(model):
    """Segments of all texts, with the last of the model's at their ends; None without such an input."""
    if not any(tensor.name == "Input-Segment" for tensor in model.inputs):
        return None
    return [(np.arange(size) == size - 1) * np.int32(model.config.type_vocab_size - 1) for size in SIZES]


def numbered(examples):
    return np.stack([GROUPS[examples], np.zeros_like(GROUPS[examples])], axis=-1).astype("float32")


def batches_of(model, packed=True, multiple=1):
    segments = segments_of(model)
    pad = model.config.pad_token_id
    return PackedGroups(
        texts_of(model), GROUPS, numbered, 4, [LENGTH], pad_id=pad, segments=segments, packed=packed, multiple=multiple
    )


def step(model, packed=True, chunk=None, poolings=("mean",)):
    """The vectors of a batch, and the loss and the weights after a step of gradient descent."""
    vectors = TextVectors(model, poolings, packed=packed, chunk=chunk)
    x, y = batches_of(model, packed, chunk or 1)[0]
    before = ops.convert_to_numpy(vectors([ops.convert_to_tensor(value) for value in x]))
    trained = vector_model(model, vectors)
    trained.compile(keras.optimizers.SGD(0.1), InBatchNegativesLoss())
    loss = trained.train_on_batch(x, y)
    return before, float(np.ravel(loss)[0]), trained.get_weights()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_vector_is_the_mean_over_the_tokens_of_its_text(family):
    model = encoder(family)
    packed = can_be_packed(model)
    assert packed == FAMILIES[family]
    vectors = TextVectors(model, packed=packed)
    x, _ = batches_of(model, packed)[0]
    assert len(x[0]) == (5 if packed else 11)
    got = ops.convert_to_numpy(vectors([ops.convert_to_tensor(value) for value in x]))
    texts, segments = texts_of(model), segments_of(model)
    for group, of_group in zip(GROUPS, got, strict=True):
        for number, vector in zip(group, of_group, strict=True):
            ids = texts[number][None]
            rows = {"Input-Token": ids, "Input-Segment": None if segments is None else segments[number][None]}
            states = model(bare_if_one([rows[tensor.name] for tensor in model.inputs]))
            expected = ops.convert_to_numpy(states)[0].mean(0) if number >= 0 else 0.0
            np.testing.assert_allclose(vector, expected, atol=2e-5)


@pytest.mark.slow
def test_packed_texts_have_the_gradients_of_texts_apart():
    packed, apart = step(encoder()), step(encoder(), packed=False)
    np.testing.assert_allclose(packed[0], apart[0], atol=1e-5)
    assert packed[1] == pytest.approx(apart[1], rel=1e-5)
    for one, other in zip(packed[2], apart[2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 3])
def test_chunks_have_the_loss_and_the_gradients_of_the_whole_batch(chunk):
    whole, chunked = step(encoder()), step(encoder(), chunk=chunk)
    np.testing.assert_allclose(chunked[0], whole[0], atol=1e-5)
    assert chunked[1] == pytest.approx(whole[1], rel=1e-5)
    for one, other in zip(chunked[2], whole[2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
def test_every_step_and_every_chunk_draws_its_own_dropout():
    keras.utils.set_random_seed(2)
    vectors = TextVectors(encoder(hidden_dropout_prob=0.3), chunk=2)
    x = batches_of(encoder(), multiple=2)[0][0]
    twice = [np.concatenate([value[:2]] * 2) for value in x[:-1]]
    order = np.array([[0, 2 * x[-2].shape[1]]], "int32")  # the first text of the first row, and of its copy in the second chunk
    given = [ops.convert_to_tensor(value) for value in (*twice, order)]
    steps = [ops.convert_to_numpy(vectors(given, training=True))[0] for _ in range(2)]
    assert np.abs(steps[0] - steps[1]).max() > 1e-3
    assert np.abs(steps[0][0] - steps[0][1]).max() > 1e-3
    same = ops.convert_to_numpy(vectors(given))[0]
    np.testing.assert_allclose(same[0], same[1], atol=1e-6)


@pytest.mark.slow
def test_the_gradients_of_chunks_belong_to_the_dropout_of_their_values():
    rate, model = 1e-3, encoder(hidden_dropout_prob=0.3)
    trained = vector_model(model, TextVectors(model, chunk=2))
    trained.compile(keras.optimizers.SGD(rate), InBatchNegativesLoss())
    x, y = batches_of(model, multiple=2)[0]
    seeds = [variable for variable in trained.variables if variable.name == "seed_generator_state"]
    values, losses, weights = [ops.convert_to_numpy(seed).copy() for seed in seeds], [], [trained.get_weights()]
    for _ in range(2):
        keras.utils.set_random_seed(1)
        for seed, value in zip(seeds, values, strict=True):
            seed.assign(value)
        losses.append(float(np.ravel(trained.train_on_batch(x, y))[0]))
        weights.append([weight.copy() for weight in trained.get_weights()])
    # A small step lowers the loss by rate · |gradient|², if the gradient is that of the same draws.
    squared = sum(np.sum(((a - b) / rate) ** 2) for a, b in zip(*weights[:2], strict=True))
    assert losses[0] - losses[1] == pytest.approx(rate * squared, rel=0.15)


def test_poolings_are_those_of_plain_numpy(rng):
    sequence = rng.normal(size=(2, 8, 3)).astype("float32")
    numbers = np.array([[1, 1, 1, 4, 4, 0, 0, 0], [1, 2, 2, 2, 2, 2, 7, 7]], "int32")
    begins = np.array([[1, 4, 0], [1, 2, 7]], "int32")
    got = ops.convert_to_numpy(pooled_texts(*map(ops.convert_to_tensor, (sequence, numbers, begins)), POOLINGS))
    for row in range(2):
        for text, begin in enumerate(begins[row]):
            tokens = sequence[row][numbers[row] == begin] if begin else np.zeros((1, 3))
            n = len(tokens)
            rising = np.arange(1, n + 1)[:, None]
            expected = {
                "mean": tokens.mean(0),
                "mean_sqrt_len": tokens.sum(0) / np.sqrt(n),
                "weightedmean": (tokens * rising).sum(0) / rising.sum(),
                "cls": tokens[0],
                "lasttoken": tokens[-1],
                "max": tokens.max(0),
            }
            np.testing.assert_allclose(got[row, text], np.concatenate([expected[name] for name in POOLINGS]), atol=1e-5)


@pytest.mark.slow
def test_a_learned_factor_is_a_weight_of_the_model_and_is_cut_to_its_maximum():
    model = encoder()
    vectors = TextVectors(model)
    trained, loss = vector_model(model, vectors), InBatchNegativesLoss(5.0)
    loss.learned_scale = vectors.learn_scale(5.0)
    trained.compile(keras.optimizers.SGD(0.1), loss)
    batches = batches_of(model)
    fixed = InBatchNegativesLoss(5.0)
    x, y = batches[0]
    expected = float(ops.convert_to_numpy(fixed(y, vectors([ops.convert_to_tensor(value) for value in x]))))
    assert float(np.ravel(trained.train_on_batch(x, y))[0]) == pytest.approx(expected, rel=1e-5)
    assert float(ops.convert_to_numpy(loss.learned_scale())) != pytest.approx(5.0, abs=1e-6)
    vectors.log_scale.assign(9.0)
    assert float(ops.convert_to_numpy(loss.learned_scale())) == 100.0


@pytest.mark.skipif(keras.config.backend() != "torch", reason="torch tells what it retains")
def test_chunks_retain_little_more_for_each_further_row():
    import torch

    model, bytes_of = encoder(), {}
    for chunk in (None, 1):
        vectors = TextVectors(model, chunk=chunk)
        for copies in (1, 5):
            *rows, order = batches_of(model)[0][0]
            retained = {}

            def pack(tensor, retained=retained):
                storage = tensor.untyped_storage()
                retained[storage.data_ptr()] = storage, storage.nbytes()  # alive, so that no other has its address
                return tensor

            given = [ops.convert_to_tensor(np.concatenate([value] * copies)) for value in rows]
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                vectors([*given, ops.convert_to_tensor(order)], training=True)
            bytes_of[chunk, copies] = sum(size for _, size in retained.values())
    grown = {chunk: bytes_of[chunk, 5] - bytes_of[chunk, 1] for chunk in (None, 1)}
    assert grown[1] < grown[None] / 10
