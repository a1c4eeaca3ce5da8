"""The checkpoints of a fine-tuning: an interrupted one resumes at the exact batch and reaches the same weights."""

import shutil

from keras_bert_rebuild.data.batches import EpochBatches
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError, StoppedError
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.checkpoint_writer import CheckpointWriter, SpoiledStateError
from keras_bert_rebuild.training.state.train_state import write_state


class FinetuneCheckpoints:
    """The checkpoints of a run: one after every `every` steps, and one after the last step if a signal stops it.

    Args:
        folder: the folder of the run.
        every: optimizer steps between two checkpoints.
        signals: a `StopOnSignal`.
    """

    def __init__(self, folder, every, signals):
        self.folder = CheckpointFolder(folder / "checkpoints", keep=1)
        self.every, self.signals = every, signals
        self._writer = CheckpointWriter(self.folder, traits.runs_on_accelerator())
        self._saved = None

    def restore(self, model):
        """Restore a compiled model from the newest checkpoint.

        Returns:
            The step after which it was written, 0 without a checkpoint, and the facts saved with it.
        """
        checkpoint = self.folder.newest()
        if checkpoint is None:
            return 0, None
        write_state(model, checkpoint.arrays())
        return checkpoint.step, checkpoint.facts

    def is_due(self, step):
        """Whether a checkpoint is due after a step."""
        return step % self.every == 0

    @property
    def stops(self):
        """Whether a signal has arrived."""
        return self.signals.received is not None

    def save(self, step, model, facts):
        """Write a checkpoint, or start to; an error of the previous one is raised here."""
        if self._saved == step:
            return
        self._saved = step
        try:
            self._writer.save(step, model, facts)
        except SpoiledStateError as error:
            raise NonFiniteLossError(f"After step {error.step} {error}; no checkpoint of it was written.") from None

    def finish(self, callback):
        """Wait until all is written; after a signal, also save the state after the last step of a `FinetuneCallback`.

        Raises:
            StoppedError: a signal stopped the run before its end.
        """
        step, steps = callback.step, callback.steps
        stopped = self.stops and step < steps and not callback.is_over
        if stopped:
            self.save(step, callback.model, callback.facts())
        self._writer.wait()
        if stopped:
            stopped = StoppedError(f"Stopped after step {step:,} of {steps:,}, which is in a checkpoint.")
            stopped.signal = int(self.signals.received)
            raise stopped

    def remove(self):
        """Delete the checkpoints of a finished run: its result is the model."""
        shutil.rmtree(self.folder.path, ignore_errors=True)


class RestOfEpoch(EpochBatches):
    """The batches of an epoch, starting at one of them.

    Args:
        batches: `BucketedBatches`, or others with `batches(epoch)`.
        epoch: the number of the epoch.
        first: the index of the first batch.
    """

    def __init__(self, batches, epoch, first):
        super().__init__(start_epoch=epoch, workers=batches.made_ahead_by)
        self.of, self.first = batches, first

    def __len__(self):
        return len(self.of) - self.first

    def batches(self, epoch):
        """The `Bucket`s of all batches of the epoch."""
        return self.of.batches(epoch)

    def batch(self, epoch, index):
        return self.of.batch(epoch, self.first + index)

    def one_of_each_shape(self):
        """As of the whole epoch."""
        return self.of.one_of_each_shape()

    def __getitem__(self, index):
        if self._requested is None and index == 1:
            # Before an epoch, Keras inspects two batches to find out which dimensions vary on TensorFlow.
            lengths = [bucket.length for bucket in self.batches(self.epoch)[self.first :]]
            index = next((i for i, length in enumerate(lengths) if length != lengths[0]), index)
        return super().__getitem__(index)
