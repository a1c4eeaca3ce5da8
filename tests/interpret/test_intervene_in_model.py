"""Parts of a live model are recorded, switched off or replaced for every use of it, and no trace remains."""

import keras
import numpy as np
import pytest
from helpers.small import random_model, spread
from helpers.small_tasks import CONFIG, PETS, TOKENIZER, small_encoder, small_task
from helpers.tiny_families import heads_of, modules, name_of_module, tiny_config

from keras_bert_rebuild import SentenceEmbedder, TextClassifier, attention_maps, build_model
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.interpret import Block, Head, Neuron, Position, intervene, record, record_means
from keras_bert_rebuild.models.packed_vectors import TextVectors

TEXTS = ["the cat sat", "a dog likes anna and ben"]


def test_recorded_values_are_those_of_the_attention_maps_and_of_the_model():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    recording = record(task, TEXTS, [Head(1, 1), Block(0), Neuron(1, (4, 2)), Position(1, 0)])
    maps = attention_maps(task.model, texts=TEXTS, tokenizer=task.tokenizer, vectors=True)
    np.testing.assert_allclose(recording.of(Head(1, 1)), (maps.probabilities @ maps.values)[1, :, 1], atol=1e-5)
    np.testing.assert_allclose(recording.of(Block(0)), maps.outputs[0], atol=1e-6)
    np.testing.assert_allclose(recording.of(Position(1, 0)), maps.outputs[1], atol=1e-6)
    assert recording.of(Neuron(1, (4, 2))).shape == (2, maps.mask.shape[1], 2)
    np.testing.assert_array_equal(recording.mask, maps.mask)
    assert recording.tokens == maps.tokens


def test_units_are_recorded_in_the_order_in_which_they_are_named():
    model = random_model(CONFIG, [], np.random.default_rng(0))
    inputs = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]
    both, first, second = Neuron(0, (7, 3)), Neuron(0, 7), Neuron(0, 3)
    recording = record(model, inputs, [both, first, second])
    np.testing.assert_array_equal(recording.of(both), np.concatenate([recording.of(first), recording.of(second)], -1))
    means = recording.mean().of(both)[0, 0]
    with intervene(model, {both: means}):
        np.testing.assert_allclose(record(model, inputs, [first]).of(first), means[0], atol=1e-6)


@pytest.mark.slow
def test_means_over_batches_are_the_mean_over_all_tokens():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    texts, sites = [*TEXTS, "red", "the mat of london and paris"], [Head(0, 0), Block(1)]
    whole, batches = record(task, texts, sites).mean(), record_means(task, texts, sites, batch_size=3)
    ids = task.tokenizer.encode_batch(texts[:1]).ids[0]
    arrays = record_means(task.model, [np.array([ids]), np.zeros((1, len(ids)), int)], sites)
    for site in sites:
        np.testing.assert_allclose(batches.of(site), whole.of(site), atol=1e-6)
        np.testing.assert_allclose(arrays.of(site), record(task, texts[:1], sites).mean().of(site), atol=1e-6)
    assert whole.mask is None
    assert whole.mean() is whole


def test_pairs_of_texts_are_one_row_each():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    recording = record(task, [("the cat", "a dog"), ("red", "blue")], [Block(0)])
    assert recording.tokens[0] == ("[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]")


def test_a_recording_within_an_intervention_has_the_altered_values():
    model = small_encoder(())
    inputs = [np.array([[2, 5, 6, 3]]), np.zeros((1, 4), int)]
    with intervene(model, [Head(0, 1)]):
        recording = record(model, inputs, [Head(0, 1), Head(0, 0)])
    assert not recording.of(Head(0, 1)).any()
    assert recording.of(Head(0, 0)).any()
    assert keras.ops.convert_to_numpy(model(inputs)).any()


