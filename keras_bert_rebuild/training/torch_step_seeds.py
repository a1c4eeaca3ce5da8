"""Torch only: dropout as a function of seed and step."""

import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.training.counted_callback import CountedCallback


class TorchStepSeeds(CountedCallback):
    """Give torch's random numbers a new seed before every batch, made of a seed and the number of the step.

    On torch, Keras's dropout draws from the generator of the whole process unless its layer was given a seed, and that generator
    is used for other things too, at the start of every epoch for one: its state in a checkpoint would not do, and with this it need
    not be there. On other backends, where the seeds of the layers are part of the state, it does nothing.

    Args:
        seed: a whole number from 0 on.
        initial_step: batches trained before, that is `Checkpoint.step` of the one that the training goes on from.
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
