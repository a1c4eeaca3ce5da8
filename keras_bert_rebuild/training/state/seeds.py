"""The seeds of a training: the generators of a model by name, and on torch dropout as a function of seed and step."""

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.training.state.callbacks import CountedCallback


def seed_generators(model):
    """All seed generators of a model, including those of nested layers.

    Args:
        model: a Keras model.

    Returns:
        A list of `(name, generator)`. A name has the layers from the outermost to the owner, and the attribute, as in
        `Encoder-1-MultiHeadSelfAttention/dropout/seed_generator`. As in the paths of weights, nested models are left out.
    """
    generators, seen = [], {id(model)}
    waiting = [("", model)]
    while waiting:  # breadth first, so that a shared generator has its shortest name
        path, owner = waiting.pop(0)
        for attribute, value in _attributes(owner):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, keras.random.SeedGenerator):
                generators.append((path + attribute, value))
            elif isinstance(value, keras.Model):
                waiting.append((path, value))
            else:
                waiting.append((f"{path}{value.name}/", value))
    return generators


def _attributes(owner):
    """The layers and seed generators of an object, also those in lists and dictionaries, each with its attribute."""
    layers = owner.layers if isinstance(owner, keras.Model) else []
    yield from (("layers", layer) for layer in layers)
    # Public attributes first: Keras also has a list of the same generators under a private name.
    for attribute, value in sorted(vars(owner).items(), key=lambda item: item[0].startswith("_")):
        yield from ((attribute, item) for item in _items(value, depth=3))


def _items(value, depth):
    if isinstance(value, (keras.layers.Layer, keras.random.SeedGenerator)):
        yield value
    elif isinstance(value, (list, tuple, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _items(item, depth - 1)


class TorchStepSeeds(CountedCallback):
    """Reseeds torch's random numbers before every batch from a seed and the number of the step.

    On torch, Keras's dropout uses the generator of the process unless its layer has a seed. Other code uses that generator too, for
    example at the start of every epoch, so saving its state would not make a training reproducible; with this callback it need not
    be saved. On other backends, where the seeds of the layers are part of the state, it does nothing.

    Args:
        seed: a whole number of at least 0.
        initial_step: number of batches trained before, `Checkpoint.step` of the checkpoint that the training resumes from.
    """

    reads_logs_itself = True  # none of them; see `DeviceLogs`

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
