"""A functional model that checks its ids on the host."""

import contextlib
import math
import threading
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.checked_data import CheckedPyDataset, checked_data, threads_of
from keras_bert_rebuild.models.devices_in_use import parts_of_batch, warn_of_unused_devices
from keras_bert_rebuild.models.even_parts import check_even_batches, checking_even
from keras_bert_rebuild.models.flat_labels import flat_labels
from keras_bert_rebuild.models.head_answers import answer_of, check_losses
from keras_bert_rebuild.models.host_check import IdRule, check_ids
from keras_bert_rebuild.models.label_means import LabelMeans, noted_means
from keras_bert_rebuild.models.prediction_memory import check_prediction_fits

# Which model of this thread is inside one of its compiled steps. Replicas of MirroredStrategy are threads: an attribute of the
# model would leak from one to the other.
_STEP = threading.local()

# The layer whose table an input indexes, and what its rows are.
ID_INPUTS = {
    "Input-Token": ("Embedding-Token", "the tokens of the vocabulary"),
    "Input-Segment": ("Embedding-Segment", "the segments of the model"),
    "Input-Task": ("Embedding-Task", "the tasks of the model"),
    "Input-Masked": (None, ""),
    "Input-Mask": (None, ""),
}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class BertModel(keras.Model):
    """A `keras.Model` of BERT inputs whose `fit`, `evaluate`, `predict` and call refuse what no backend reports.

    Ids outside their table, sequences longer than the position table, ragged arrays, floats that are not whole numbers: each is a
    `ValueError` that says what was expected, what came and where. Whole numbers given as floats are accepted.
    """

    config: Any = None
    """The `BertConfig` that the graph was built from, saved with the model; None for a model put together by hand."""

    _looked_at = None  # the dataset of a training or an evaluation that has not yet begun
    _label_means: Any = None

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.config is not None:
            config["bert_config"] = keras.saving.serialize_keras_object(self.config.to_dict())
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
        config = dict(config)
        bert_config = config.pop("bert_config", None)
        model = super().from_config(config, custom_objects=custom_objects)
        if bert_config is not None:
            values = keras.saving.deserialize_keras_object(bert_config, custom_objects=custom_objects)
            model.config = BertConfig.from_dict(values)
        return model

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._in_step():
            inputs = self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, *args: Any, **kwargs: Any) -> None:
        check_losses(self.output_names, loss, self._answer_of)
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)
        self._label_means = LabelMeans.of_compiled(self, loss, loss_weights)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras's own does nothing but warn where `compile` is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def _answer_of(self, head, loss):
        """What a head answers with in a step that is compiled with this loss."""
        return answer_of(self, head)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return super().metrics if self._label_means is None else [*super().metrics, self._label_means.metric]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        # Not later: what is computed inside of a gradient of JAX leaves it in the variables of metrics alone.
        with noted_means() as notes:
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if self._label_means is not None:
            self._label_means.update(notes, self.losses, ops.shape(keras.tree.flatten(y_pred)[0])[0])
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        ignored = getattr(self.loss, "ignored", None)
        if ignored is not None:
            labels = ops.reshape(y, ops.shape(y_pred)[:-1])
            y, y_pred, sample_weight = flat_labels(labels, y_pred, ops.not_equal(labels, ignored), sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        return results if self._label_means is None else self._label_means.reported(results)

    def fit(self, x: Any = None, y: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any) -> keras.callbacks.History:
        warn_of_unused_devices(self)
        self._check_class_weight(kwargs.get("class_weight"))
        parts, batch_size = parts_of_batch(self), args[0] if args else kwargs.get("batch_size")
        x, y = self._check_data(x, y, parts, batch_size, kwargs.get("validation_split", 0.0))
        if isinstance(validation_data, (list, tuple)):
            val_x, val_y = (*validation_data, None)[:2]
            held_out = self._check_data(val_x, val_y, parts, kwargs.get("validation_batch_size") or batch_size)
            validation_data = (*held_out, *validation_data[2:])
        elif validation_data is not None:
            validation_data, _ = self._check_data(validation_data, None, parts)
        if validation_data is not None:
            kwargs["validation_data"] = validation_data
        if isinstance(x, CheckedPyDataset):
            kwargs["shuffle"] = x.take_shuffle(kwargs.get("shuffle"))
        elif not _is_arrays(x):
            kwargs.setdefault("shuffle", False)  # it comes in an order of its own; Keras warns of its own default
        self._let_look(x)
        self._build_optimizer()
        with threads_of(x, validation_data):
            return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_use_cached_eval_dataset"):  # the validation data of `fit`, which has checked it
            return super().evaluate(x, y, *args, **kwargs)
        x, y = self._check_data(x, y, parts_of_batch(self), args[0] if args else kwargs.get("batch_size"))
        self._let_look(x)
        with threads_of(x):
            return super().evaluate(x, y, *args, **kwargs)

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: str | int = "auto", steps: int | None = None, callbacks: Any = None
    ) -> Any:
        x, _ = self._check_data(x, None, self._parts_of_any(), batch_size)
        if _is_arrays(x):
            check_prediction_fits(self.outputs, x, batch_size, steps)
        with threads_of(x):
            return super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        warn_of_unused_devices(self)
        self._check_class_weight(kwargs.get("class_weight"))
        self._build_optimizer()
        return super().train_on_batch(*self._check_single(x, y), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().test_on_batch(*self._check_single(x, y), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        return super().predict_on_batch(self._check_single(x)[0])

    def make_train_function(self, force: bool = False) -> Any:
        self._begin()
        return super().make_train_function(force)

    def make_test_function(self, force: bool = False) -> Any:
        self._begin()
        return super().make_test_function(force)

    def train_step(self, *args: Any) -> Any:
        with self._step("train", args[-1]):
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        with self._step("test", args[-1]):
            return super().test_step(*args)

    def predict_step(self, *args: Any) -> Any:
        with self._step("predict"):
            return super().predict_step(*args)

    @contextlib.contextmanager
    def _step(self, kind, batch=None):
        outer = getattr(_STEP, "now", None)
        _STEP.now = (self, kind, batch)
        try:
            yield
        finally:
            _STEP.now = outer

    def _in_step(self, *kinds):
        """Whether this thread is inside a step of this model, of one of these kinds if any are given."""
        model, kind, _ = getattr(_STEP, "now", None) or (None, None, None)
        return model is self and (not kinds or kind in kinds)

    def _step_labels(self):
        """The labels of the batch of the training or test step that this thread is in."""
        return keras.utils.unpack_x_y_sample_weight(_STEP.now[2])[1]

    def _check_class_weight(self, class_weight):
        if class_weight is not None and "MLM" in self.output_names:
            raise ValueError(
                f"class_weight must be left out where labels are tokens, as those of MLM are; got {class_weight!r:.80}: weigh "
                "examples or labels by sample_weight."
            )

    def _let_look(self, x):
        """Tell a dataset that Keras may take a look at its first batch, to build metrics, before its epochs begin."""
        self._looked_at = x if isinstance(x, CheckedPyDataset) else None
        if self._looked_at is not None:
            self._looked_at.looked_at = True

    def _begin(self):
        if self._looked_at is not None:
            self._looked_at.looked_at = False
        self._looked_at = None

    def _build_optimizer(self):
        """Let the optimizer make its state here, and take it up where it came from a legacy .h5 file, not inside a traced step.

        TensorFlow traces a step that makes variables twice.
        """
        if getattr(self.optimizer, "waiting_weights", None) is not None:
            self.optimizer.build(self.trainable_variables)
        elif traits.builds_optimizers_before_a_step() and self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def _id_rule(self, name):
        """The rule for an input, from the tables of the model."""
        table, rows = ID_INPUTS.get(name, (None, ""))
        layers = {layer.name: layer for layer in self.layers}
        position = layers.get("Embedding-Position")
        return IdRule(
            name,
            limit=layers[table].input_dim if table in layers else None,
            table=rows,
            max_length=position.max_length if position is not None and name != "Input-Task" else None,
        )

    def _check_data(self, x, y=None, parts=1, batch_size=None, split=0.0):
        """Check what a user gives to `fit` and the like: arrays now, anything else batch by batch."""
        if not _is_arrays(x):
            return checked_data(x, checking_even(parts, self._check_batch)), y
        x, y = self._check_batch((x, y))
        check_even_batches(parts, x, batch_size, split)
        return x, y

    def _check_single(self, x, y=None):
        """Check a batch that is given alone."""
        return self._check_data(x, y, self._parts_of_any(), math.inf)

    def _parts_of_any(self):
        """How many equal parts a batch must have in any step, also in a prediction or where it comes alone."""
        return 1 if traits.gives_replicas_whole_single_batches() else parts_of_batch(self)

    def _check_batch(self, batch):
        x, *rest = batch if isinstance(batch, tuple) else (batch,)
        return (self._check_inputs(x), *rest)

    def _check_inputs(self, x):
        """Inputs with integers for what the host holds; what lies on a device or is symbolic stays as it is."""
        names = [tensor.name for tensor in self.inputs]
        if isinstance(x, dict):
            # Of a graph whose inputs are a dictionary the keys need not be the names.
            if not isinstance(self.input, dict) and not set(names) <= set(x):
                raise ValueError(f"expected the inputs {', '.join(names)}; got {', '.join(map(str, x))}.")
            return {name: self._check_input(name, value) if name in names else value for name, value in x.items()}
        if isinstance(x, (list, tuple)) and len(names) > 1:
            if len(x) != len(names):
                raise ValueError(f"expected {len(names)} inputs, {', '.join(names)}; got {len(x)}.")
            return tuple(self._check_input(name, value) for name, value in zip(names, x, strict=True))
        return self._check_input(names[0], x) if len(names) == 1 else x

    def _check_input(self, name, value):
        if name not in ID_INPUTS or value is None or isinstance(value, keras.KerasTensor):
            return value
        if not keras.ops.is_tensor(value):
            return check_ids(self._id_rule(name), value).astype("int32")
        on_host = concrete(value)
        if on_host is not None:
            check_ids(self._id_rule(name), on_host)
        return value


def _is_arrays(x):
    """Whether these are arrays or nested lists of them, so that they can be checked whole."""
    if isinstance(x, dict):
        return True
    return isinstance(x, (np.ndarray, list, tuple)) or keras.ops.is_tensor(x)


def concrete(values):
    """The values of a tensor or an array on the host, or None while a function is traced."""
    if not keras.ops.is_tensor(values):
        return values if values is None else np.asarray(values)
    try:
        return keras.ops.convert_to_numpy(values)
    except (TypeError, NotImplementedError, RuntimeError):  # JAX's tracers, TensorFlow's symbolic tensors, torch's fake tensors
        return None
