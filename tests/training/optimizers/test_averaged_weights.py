"""`averaged_weights` and the averages in an optimizer."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import linear_data, linear_model, product_loss, value
from helpers.small import small_model

from keras_bert_rebuild import AdamW
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.by_path import averaged_weights

pytestmark = pytest.mark.backend


def trained(rng, optimizer):
    weights, x, y = linear_data(rng, 6)
    model = linear_model(weights, optimizer)
    model.fit(x, y, batch_size=2, verbose=0)
    return model, x


def test_the_averages_are_in_the_model_inside_and_the_weights_afterwards(rng):
    model, x = trained(rng, Lamb(0.1, ema_momentum=0.5))
    weights = [value(w).copy() for w in model.weights]
    averages = [value(model.optimizer.average_of(w)).copy() for w in model.weights]
    answers = model.predict(x, verbose=0)
    with averaged_weights(model) as same:
        assert same is model
        for weight, average in zip(model.weights, averages, strict=True):
            np.testing.assert_array_equal(value(weight), average)
        assert np.abs(model.predict(x, verbose=0) - answers).max() > 1e-4
    for weight, before in zip(model.weights, weights, strict=True):
        np.testing.assert_array_equal(value(weight), before)
    np.testing.assert_array_equal(model.predict(x, verbose=0), answers)


def test_evaluating_inside_does_not_disturb_the_training(rng):
    weights, x, y = linear_data(rng, 6)
    after = []
    for evaluates in (True, False):
        model = linear_model(weights, AdamW(0.1, ema_momentum=0.5))
        for _ in range(2):
            model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
            if evaluates:
                with averaged_weights(model):
                    model.evaluate(x, y, batch_size=2, verbose=0)
        after.append([value(v) for v in model.weights + model.optimizer.variables])
    for evaluated, undisturbed in zip(*after, strict=True):
        np.testing.assert_array_equal(evaluated, undisturbed)


def test_a_model_saved_inside_has_the_averages_as_weights_and_as_averages(rng, tmp_path):
    model, _ = trained(rng, AdamW(0.1, ema_momentum=0.5))
    averages = [value(model.optimizer.average_of(w)).copy() for w in model.weights]
    with averaged_weights(model), averaged_weights(model):
        model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    for ours, theirs, average in zip(model.weights, copy.weights, averages, strict=True):
        np.testing.assert_array_equal(value(theirs), average)
        np.testing.assert_array_equal(value(copy.optimizer.average_of(theirs)), average)
        np.testing.assert_array_equal(value(model.optimizer.average_of(ours)), average)


def test_an_exception_inside_leaves_the_weights_as_they_were(rng):
    model, _ = trained(rng, AdamW(0.1, ema_momentum=0.5))
    weights = [value(w).copy() for w in model.weights]
    with pytest.raises(KeyError), averaged_weights(model):
        raise KeyError
    for weight, before in zip(model.weights, weights, strict=True):
        np.testing.assert_array_equal(value(weight), before)


def test_weights_of_half_precision_come_back_bit_by_bit(rng):
    keras.config.set_dtype_policy("bfloat16")
    model, _ = trained(rng, AdamW(0.1, ema_momentum=0.9))
    before = [value(w).copy() for w in model.weights]
    assert {keras.backend.standardize_dtype(w.dtype) for w in model.weights} == {"bfloat16"}
    with averaged_weights(model):
        assert (value(model.weights[0]) != before[0]).any()
    for weight, value_before in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(value(weight), value_before)


class WithIdleBias(keras.layers.Dense):
    """A dense layer with a weight that no output depends on."""

    def build(self, input_shape):
        super().build(input_shape)
        self.idle = self.add_weight(shape=(2,), initializer="random_normal", name="bias")


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
def test_a_weight_that_never_had_a_gradient_is_its_own_average(rng):
    inputs = keras.Input((3,))
    layer = WithIdleBias(4, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    model.compile(optimizer=AdamW(0.1, ema_momentum=0.5), loss=product_loss)
    _, x, y = linear_data(rng, 6)
    model.fit(x, y, batch_size=2, verbose=0)  # builds the optimizer, in a graph on TensorFlow
    idle = value(layer.idle).copy()
    assert np.abs(idle).min() > 0
    with averaged_weights(model):
        np.testing.assert_array_equal(value(layer.idle), idle)


def test_weights_loaded_after_the_build_are_averaged_without_the_old_ones():
    kernel = keras.Variable(np.zeros(3), name="kernel")
    optimizer = AdamW(0.1, weight_decay=0.0, ema_momentum=0.5)
    optimizer.build([kernel])
    kernel.assign(np.ones(3))
    np.testing.assert_array_equal(value(optimizer.average_of(kernel)), 1.0)
    optimizer.apply([np.ones(3, "float32")])
    np.testing.assert_allclose(value(optimizer.average_of(kernel)), 0.95, rtol=1e-6)


def test_averages_move_with_optimizer_steps_and_not_with_batches():
    kernel = keras.Variable(np.ones(1), name="kernel")
    optimizer = AdamW(0.1, weight_decay=0.0, ema_momentum=0.5, gradient_accumulation_steps=2)
    optimizer.build([kernel])
    seen = []
    for _ in range(6):
        optimizer.apply([np.ones(1, "float32")])
        seen.append(float(value(optimizer.average_of(kernel))[0]))
    # The weight is 0.9, 0.8, 0.7 after every second batch.
    np.testing.assert_allclose(seen, [1.0, 0.95, 0.95, 0.875, 0.875, 0.7875], atol=1e-5)


def test_frozen_weights_have_no_average(rng):
    model = small_model(trainable=["NSP", "MLM"])
    optimizer = AdamW(0.01, ema_momentum=0.5)
    optimizer.build(model.trainable_variables)
    assert optimizer.average_of(model.get_layer("Embedding-Token").embeddings) is None
    assert optimizer.average_of(model.get_layer("NSP").kernel) is not None


def test_a_callback_may_use_them_in_the_middle_of_an_epoch(rng):
    weights, x, y = linear_data(rng, 4)
    seen = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            with averaged_weights(self.model):
                seen.append(value(self.model.weights[0]).tobytes())

    after = []
    for callbacks in ([Look()], []):
        model = linear_model(weights, AdamW(0.1, ema_momentum=0.5))
        model.fit(x, y, batch_size=1, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
        after.append([value(v) for v in model.weights + model.optimizer.variables])
    assert len(set(seen)) == 8
    for looked_at, undisturbed in zip(*after, strict=True):
        np.testing.assert_array_equal(looked_at, undisturbed)


def test_without_averages_the_error_says_what_is_needed(rng):
    weights, _, _ = linear_data(rng, 1)
    for optimizer, error in (
        (None, "and an ema_momentum; got no optimizer"),
        (AdamW(0.01), "got AdamW without them"),
        (keras.optimizers.Adam(use_ema=True), "got Adam without them"),
    ):
        with pytest.raises(ValueError, match=error), averaged_weights(linear_model(weights, optimizer)):
            pass
