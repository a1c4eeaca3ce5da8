"""What keras_bert's users put on a loaded model: two texts through one encoder, a layer by its name, pointers to a span, a CRF,
and training against perturbed embeddings. Comments that start with "was" mark lines that Keras 3 needs otherwise."""

import os

import keras
import numpy as np
import pytest
from helpers.toy_checkpoint import write_toy_checkpoint
from keras import ops
from keras.layers import Dense, Input, Lambda
from keras.models import Model

from keras_bert_rebuild import load_trained_model_from_checkpoint
from keras_bert_rebuild.kernels.gradients import value_and_gradient
from keras_bert_rebuild.layers import ConditionalRandomField
from keras_bert_rebuild.training.task_losses import ConditionalRandomFieldLoss

pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*does not support masking")


@pytest.fixture
def bert(tmp_path):
    write_toy_checkpoint(tmp_path)
    keras.utils.set_random_seed(4)
    return load_trained_model_from_checkpoint(
        os.path.join(tmp_path, "bert_config.json"), os.path.join(tmp_path, "bert_model.ckpt"), trainable=True, seq_len=8
    )


def texts(count, seed=0):
    """Ids of random letters between [CLS] and [SEP], and segments."""
    ids = np.random.default_rng(seed).integers(6, 40, (count, 8))
    ids[:, 0], ids[:, 6], ids[:, 7] = 2, 3, 0
    return [ids, np.zeros_like(ids)]


def loss_before_and_after(model, x, y):
    """Without dropout, whose noise in eight steps is larger than what they learn."""
    before = model.evaluate(x, y, batch_size=len(x[0]), verbose=0)
    model.fit(x, y, epochs=8, batch_size=len(x[0]), verbose=0)
    return before, model.evaluate(x, y, batch_size=len(x[0]), verbose=0)


@pytest.mark.slow
def test_two_texts_pass_one_encoder(bert):
    inputs = [Input((8,)) for _ in range(4)]
    cls = Lambda(lambda x: x[:, 0], output_shape=(24,))
    first, second = cls(bert(inputs[:2])), cls(bert(inputs[2:]))
    distance = Lambda(lambda pair: ops.abs(pair[0] - pair[1]), output_shape=(24,))([first, second])  # was K.abs
    model = Model(inputs, Dense(1, activation="sigmoid")(distance))
    assert model.count_params() == bert.count_params() + 25
    same, other = texts(8), texts(8, seed=1)
    labels = np.array([1] * 4 + [0] * 4, "float32")
    pairs = [*same, *[np.concatenate([a[:4], b[4:]]) for a, b in zip(same, other, strict=True)]]
    np.testing.assert_allclose(model.predict([*same, *same], verbose=0), 0.5, atol=1e-6)  # no distance
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
    before, after = loss_before_and_after(model, pairs, labels)
    assert after < before


def test_a_layer_is_asked_for_by_its_name(bert):
    names = [f"Encoder-{i}-FeedForward-Norm" for i in (1, 2)]
    both = Model(bert.inputs, [bert.get_layer(name).output for name in names])
    ids = texts(3)
    lower, upper = both.predict(ids, verbose=0)
    np.testing.assert_allclose(upper, bert.predict(ids, verbose=0), atol=1e-6)
    features = Model(bert.inputs, bert.get_layer(index=-9).output)  # the block below, as counted in the summary
    assert features.output.name == bert.layers[-9].output.name
    np.testing.assert_allclose(lower, Model(bert.inputs, bert.get_layer(names[0]).output).predict(ids, verbose=0), atol=1e-6)


@pytest.mark.slow
def test_two_pointers_find_a_span(bert):
    mask = Lambda(lambda ids: ops.cast(ops.not_equal(ids, 0), "float32"), output_shape=(8,))(bert.inputs[0])  # was K.greater
    pointers = []
    for name in ("start", "end"):
        scores = Dense(1, use_bias=False)(bert.output)
        far = Lambda(lambda x: x[0][..., 0] - (1 - x[1]) * 1e10, output_shape=(8,))([scores, mask])
        pointers.append(keras.layers.Softmax(name=name)(far))  # was one output and add_loss of symbolic tensors
    model = Model(bert.inputs, pointers)
    ids = texts(12)
    starts = np.arange(12) % 4 + 1
    for row, start in zip(ids[0], starts, strict=True):
        row[start], row[start + 1] = 41, 42
    model.compile(keras.optimizers.Adam(3e-3), ["sparse_categorical_crossentropy"] * 2)
    model.fit(ids, [starts, starts + 1], epochs=25, batch_size=12, verbose=0)
    start, end = model.predict(ids, verbose=0)
    assert start[:, 7].max() == end[:, 7].max() == 0  # padding
    assert (start.argmax(1) == starts).mean() > 0.8
    assert (end.argmax(1) == starts + 1).mean() > 0.8


@pytest.mark.slow
def test_a_tagger_ends_in_a_conditional_random_field(bert):
    crf = ConditionalRandomField()  # was keras_contrib's CRF(3, sparse_target=True) with crf.loss_function and crf.accuracy
    model = Model(bert.inputs, crf(Dense(3)(bert.output)))
    model.compile(keras.optimizers.Adam(3e-3), ConditionalRandomFieldLoss())
    ids = texts(8)
    labels = (ids[0] % 3).astype("int32")
    labels[ids[0] < 4] = -1  # [CLS], [SEP] and padding
    first, last = loss_before_and_after(model, ids, labels)
    assert last < first
    assert model.predict(ids, verbose=0).shape == (8, 8 + 5, 3)


def test_embeddings_are_perturbed_against_the_model(bert):
    """Adversarial training as in Miyato et al., 2017: a step on the loss with the table moved along its gradient."""
    layer = bert.get_layer("Embedding-Token")
    table = layer.embeddings  # was found with search_layer, which still works: it is a layer's attribute
    output = Dense(1, activation="sigmoid")(Lambda(lambda x: x[:, 0], output_shape=(24,))(bert.output))
    model = Model(bert.inputs, output)
    ids, labels = texts(8), np.arange(8) % 2

    def loss_at(vectors):  # was K.gradients(model.total_loss, [embeddings]) in a train function of its own
        with keras.StatelessScope(state_mapping=[(table, vectors)]):
            return ops.mean(keras.losses.binary_crossentropy(labels[:, None], model([ops.convert_to_tensor(x) for x in ids])))

    clean = ops.convert_to_numpy(table.value).copy()
    loss, gradient = value_and_gradient(loss_at, table.value)
    gradient = ops.convert_to_numpy(gradient)
    assert np.abs(gradient).sum(1).nonzero()[0].tolist() == np.unique(ids[0][:, :7]).tolist()  # all tokens but padding
    table.assign(clean + 0.5 * gradient / np.sqrt((gradient**2).sum()))
    assert float(ops.convert_to_numpy(loss_at(table.value))) > float(ops.convert_to_numpy(loss))
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    model.train_on_batch(ids, labels)
    table.assign(clean)
    assert np.isfinite(model.predict(ids, verbose=0)).all()
