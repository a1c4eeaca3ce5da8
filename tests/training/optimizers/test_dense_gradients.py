"""A row that is looked up several times in a batch has one gradient, the sum, with any optimizer."""

import keras
import numpy as np
import pytest
from helpers import optimizer_reference
from helpers.optimizer_reference import value
from helpers.small import VOCAB, compiled, small_batch, small_model, spread

from keras_bert_rebuild import AdamW, AdamWarmup, BertConfig, build_model
from keras_bert_rebuild.layers.keras_layers import Embedding
from keras_bert_rebuild.layers.position_embedding import PositionEmbedding
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.whole_batch import dense_gradients
from keras_bert_rebuild.training.task_losses import LabelLoss

pytestmark = pytest.mark.backend

ROWS, WIDTH, STEPS, RATE = 5, 3, 6, 0.1
# All of Keras's optimizers that need only a rate.
STOCK = ("SGD", "RMSprop", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "Adafactor", "Nadam", "Ftrl", "Lion", "Lamb")


def make_data(rng):
    """A table, ids, some of them up to five times in a batch and some never, labels, and the gradients of the steps."""
    table = rng.normal(size=(ROWS, WIDTH)).astype("float32")
    ids = rng.choice(ROWS, (2 * STEPS, 4), p=[0.5, 0.3, 0.1, 0.1, 0.0])
    labels = rng.normal(size=(*ids.shape, WIDTH)).astype("float32")
    gradients = np.zeros((STEPS, ROWS, WIDTH))
    for row, label in enumerate(labels):
        np.add.at(gradients[row // 2], ids[row], label)
    return table, ids, labels, gradients / 2  # the mean over the two examples of a batch


def trained(embedding_class, optimizer, table, ids, labels):
    """The table after a step for every two rows of ids."""
    model = keras.Sequential([keras.Input(ids.shape[1:], dtype="int32"), embedding_class(ROWS, WIDTH, name="table")])
    model.layers[0].set_weights([table])
    model.compile(optimizer=optimizer, loss=lambda y, p: keras.ops.sum(y * p, axis=(1, 2)))
    model.fit(ids, labels, batch_size=2, shuffle=False, verbose=0)
    return value(model.layers[0].embeddings)


def adam(table, gradients, clip, epsilon=1e-7, b1=0.9, b2=0.999):
    """Kingma and Ba, 2015, in the order of computation just before section 2.1, in float64."""
    table, m, v = table.astype("float64"), 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):
        gradient = gradient * min(1.0, clip / np.linalg.norm(gradient)) if clip else gradient
        m, v = b1 * m + (1 - b1) * gradient, b2 * v + (1 - b2) * gradient**2
        table = table - RATE * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + epsilon)
    return table


def adamw_or_lamb(table, gradients, clip, lamb=False):
    """Algorithm 2 of Loshchilov and Hutter, 2019, or of You et al., 2020, in float64."""
    weights, by_path = {"table/embeddings": table}, [{"table/embeddings": gradient} for gradient in gradients]
    after, _ = optimizer_reference.train(weights, by_path, lambda done: RATE, weight_decay=0.3, clip=clip, lamb=lamb)
    return after["table/embeddings"]


OURS = {
    "AdamWarmup": (lambda clip: AdamWarmup(10**9, 0, learning_rate=RATE, global_clipnorm=clip), adam),
    "AdamW": (lambda clip: AdamW(RATE, 0.3, global_clipnorm=clip), adamw_or_lamb),
    "Lamb": (lambda clip: Lamb(RATE, 0.3, global_clipnorm=clip), lambda *given: adamw_or_lamb(*given, lamb=True)),
}


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("name", OURS)
def test_our_optimizers_take_the_steps_of_their_formula_on_tables_of_keras_too(rng, name, clip):
    make, formula = OURS[name]
    table, ids, labels, gradients = make_data(rng)
    # 1 − 0.999ᵗ in float32 has a relative error of 6e-5 at t = 1: 6e-6 for steps of 0.1.
    expected = formula(table, gradients, clip)
    np.testing.assert_allclose(trained(keras.layers.Embedding, make(clip), table, ids, labels), expected, rtol=0, atol=6e-6)
    assert np.abs(expected - table).max() > RATE


