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
from keras_bert_rebuild.models.checked_data import CheckedLoader, checked_data
from keras_bert_rebuild.models.flat_labels import flat_labels
from keras_bert_rebuild.models.host_check import IdRule, check_ids
from keras_bert_rebuild.models.label_means import LabelMeans, noted_means
from keras_bert_rebuild.models.memory import available_bytes

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
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)
        self._label_means = LabelMeans.of_compiled(self, loss, loss_weights)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras's own does nothing but warn where `compile` is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

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
        x, y = self._check_data(x, y)
        if isinstance(validation_data, (list, tuple)):
            validation_data = (*self._check_data(*validation_data[:2]), *validation_data[2:])
        elif validation_data is not None:
            validation_data, _ = self._check_data(validation_data)
        if validation_data is not None:
            kwargs["validation_data"] = validation_data
        if not (_is_arrays(x) or isinstance(x, keras.utils.PyDataset)) or isinstance(x, CheckedLoader):
            kwargs.setdefault("shuffle", False)  # it comes in an order of its own; Keras warns of its own default
        self._build_optimizer()
        return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("_use_cached_eval_dataset"):  # the validation data of `fit`, which has checked it
            x, y = self._check_data(x, y)
        return super().evaluate(x, y, *args, **kwargs)

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: str | int = "auto", steps: int | None = None, callbacks: Any = None
    ) -> Any:
        x, _ = self._check_data(x)
        self._check_prediction_fits(x, batch_size, steps)
        return super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._build_optimizer()
        return super().train_on_batch(*self._check_data(x, y), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().test_on_batch(*self._check_data(x, y), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        return super().predict_on_batch(self._check_data(x)[0])

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

    def _build_optimizer(self):
        """Let the optimizer make its state here, and take it up where it came from a legacy .h5 file, not inside a traced step.

        TensorFlow traces a step that makes variables twice.
        """
        if getattr(self.optimizer, "waiting_weights", None) is not None:
            self.optimizer.build(self.trainable_variables)
        elif keras.config.backend() == "tensorflow" and self.optimizer is not None and not self.optimizer.built:
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

    def _check_data(self, x, y=None):
        """Check what a user gives to `fit` and the like: arrays now, anything else batch by batch."""
        if _is_arrays(x):
            return self._check_batch((x, y))
        return checked_data(x, self._check_batch), y

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

    def _check_prediction_fits(self, x, batch_size, steps):
        """Refuse a prediction that would fill the memory, before it starts."""
        arrays = [value for value in keras.tree.flatten(x) if hasattr(value, "shape")] if _is_arrays(x) else []
        if not arrays or not arrays[0].shape:
            return
        examples = arrays[0].shape[0]
        if steps is not None:
            examples = min(examples, steps * (batch_size or 32))
        length = max((array.shape[1] for array in arrays if len(array.shape) > 1), default=1)
        shapes = [(examples, *(length if n is None else n for n in output.shape[1:])) for output in self.outputs]
        needed = sum(math.prod(shape) * _item_size(output) for shape, output in zip(shapes, self.outputs, strict=True))
        available = available_bytes()
        if available is not None and needed > available:
            shown = " and ".join(str(shape) for shape in shapes)
            raise MemoryError(
                f"predict would answer with arrays of shape {shown}, {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB of memory "
                "are free: predict fewer examples at a time, or only the outputs you need."
            )


def _item_size(tensor):
    name = keras.backend.standardize_dtype(tensor.dtype)
    return {"bfloat16": 2}.get(name) or np.dtype(name).itemsize


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
