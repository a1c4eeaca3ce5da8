"""An evaluation and twenty steps of a small BERT on the devices of `distribute`, with values to compare."""

import keras
import numpy as np

from helpers.numbered_batches import NumberedBatches
from helpers.small import make_variables
from keras_bert_rebuild import AdamW, BertConfig, build_model, compile_model, distribute
from keras_bert_rebuild.training.state.train_state import read_state, write_state

STEPS, BATCH, LENGTH, VOCAB = 20, 8, 12, 104


def make_batch(number):
    """A batch whose rows have from one to four labels, so that its parts have different numbers of labels."""
    rng = np.random.default_rng([number, 3])
    ids = rng.integers(5, VOCAB, (BATCH, LENGTH))
    ids[np.arange(LENGTH) >= rng.integers(6, LENGTH + 1, (BATCH, 1))] = 0
    chosen = (np.arange(LENGTH) < rng.integers(1, 5, (BATCH, 1))).astype("int32")
    return (ids, np.zeros_like(ids), chosen), (ids[..., None], rng.integers(0, 2, (BATCH, 1)))


class Trained:
    """A model on some devices, with the results of an evaluation, the losses of all steps, its state before and in the middle.

    Args:
        kind, **where: see `distribute`.
        dropout: the rate of dropout, of hidden values and attention.
        blocks: encoder blocks.
    """

    def __init__(self, kind, dropout, blocks=2, **where):
        self.where = distribute(kind, **where)
        keras.utils.set_random_seed(7)
        sizes = {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
        config = BertConfig(
            **sizes,
            num_hidden_layers=blocks,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        with self.where:
            self.model = build_model(config, ["mlm", "nsp"])
            # Every gradient is longer than this, so it is clipped.
            compile_model(self.model, optimizer=AdamW(1e-3, global_clipnorm=0.5), max_predictions=4)
            if keras.config.backend() == "tensorflow":
                make_variables(self.model)
            self.first = read_state(self.model)
        self.evaluated = self.evaluate()
        self.losses = self.train(0, STEPS // 2)
        self.middle = read_state(self.model)
        self.losses += self.train(STEPS // 2, STEPS)

    def train(self, start, stop, state=None):
        """The loss of every step, from a state if one is given."""
        losses = []
        with self.where:
            if state is not None:
                write_state(self.model, state)
            for step in range(start, stop):
                batches = NumberedBatches(make_batch, step, step + 1)
                losses += self.model.fit(batches, shuffle=False, verbose=0).history["loss"]
        return losses

    def evaluate(self):
        """The results of three batches, after each of them and at the end."""
        logs = Logs()
        with self.where:
            batches = NumberedBatches(make_batch, 0, 3)
            in_the_end = self.model.evaluate(batches, verbose=0, callbacks=[logs], return_dict=True)
        return [*logs.of_batches, in_the_end]


class Logs(keras.callbacks.Callback):
    """What Keras reports after every batch of an evaluation."""

    def __init__(self):
        super().__init__()
        self.of_batches = []

    def on_test_batch_end(self, batch, logs=None):
        self.of_batches.append({name: float(value) for name, value in logs.items()})
