"""Twenty steps of a small BERT on the devices of `distribute`, with something to compare them by."""

import keras
import numpy as np
from numbered_batches import NumberedBatches
from small import make_variables

from keras_bert_rebuild import AdamW, BertConfig, build_model, compile_model, distribute
from keras_bert_rebuild.training.train_state import read_state, write_state

STEPS, BATCH, LENGTH, VOCAB = 20, 8, 12, 104


def make_batch(number):
    """A batch whose rows have from one to four labels, so that their parts have different numbers of them."""
    rng = np.random.default_rng([number, 3])
    ids = rng.integers(5, VOCAB, (BATCH, LENGTH))
    ids[np.arange(LENGTH) >= rng.integers(6, LENGTH + 1, (BATCH, 1))] = 0
    chosen = (np.arange(LENGTH) < rng.integers(1, 5, (BATCH, 1))).astype("int32")
    return (ids, np.zeros_like(ids), chosen), (ids[..., None], rng.integers(0, 2, (BATCH, 1)))


class Trained:
    """A model on some devices, with the losses of all its steps, and its state before the first and in the middle.

    Args:
        kind, **where: as of `distribute`.
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
            # A gradient is longer than this: clipping has something to do.
            compile_model(self.model, optimizer=AdamW(1e-3, global_clipnorm=0.5), max_predictions=4)
            if keras.config.backend() == "tensorflow":
                make_variables(self.model)
            self.first = read_state(self.model)
        self.losses = self.train(0, STEPS // 2)
        self.middle = read_state(self.model)
        self.losses += self.train(STEPS // 2, STEPS)

    def train(self, start, stop, state=None):
        """The loss of every step, from a state if one is given."""
        losses = Losses()
        with self.where:
            if state is not None:
                write_state(self.model, state)
            self.model.fit(NumberedBatches(make_batch, start, stop), shuffle=False, verbose=0, callbacks=[losses])
        return losses.of_steps()


class Losses(keras.callbacks.Callback):
    """What Keras reports is the mean since the epoch began."""

    def __init__(self):
        super().__init__()
        self.means = []

    def on_train_batch_end(self, batch, logs=None):
        self.means.append(float(logs["loss"]))

    def of_steps(self):
        sums = np.array(self.means) * np.arange(1, len(self.means) + 1)
        return np.diff(sums, prepend=0.0).tolist()