@pytest.mark.parametrize(
    ("subject", "inputs", "words"),
    [
        (small_encoder, TEXTS, "inputs must be arrays of ids"),
        (lambda heads: "bert", TEXTS, "expected a model or a task"),
        (small_encoder, [np.zeros((1, 4))], "expected 2 inputs"),
    ],
)
def test_what_cannot_be_recorded_is_refused(subject, inputs, words):
    with pytest.raises(ValueError, match=words):
        record(subject(()), inputs, [Block(0)])
    recording = record(small_encoder(()), [np.array([[2, 3]]), np.zeros((1, 2), int)], [Block(0)])
    with pytest.raises(ValueError, match="expected one of the recorded sites"):
        recording.of(Block(1))
    with pytest.raises(ValueError, match="got a mean, which has none"):
        recording.mean().row(0)


IDS = np.array([[2, 5, 6, 8, 9, 10, 3], [2, 5, 7, 8, 3, 0, 0]])
SITES = [Head(0, 1), Block(1), Neuron(0, range(8)), Position(0, (0, 2))]


def inputs_of(model, ids=IDS):
    """The inputs of a model for ids, segments of 0."""
    return bare_if_one([ids if tensor.name == "Input-Token" else np.zeros_like(ids) for tensor in model.inputs])


def asked(model, ids=IDS):
    """The first output of a call of the model."""
    outputs = model(inputs_of(model, ids), training=False)
    return keras.ops.convert_to_numpy(outputs[0] if isinstance(outputs, (list, tuple)) else outputs)


@pytest.fixture
def classifier():
    return small_task(TextClassifier, labels=["cat", "dog"])


@pytest.mark.parametrize("site", SITES, ids=lambda site: type(site).__name__)
def test_every_way_of_asking_gives_the_altered_answer_and_afterwards_the_old_one(classifier, site):
    model, texts = classifier.model, [pet.text for pet in PETS]
    inputs = inputs_of(model)
    model.compile("sgd", classifier.loss())

    def answers():
        logits = asked(model)
        loss = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, (0, 1), strict=True)])
        np.testing.assert_allclose(model.predict(inputs, verbose=0), logits, atol=2e-6)
        np.testing.assert_allclose(model.predict_on_batch(inputs), logits, atol=2e-6)
        np.testing.assert_allclose(model.evaluate(inputs, np.array([0, 1]), verbose=0), loss, atol=2e-6)
        return logits, [answer.probability for answer in classifier(texts)]

    before = answers()
    functions = model.predict_function, model.test_function
    with intervene(classifier, [site]):
        altered = answers()
    after = answers()
    assert np.abs(altered[0] - before[0]).max() > 1e-3
    assert np.abs(np.subtract(altered[1], before[1])).max() > 1e-3
    np.testing.assert_array_equal(after[0], before[0])
    assert after[1] == before[1]
    assert (model.predict_function, model.test_function) == functions


def test_a_head_that_is_switched_off_is_rows_of_zeros_in_the_kernel_of_the_output(classifier):
    model = classifier.model
    with intervene(model, [Head(1, 0)]):
        off = asked(model)
    kernel = model.get_layer("Encoder-2-MultiHeadSelfAttention").output_dense.kernel
    value = keras.ops.convert_to_numpy(kernel).copy()
    value[:8] = 0
    kernel.assign(value)
    np.testing.assert_allclose(off, asked(model), atol=1e-6)


def test_units_that_are_switched_off_are_rows_of_zeros_in_the_kernel_of_the_output(classifier):
    model = classifier.model
    with intervene(model, [Neuron(0, (3, 30))]):
        off = asked(model)
    kernel = model.get_layer("Encoder-1-FeedForward").output_dense.kernel
    value = keras.ops.convert_to_numpy(kernel).copy()
    value[[3, 30]] = 0
    kernel.assign(value)
    np.testing.assert_allclose(off, asked(model), atol=1e-6)


def test_the_values_of_another_run_after_a_block_give_exactly_its_answer():
    model = small_encoder(["mlm"])
    ids = np.where(IDS > 0, 5 + IDS[::-1, ::-1], 0)  # other tokens, the same padding
    here, there = asked(model)[:, :3], asked(model, ids)[:, :3]
    with intervene(model, {Block(0): record(model, inputs_of(model, ids), [Block(0)])}):
        np.testing.assert_allclose(asked(model)[:, :3], there, atol=1e-5)
    with intervene(model, {Block(0): record(model, inputs_of(model), [Block(0)])}):
        np.testing.assert_allclose(asked(model, ids)[:, :3], here, atol=1e-5)