@pytest.mark.parametrize("name", STOCK)
def test_optimizers_of_keras_step_on_our_tables_as_on_arrays(rng, name):
    table, ids, labels, gradients = make_data(rng)
    variable = keras.Variable(table)
    on_arrays, on_rows = (getattr(keras.optimizers, name)(RATE, global_clipnorm=0.7) for _ in range(2))
    on_arrays.build([variable])
    for gradient in gradients:
        on_arrays.apply([keras.ops.convert_to_tensor(gradient, "float32")])
    np.testing.assert_allclose(trained(Embedding, on_rows, table, ids, labels), value(variable), rtol=0, atol=2e-6)


def test_adam_of_keras_takes_the_steps_of_its_formula_on_our_tables(rng):
    table, ids, labels, gradients = make_data(rng)
    got = trained(Embedding, keras.optimizers.Adam(RATE), table, ids, labels)
    np.testing.assert_allclose(got, adam(table, gradients, None), rtol=0, atol=6e-6)


class Recording(keras.optimizers.SGD):
    """Records which variables have a gradient that is not an array."""

    def apply(self, grads, trainable_variables=None):
        self.paths = [variable.path for variable in trainable_variables]
        self.lists = [path for path, g in zip(self.paths, grads, strict=True) if hasattr(g, "dense_shape")]
        super().apply(grads, trainable_variables)


def expanded():
    """Positions given as numbers, which are looked up, too."""
    inputs = keras.Input((4,), dtype="int32")
    return keras.Model(inputs, PositionEmbedding(3, WIDTH, name="table")(inputs))


@pytest.mark.backend("tensorflow")
@pytest.mark.slow
def test_our_models_give_optimizers_no_lists_of_rows(rng):
    x, y = small_batch(rng)
    tasks = small_model(transformer_num=1, use_task_embed=True, task_num=3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    classifier = build_model(BertConfig(vocab_size=VOCAB, labels=("a", "b"), **sizes), ["classification"])
    trained = (
        (compiled(tasks, optimizer=Recording()), (*x[:2], np.ones((8, 1), int), x[2]), y, {"Token", "Segment", "Task"}),
        (classifier, x[:2], y[1][:, 0], {"Token", "Segment"}),
        (expanded(), np.array([[-9, 1, 1, 0]]), np.zeros((1, 4, WIDTH)), set()),
    )
    for model, inputs, labels, tables in trained:
        if not model.compiled:
            model.compile(optimizer=Recording(), loss=LabelLoss() if tables else "mse")
        model.fit(inputs, labels, verbose=0)
        assert {f"Embedding-{table}/embeddings" for table in tables} <= {*model.optimizer.paths}
        assert model.optimizer.lists == []


def test_a_variable_without_a_gradient_is_not_changed(rng):
    kernel, other = keras.Variable(np.ones(2), name="kernel"), keras.Variable(np.ones(2), name="other")
    gradient = keras.ops.ones(2)
    assert dense_gradients([gradient, None])[1] is None
    optimizer = AdamWarmup(10, 0, learning_rate=RATE)
    optimizer.build([kernel, other])
    with pytest.warns(UserWarning, match="Gradients do not exist for variables"):
        optimizer.apply([gradient, None], [kernel, other])
    assert (value(kernel) < 1).all()
    assert (value(other) == 1).all()


# The losses on JAX, whose gradients are arrays.
LOSSES = [
    5.40318, 4.83384, 4.41738, 6.03853, 5.96499, 4.80222, 5.65819, 4.93680,
    4.73401, 4.56669, 5.91564, 5.97065, 5.13607, 4.40084, 4.25490, 4.73215,
    4.98306, 5.25637, 4.89408, 4.91867, 4.91756, 4.99591, 4.92902, 4.80768,
]  # fmt: skip


@pytest.mark.slow
def test_twenty_four_steps_of_pretraining_have_the_losses_of_jax():
    rng = np.random.default_rng(5)
    model = compiled(spread(small_model(), rng), optimizer=None, learning_rate=0.03, warmup_steps=4, decay_steps=40)
    losses = []
    for _ in range(24):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(*small_batch(rng, batch=3), return_dict=True)["loss"]))
    np.testing.assert_allclose(losses, LOSSES, rtol=0, atol=1e-4)
