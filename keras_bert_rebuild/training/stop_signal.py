"""The callback that ends a training cleanly on a signal."""

import signal
import threading

import keras


class StopOnSignal(keras.callbacks.Callback):
    """Finishes the current batch when a signal comes, then stops; `SaveCheckpoints`, in any order, then writes a checkpoint.

    A second signal has its usual effect. The handlers are installed when training begins and restored when it ends or the first
    signal comes. As a context, it has them installed throughout, across several calls of `fit`, and restores them also after an
    error:

        with StopOnSignal() as stop:
            model.fit(batches, callbacks=[SaveCheckpoints(folder, every_steps=1000), stop])
            if stop.received is None:
                model.evaluate(held_out)

    Python delivers signals only to the main thread: in any other thread this does nothing.

    Args:
        signals: those that stop the training.
    """

    def __init__(self, signals=(signal.SIGTERM, signal.SIGINT)):
        super().__init__()
        self.signals = tuple(signals)
        self.received = None
        """The signal that stopped the training, a `signal.Signals`; None if none came."""
        self._former = {}
        self._is_context = False
        self._trained = None

    def __enter__(self):
        self._is_context, self.received = True, None
        self._install()
        return self

    def __exit__(self, *error):
        self._is_context = False
        self.restore()

    def set_model(self, model):
        super().set_model(model)
        self._trained = model  # `self.model` would fetch the state from the JAX trainer, in the middle of a step

    def on_train_begin(self, logs=None):
        if not self._is_context:
            self.received = None
            self._install()

    def on_train_batch_end(self, batch, logs=None):
        # `fit` resets this when it begins, and another callback may do so.
        if self.received is not None:
            self._trained.stop_training = True

    def on_test_batch_end(self, batch, logs=None):
        if self.received is not None:
            self._trained.stop_evaluating = True

    def on_train_end(self, logs=None):
        if not self._is_context:
            self.restore()

    def restore(self):
        """Restore the former handlers."""
        former, self._former = self._former, {}
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's

    def _install(self):
        self.restore()
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._stop) for number in self.signals}

    def _stop(self, number, frame):
        self.received = signal.Signals(number)
        self.restore()
        if self._trained is not None:
            self._trained.stop_training = self._trained.stop_evaluating = True
