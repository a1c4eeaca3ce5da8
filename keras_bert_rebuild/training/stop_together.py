"""The callback that ends the training of all hosts after the same batch when one host receives a signal."""

import signal

from keras_bert_rebuild.training.hosts import gathered
from keras_bert_rebuild.training.stop_signal import StopOnSignal


class StopTogether(StopOnSignal):
    """`StopOnSignal` for several hosts: after every batch they exchange whether a signal came.

    If a host stopped alone, the others would wait for it within a step. `received` is the same on all hosts.
    """

    _signal_number = 0

    def on_train_batch_end(self, batch, logs=None):
        self._exchange()
        super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        self._exchange()
        super().on_test_batch_end(batch, logs)

    def _install(self):
        self._signal_number = 0
        super()._install()

    def _exchange(self):
        number = int(gathered([self._signal_number]).max())
        if number:
            self.received = signal.Signals(number)

    def _stop(self, number, frame):
        self._signal_number = number
        self.restore()
