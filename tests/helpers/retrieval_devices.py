"""Steps of a training for retrieval on one and on several JAX devices; prints losses and weights as JSON."""

import json

import keras
import numpy as np

from helpers.small_tasks import TOKENIZER, WORDS, small_encoder
from keras_bert_rebuild import SentenceEmbedder, distribute
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.tasks.objectives import VectorTraining

BATCH = 8


def groups():
    rng = np.random.default_rng(2)
    text = lambda: " ".join(rng.choice(WORDS, rng.integers(2, 12)))  # noqa: E731
    return [TextGroup(text(), text(), (text(),)) for _ in range(2 * BATCH)]


def trained(kind, chunk=None):
    """The losses of two steps, and the sums of the weights after them."""
    where = distribute(kind)
    keras.utils.set_random_seed(3)
    with where:
        settings = {"example_kind": "retrieval", "max_len": 16, "training": VectorTraining(chunk=chunk)}
        task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, **settings)
        batches = task.batches(task.encode(groups()), BATCH)
        task.compile(keras.optimizers.SGD(0.1))
        rows = [len(batches[i][0][0]) for i in range(len(batches))]
        losses = [float(np.ravel(task.training_model.train_on_batch(*batches[i]))[0]) for i in range(len(batches))]
        weights = [float(np.abs(weight).sum()) for weight in task.training_model.get_weights()]
    return {"devices": where.devices, "rows": rows, "losses": losses, "weights": weights}


def main():
    print(json.dumps({"one": trained("none"), "several": trained("data"), "chunks": trained("data", chunk=8)}))


if __name__ == "__main__":
    main()
