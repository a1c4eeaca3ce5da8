"""A small pretraining with everything that has a state, saved to a folder and resumed."""

import keras
import numpy as np

from helpers.numbered_batches import NumberedBatches
from helpers.small import compiled, small_batch, small_model
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW
from keras_bert_rebuild.training.optimizers.rate_schedules import WarmupLinearDecay
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds
from keras_bert_rebuild.training.state.train_state import write_state


def make_batch(number):
    return small_batch(np.random.default_rng([number, 5]))


def make_model(seed=7, **kwargs):
    """Dropout in both places; averages, accumulated gradients and a schedule in the optimizer."""
    keras.utils.set_random_seed(seed)
    rate = WarmupLinearDecay(1e-2, 2, 50)
    optimizer = AdamW(rate, ema_momentum=0.9, global_clipnorm=1.0, gradient_accumulation_steps=2)
    model = small_model(dropout_rate=0.1, attention_probs_dropout_prob=0.1, transformer_num=1)
    return compiled(model, optimizer=optimizer, max_predictions=4, **kwargs)


def train(folder, steps, every_steps=None, callbacks=(), workers=0, **kwargs):
    """Train to a step, from the newest checkpoint if there is one; the folder."""
    folder = folder if isinstance(folder, CheckpointFolder) else CheckpointFolder(folder)
    newest = folder.newest()
    done = newest.step if newest else 0
    model = make_model(seed=7 if done == 0 else 1000 + done, **kwargs)  # its initial state must not matter any more
    if newest:
        write_state(model, newest.arrays())
    if done < steps:
        save = SaveCheckpoints(folder, every_steps, initial_step=done)
        seeds = TorchStepSeeds(seed=3, initial_step=done)
        batches = NumberedBatches(make_batch, done, steps, workers=workers)
        model.fit(batches, shuffle=False, verbose=0, callbacks=[save, seeds, *callbacks])
    return folder