def families():
    return [pytest.param(module, id=name_of_module(module)) for module in modules()]


@pytest.mark.parametrize("module", families())
def test_every_family_takes_values_of_another_run_and_has_its_heads_units_and_blocks_switched_off(module):
    config = tiny_config(module, num_hidden_layers=2)
    model = random_model(
        config, ["token_classification"] if "token_classification" in heads_of(module) else (), np.random.default_rng(3)
    )
    ids = np.array([[7, 5, 6, 8, 9, 10, 11]])
    first, second = asked(model, ids), asked(model, ids[:, ::-1].copy())
    for site in SITES[:3]:
        with intervene(model, [site]):
            assert np.abs(asked(model, ids) - first).max() > 1e-4
    with intervene(model, {Block(1): record(model, inputs_of(model, ids[:, ::-1].copy()), [Block(1)])}):
        np.testing.assert_allclose(asked(model, ids), second, atol=1e-5)
    np.testing.assert_array_equal(asked(model, ids), first)


def test_one_run_of_a_shared_block_is_switched_off_alone():
    config = CONFIG.replace(num_hidden_layers=3, num_hidden_groups=1, family="albert")
    model = spread(build_model(config), np.random.default_rng(5))
    whole = spread(build_model(config.replace(num_hidden_groups=None)), np.random.default_rng(6))
    for variable in whole.weights:
        path = variable.path.replace("Encoder-2", "Encoder-1").replace("Encoder-3", "Encoder-1")
        variable.assign(next(weight for weight in model.weights if weight.path == path))
    for site in (Head(1, 0), Neuron(2, (0, 5)), Block(1), Position(0, 1)):
        with intervene(model, [site]), intervene(whole, [site]):
            altered = [asked(part) for part in (model, whole)] + [asked(model)]
        np.testing.assert_allclose(altered[0], altered[1], atol=1e-6)
        np.testing.assert_array_equal(altered[0], altered[2])
        assert np.abs(altered[0] - asked(model)).max() > 1e-3


def test_contexts_within_each_other_add_up_and_end_in_their_order(classifier):
    model = classifier.model
    before = asked(model)
    with intervene(model, [Head(0, 0), Block(1)]):
        both = asked(model)
    with intervene(model, [Head(0, 0)]):
        outer = model.predict(inputs_of(model), verbose=0)
        with intervene(classifier, [Block(1)]):
            np.testing.assert_array_equal(asked(model), both)
            np.testing.assert_allclose(model.predict(inputs_of(model), verbose=0), both, atol=2e-6)
        np.testing.assert_array_equal(model.predict(inputs_of(model), verbose=0), outer)
    np.testing.assert_array_equal(asked(model), before)


def test_nothing_is_left_behind_after_an_error(classifier):
    model = classifier.model
    before, kept = asked(model), [dict(vars(layer)) for layer in model.layers]
    with pytest.raises(ZeroDivisionError), intervene(model, SITES):
        raise ZeroDivisionError
    np.testing.assert_array_equal(asked(model), before)
    assert [set(vars(layer)) for layer in model.layers] == [set(attributes) for attributes in kept]
    assert all(getattr(layer, "edit", None) is None for layer in model.layers)


def test_vectors_of_texts_are_altered_too():
    embedder = SentenceEmbedder(small_encoder(()), TOKENIZER)
    texts = ["the cat sat", "a dog likes anna and ben", "red"]
    before = embedder(texts)
    with intervene(embedder, [Head(0, 0), Head(1, 1)]):
        altered = embedder(texts)
    after = embedder(texts)
    assert np.abs(altered - before).max() > 1e-3
    np.testing.assert_array_equal(after, before)


