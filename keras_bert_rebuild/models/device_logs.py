"""Callbacks of a training whose logs stay on the device until a callback reads them."""

import time
from typing import Any

import keras

# Seconds between two updates of the progress bar, each of which waits for the device.
BAR_SECONDS = 1.0


class DeviceLogs(keras.callbacks.CallbackList):
    """A list of callbacks that passes on the logs of a batch as scalars on the device.

    If any callback is called after a batch, Keras's own list converts all logs to numbers, so that the host waits for every step.
    Here a callback must have `reads_logs_itself = True`, do nothing after a batch, or be the progress bar, which is called once a
    second.

    Args:
        callbacks: the user's callbacks, all of which `stays_on_device` accepts.
        **kwargs: as for `keras.callbacks.CallbackList`.
    """

    def __init__(self, callbacks: list[Any], **kwargs: Any) -> None:
        super().__init__(callbacks, add_history=True, **kwargs)
        self._readers = [callback for callback in self.callbacks if getattr(callback, "reads_logs_itself", False)]
        self._bars = [callback for callback in self.callbacks if isinstance(callback, keras.callbacks.ProgbarLogger)]
        self._shown = -BAR_SECONDS

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        for callback in self._readers:
            callback.on_train_batch_end(batch, logs)
        if self._bars and time.monotonic() - self._shown >= BAR_SECONDS:
            numbers = as_numbers(logs)
            for bar in self._bars:
                bar.on_train_batch_end(batch, numbers)
            self._shown = time.monotonic()


def device_logs(model: Any, data: Any, arguments: dict[str, Any]) -> Any:
    """The `DeviceLogs` of a training, with the parameters that Keras passes to callbacks.

    Args:
        model: the model that is trained.
        data: its batches, not arrays.
        arguments: the arguments of `fit`, with callbacks that `stays_on_device` accepts.

    Returns:
        The list; or the callbacks unchanged if only Keras can determine the number of steps.
    """
    steps, callbacks = arguments.get("steps_per_epoch"), arguments["callbacks"]
    if steps is None and isinstance(data, keras.utils.PyDataset):
        steps = data.num_batches
    elif steps is None:
        if not hasattr(data, "cardinality"):
            return callbacks
        steps = int(data.cardinality())
        steps = steps if steps >= 0 else None  # TensorFlow's values for unknown and for infinite
    verbose = arguments.get("verbose", "auto")
    shown = {"add_progbar": verbose != 0, "verbose": verbose}
    return DeviceLogs(list(callbacks), model=model, epochs=arguments.get("epochs", 1), steps=steps, **shown)


def stays_on_device(callbacks: Any) -> bool:
    """Whether no callback except the progress bar needs numbers after every batch, and at least one reads them itself."""
    if not isinstance(callbacks, (list, tuple)):
        return False
    reads = [getattr(callback, "reads_logs_itself", False) for callback in callbacks]
    return any(reads) and all(itself or _is_idle(callback) for itself, callback in zip(reads, callbacks, strict=True))


def _is_idle(callback):
    """Whether a callback does nothing after a training batch."""
    kind, base = type(callback), keras.callbacks.Callback
    if not isinstance(callback, base):
        return False
    return kind.on_train_batch_end is base.on_train_batch_end and kind.on_batch_end is base.on_batch_end


def as_numbers(logs: Any) -> dict[str, float]:
    """The logs of a batch as numbers by name; waits for the device."""
    numbers: dict[str, float] = {}
    for name, value in (logs or {}).items():
        if isinstance(value, dict):
            numbers.update(as_numbers(value))
        else:
            numbers[name] = float(value)
    return numbers
