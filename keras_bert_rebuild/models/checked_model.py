"""A model whose data is checked on the host before it reaches a device, around Keras's own methods."""

import math
from typing import Any

import keras

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import compiles_ahead, train_compiled_ahead
from keras_bert_rebuild.models.batch_check import check_inputs
from keras_bert_rebuild.models.checked_data import CheckedPyDataset, begin_preview, checked, ending_threads, in_epochs, is_arrays
from keras_bert_rebuild.models.device_logs import device_logs, stays_on_device
from keras_bert_rebuild.models.devices_in_use import parts_of_batch, warn_of_unused_devices
from keras_bert_rebuild.models.memory import check_prediction_fits
from keras_bert_rebuild.models.running_step import PREDICT, follow_execution, running, running_step, traced_again


class CheckedModel(keras.Model):
    """A functional model whose `fit`, `evaluate`, `predict` and call refuse invalid ids, which no backend reports.

    Ids outside their table, sequences longer than the position table, ragged arrays and floats that are not whole numbers each
    raise a `ValueError` that says what was expected, what was found and where. Whole numbers given as floats are accepted.
    """

    _previewed = None  # the dataset of a training or an evaluation that has not started yet

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if running_step(self) is None:
            inputs = check_inputs(self, inputs)
        return super().__call__(inputs, *args, **kwargs)

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
        follow_execution(self)
        parts = _parts_of_any(self)
        x, _ = checked(x, None, self._check_batch, parts, batch_size)
        if is_arrays(x):
            check_prediction_fits(self.outputs, x, batch_size, steps)
        with ending_threads(x):
            read = in_epochs(x, {"steps": steps}, parts)
            with running(self, PREDICT):
                return super().predict(read, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        warn_of_unused_devices(self)
        _check_class_weight(self, kwargs.get("class_weight"))
        _build_optimizer(self)
        return super().train_on_batch(*self._check_single(x, y), *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().test_on_batch(*self._check_single(x, y), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        follow_execution(self)
        x, _ = self._check_single(x)
        with running(self, PREDICT):
            return super().predict_on_batch(x)

    def make_train_function(self, force: bool = False) -> Any:
        data = self._previewed
        self._end_preview()
        follow_execution(self)
        before = self.train_function
        with traced_again(self, "train_step"):
            made = super().make_train_function(force)
        if data is not None and self.train_function is not before and compiles_ahead(self):
            train_compiled_ahead(self, data.one_of_each_shape())
        return made

    def make_test_function(self, force: bool = False) -> Any:
        self._end_preview()
        follow_execution(self)
        with traced_again(self, "test_step"):
            return super().make_test_function(force)

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