@pytest.mark.slow
def test_positions_of_packed_rows_are_those_of_every_text():
    encoder = small_encoder(())
    texts = [[2, 5, 6, 3], [2, 9, 3], [2, 7, 8, 10, 3]]
    row = np.array([[token for text in texts for token in text]])
    numbers, begins = np.array([[1] * 4 + [5] * 3 + [8] * 5]), np.array([[1, 5, 8]])
    sites = [Position(0, (1,)), Head(1, 0, positions=(0, 2)), Neuron(0, (1, 2), positions=2)]
    with intervene(encoder, sites):
        vectors = TextVectors(encoder)
        packed = keras.ops.convert_to_numpy(vectors([row, np.zeros_like(row), numbers, begins, np.array([[0, 1, 2]])]))[0]
        alone = [asked(encoder, np.array([text]))[0].mean(0) for text in texts]
    np.testing.assert_allclose(packed, alone, atol=1e-5)
    assert np.abs(packed[0] - asked(encoder, np.array(texts[:1]))[0].mean(0)).max() > 1e-3


def test_windows_of_a_long_text_are_all_altered():
    task = small_task(TextClassifier, labels=["cat", "dog"], max_len=12)
    text = "the cat sat on the mat and the dog likes anna and ben in paris and a red mat of london"
    with intervene(task, [Head(0, 1)]):
        altered = task([text])[0].probabilities["cat"]
    kernel = task.model.get_layer("Encoder-1-MultiHeadSelfAttention").output_dense.kernel
    value = keras.ops.convert_to_numpy(kernel).copy()
    value[8:] = 0
    assert abs(altered - task([text])[0].probabilities["cat"]) > 1e-4
    kernel.assign(value)
    assert abs(altered - task([text])[0].probabilities["cat"]) < 1e-6


def test_a_mean_and_an_array_are_put_at_every_token():
    model = small_encoder(())
    recording = record(model, inputs_of(model), [Head(0, 1)])
    mean = recording.mean().of(Head(0, 1))[0, 0]
    np.testing.assert_allclose(mean, recording.of(Head(0, 1))[IDS > 0].mean(0), atol=1e-6)
    with intervene(model, {Head(0, 1): recording.mean()}):
        by_recording = asked(model)
    with intervene(model, {Head(0, 1): mean}):
        np.testing.assert_array_equal(asked(model), by_recording)
        np.testing.assert_allclose(record(model, inputs_of(model), [Head(0, 1)]).of(Head(0, 1))[1, 4], mean, atol=1e-6)


def test_a_shorter_recording_leaves_the_tokens_after_it():
    model = small_encoder(())
    one = record(model, inputs_of(model, IDS[1:, :5]), [Block(1)])
    with intervene(model, {Block(1): one}):
        altered = asked(model)
    before = asked(model)
    np.testing.assert_allclose(altered[0, :5], one.of(Block(1))[0], atol=1e-6)
    np.testing.assert_array_equal(altered[0, 5:], before[0, 5:])


@pytest.mark.parametrize(
    ("interventions", "words"),
    [
        ([Head(2, 0)], "block must be a number from 0 to 1"),
        ([Head(0, 2)], "head must be one of 0 to 1"),
        ([Neuron(0, 32)], "units must be numbers from 0 to 31"),
        (["head"], "a site must be"),
        ("head", "interventions must be a list"),
        ({Head(0, 0): np.zeros(3)}, r"array of shape \(8,\); got shape \(3,\)"),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(interventions, words):
    with pytest.raises(ValueError, match=words), intervene(small_encoder(()), interventions):
        pass
    with pytest.raises(ValueError, match="positions must be one or more numbers of at least 0"):
        Position(0, -1)


@pytest.mark.slow
def test_several_recorded_rows_are_for_a_batch_of_as_many_and_not_for_a_task(classifier):
    model = classifier.model
    both = record(classifier, ["the cat sat", "a dog"], [Block(0), Head(1, 1)])
    with pytest.raises(ValueError, match="a task needs the values of a single text"), intervene(classifier, {Block(0): both}):
        pass
    with intervene(model, {Block(0): both}), pytest.raises(ValueError, match="a batch must have 2 rows; got 3 rows"):
        asked(model, np.repeat(IDS[:1], 3, axis=0))
    with pytest.raises(ValueError, match="expected one of the recorded sites"), intervene(model, {Block(1): both}):
        pass
