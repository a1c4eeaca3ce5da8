"""Torch only: dropout as a function of seed and step."""

import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.training.state.callbacks import CountedCallback


class TorchStepSeeds(CountedCallback):
    """Seeds torch's random numbers before every batch with a seed and the number of the step.

    On torch, Keras's dropout uses the generator of the process unless its layer has a seed. That generator is also used for other
    things, such as at the start of every epoch, so that saving its state would not make a training reproducible; with this callback
    it need not be saved. On other backends, where the seeds of the layers are part of the state, it does nothing.

    Args:
        seed: a whole number of at least 0.
        initial_step: number of batches trained before, `Checkpoint.step` of the checkpoint that the training resumes from.
    """

    def __init__(self, seed=0, initial_step=0):
        super().__init__(initial_step)
        self.seed = seed

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch, logs)
        if traits.draws_dropout_from_the_process():
            import torch

            torch.manual_seed(int(np.random.SeedSequence([self.seed, self.step]).generate_state(1, "uint64")[0] >> 1))

    def on_train_batch_end(self, batch, logs=None):
        self.count(batch)
