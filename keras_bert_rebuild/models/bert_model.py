"""A functional model that checks its ids on the host."""

import math
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import compiles_ahead, train_compiled_ahead
from keras_bert_rebuild.models.batch_check import check_inputs
from keras_bert_rebuild.models.checked_data import CheckedPyDataset, begin_preview, checked, ending_threads, in_epochs, is_arrays
from keras_bert_rebuild.models.compiled_functions import follow_interventions, forget_functions, traced_again
from keras_bert_rebuild.models.device_logs import device_logs, stays_on_device
from keras_bert_rebuild.models.devices_in_use import parts_of_batch, warn_of_unused_devices
from keras_bert_rebuild.models.head_answers import answer_of, check_losses
from keras_bert_rebuild.models.label_means import LabelMeans, noted_means
from keras_bert_rebuild.models.loss_protocols import Ignores
from keras_bert_rebuild.models.masked_positions import flat_labels
from keras_bert_rebuild.models.memory import check_prediction_fits
from keras_bert_rebuild.models.step_plan import PREDICT, TEST, TRAIN, running, running_step

# The attribute of the outputs of a clone that has yet to be made, with the attributes of the original.
CLONED = "_of_original"


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class BertModel(keras.Model):
    """A functional model whose `fit`, `evaluate`, `predict` and call refuse invalid ids, which no backend reports.

    Ids outside their table, sequences longer than the position table, ragged arrays and floats that are not whole numbers each
    raise a `ValueError` that says what was expected, what was found and where. Whole numbers given as floats are accepted.

    Reported losses are means over all labels of an epoch. A subclass with a `train_step` or `test_step` of its own reports what
    that returns, as in Keras.
    """

    config: Any = None
    """The `BertConfig` that the graph was built from, saved with the model; None for a model assembled by hand."""

    not_in_graph: tuple[str, ...] = ("config",)  # attributes that a clone gets besides the graph

    _previewed = None  # the dataset of a training or an evaluation that has not started yet
    _label_means: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for tensor in keras.tree.flatten(self.outputs):
            self.__dict__.update(tensor.__dict__.pop(CLONED, {}))

    def _run_through_graph(self, *args, **kwargs):
        # `clone_model` calls this with copies of the layers, and then makes a model of the outputs, without `from_config`.
        outputs = super()._run_through_graph(*args, **kwargs)
        for tensor in keras.tree.flatten(outputs):
            history = getattr(tensor, "_keras_history", None)
            if history is not None and history.operation not in self.operations:
                tensor.__dict__[CLONED] = {name: getattr(self, name) for name in self.not_in_graph}
        return outputs

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
        if running_step(self) is None:
            inputs = check_inputs(self, inputs)
        return super().__call__(inputs, *args, **kwargs)

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, *args: Any, **kwargs: Any) -> None:
        check_losses(self.output_names, loss, self._answer_of)
        self._check_one_step_per_call(kwargs.get("steps_per_execution", 1))
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)
        forget_functions(self)
        # Steps of others update every metric themselves, with labels and predictions.
        steps_of_keras = all(getattr(type(self), step) is getattr(BertModel, step) for step in ("train_step", "test_step"))
        self._label_means = LabelMeans.of_compiled(self, loss, loss_weights) if steps_of_keras else None

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras's method only warns if `compile` is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return super().metrics if self._label_means is None else [*super().metrics, self._label_means.metric]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        # Now, not later: inside a JAX gradient, values can only be returned through the variables of metrics.
        with noted_means() as notes:
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if self._label_means is not None and running_step(self) is not None:
            self._label_means.update(notes, self.losses, ops.shape(keras.tree.flatten(y_pred)[0])[0])
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if isinstance(self.loss, Ignores) and self.loss.ignored is not None:
            labels = ops.reshape(y, ops.shape(y_pred)[:-1])
            y, y_pred, sample_weight = flat_labels(labels, y_pred, ops.not_equal(labels, self.loss.ignored), sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        return results if self._label_means is None else self._label_means.reported(results)

    def fit(self, x: Any = None, y: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any) -> keras.callbacks.History:
        warn_of_unused_devices(self)
        _check_class_weight(self, kwargs.get("class_weight"))
        parts, batch_size = parts_of_batch(self), args[0] if args else kwargs.get("batch_size")
        x, y = checked(x, y, self._check_batch, parts, batch_size, kwargs.get("validation_split", 0.0))
        if isinstance(validation_data, (list, tuple)):
            val_x, val_y = (*validation_data, None)[:2]
            held_out = checked(val_x, val_y, self._check_batch, parts, kwargs.get("validation_batch_size") or batch_size)
            validation_data = (*held_out, *validation_data[2:])
        elif validation_data is not None:
            validation_data, _ = checked(validation_data, None, self._check_batch, parts)
        if validation_data is not None:
            kwargs["validation_data"] = validation_data
        if isinstance(x, CheckedPyDataset):
            kwargs["shuffle"] = x.take_shuffle(kwargs.get("shuffle"))
            x.puts_ahead = kwargs.get("class_weight") is None  # Keras needs labels in NumPy to weight them
        elif not is_arrays(x):
            kwargs.setdefault("shuffle", False)  # the dataset has its own order, and Keras would warn about its default
        self._previewed = begin_preview(x)
        _build_optimizer(self)
        if len(args) < 2 and stays_on_device(kwargs.get("callbacks")) and not is_arrays(x):
            kwargs["callbacks"] = device_logs(self, x, kwargs)
        with ending_threads(x, validation_data):
            if validation_data is not None and kwargs.get("validation_steps") is None:
                kwargs["validation_data"] = in_epochs(validation_data, {}, parts)
            history = super().fit(x if args else in_epochs(x, kwargs, parts), y, *args, **kwargs)
            if self.stop_training and isinstance(x, CheckedPyDataset):
                x.leave_epoch()
            return history

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_use_cached_eval_dataset"):  # the validation data of `fit`, which has checked it
            return super().evaluate(x, y, *args, **kwargs)
        parts = parts_of_batch(self)
        x, y = checked(x, y, self._check_batch, parts, args[0] if args else kwargs.get("batch_size"))
        self._previewed = begin_preview(x)
        with ending_threads(x):
            return super().evaluate(x if args else in_epochs(x, kwargs, parts), y, *args, **kwargs)

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: str | int = "auto", steps: int | None = None, callbacks: Any = None
    ) -> Any:
        parts = _parts_of_any(self)
        x, _ = checked(x, None, self._check_batch, parts, batch_size)
        if is_arrays(x):
            check_prediction_fits(self.outputs, x, batch_size, steps)
        with ending_threads(x):
            read = in_epochs(x, {"steps": steps}, parts)
            return super().predict(read, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        warn_of_unused_devices(self)
        _check_class_weight(self, kwargs.get("class_weight"))
        _build_optimizer(self)
        return super().train_on_batch(*self._check_single(x, y), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().test_on_batch(*self._check_single(x, y), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        return super().predict_on_batch(self._check_single(x)[0])

    def make_train_function(self, force: bool = False) -> Any:
        data = self._previewed
        self._end_preview()
        follow_interventions(self)
        before = self.train_function
        with traced_again(self, "train_step"):
            made = super().make_train_function(force)
        if data is not None and self.train_function is not before and compiles_ahead(self):
            train_compiled_ahead(self, data.one_of_each_shape())
        return made

    def make_test_function(self, force: bool = False) -> Any:
        self._end_preview()
        follow_interventions(self)
        with traced_again(self, "test_step"):
            return super().make_test_function(force)

    def make_predict_function(self, force: bool = False) -> Any:
        follow_interventions(self)
        return super().make_predict_function(force)

    def train_step(self, *args: Any) -> Any:
        with running(self, TRAIN, self._labels_for_call(args[-1])):
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        with running(self, TEST, self._labels_for_call(args[-1])):
            return super().test_step(*args)

    def predict_step(self, *args: Any) -> Any:
        with running(self, PREDICT):
            return super().predict_step(*args)

    def _check_one_step_per_call(self, steps):
        strategy = getattr(self, "distribute_strategy", None)
        if steps != 1 and strategy is not None and strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"steps_per_execution must be 1 under distribute('mirrored'); got {steps}: use distribute('data') on JAX."
            )

    def _answer_of(self, head, loss):
        """What a head returns in a step compiled with this loss."""
        return answer_of(self, head)

    def _labels_for_call(self, batch):
        """The labels of a batch that `call` needs in a training or test step; None if it needs none."""

    def _check_batch(self, batch):
        """The batch to use, of the same structure, checked on the host."""
        return (check_inputs(self, batch[0]), *batch[1:]) if isinstance(batch, tuple) else check_inputs(self, batch)

    def _check_single(self, x, y=None):
        """Check a batch that is not part of a dataset."""
        return checked(x, y, self._check_batch, _parts_of_any(self), math.inf)

    def _end_preview(self):
        """Tell the dataset of a training or an evaluation that the preview has ended and epochs begin."""
        if self._previewed is not None:
            self._previewed.in_preview = False
        self._previewed = None


def _check_class_weight(model, class_weight):
    if class_weight is not None and "MLM" in model.output_names:
        raise ValueError(
            f"class_weight must be None for labels that are tokens, such as those of MLM; got {class_weight!r:.80}: weight "
            "examples or labels with sample_weight."
        )


def _build_optimizer(model):
    """Let the optimizer create its state here, or restore it from a legacy .h5 file, rather than inside a traced step.

    TensorFlow traces a step twice if it creates variables.
    """
    if getattr(model.optimizer, "waiting_weights", None) is not None:
        model.optimizer.build(model.trainable_variables)
    elif traits.builds_optimizers_before_a_step() and model.optimizer is not None and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def _parts_of_any(model):
    """The number of equal parts that a batch is split into in any step, including predictions and single batches."""
    return 1 if traits.gives_replicas_whole_single_batches() else parts_of_batch(model)
