"""The callback that lets a signal to one host end the training of all hosts, behind the same batch."""

import signal

from keras_bert_rebuild.training.hosts import gathered
from keras_bert_rebuild.training.stop_signal import StopOnSignal


class StopTogether(StopOnSignal):
    """`StopOnSignal` where several hosts train: behind every batch they ask each other whether a signal came.

    A host that stopped by itself would leave the others in the midst of a step that waits for it. `received` is then the same on
    all hosts.
    """

    _noted = 0

    def on_train_batch_end(self, batch, logs=None):
        self._ask()
        super().on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        self._ask()
        super().on_test_batch_end(batch, logs)

    def _install(self):
        self._noted = 0
        super()._install()

    def _ask(self):
        number = int(gathered([self._noted]).max())
        if number:
            self.received = signal.Signals(number)

    def _stop(self, number, frame):
        self._noted = number
        self.restore()
