"""What happens to batches that two devices cannot share evenly; prints it as JSON."""

import json

import keras
import numpy as np

from helpers.small import compiled, small_batch, small_model, spread
from helpers.unused_devices import BACKEND, KIND, two_devices
from keras_bert_rebuild import distribute


class Batches(keras.utils.PyDataset):
    """Batches of four examples, and a last one with the rest."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return -(-len(self.x[0]) // 4)

    def __getitem__(self, index):
        return tuple(tuple(a[index * 4 : index * 4 + 4] for a in arrays) for arrays in (self.x, self.y))


def dataset(x, y):
    """The same as a `tf.data.Dataset`."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def steps(model, x, y):
    """Single batches of three and four examples."""
    for start, stop in ((0, 3), (3, 7)):
        part = [tuple(a[start:stop] for a in arrays) for arrays in (x, y)]
        model.train_on_batch(*part)


CASES = {
    "arrays": lambda model, x, y: model.fit(x, y, batch_size=4, shuffle=False, verbose=0),
    "a PyDataset": lambda model, x, y: model.fit(Batches(x, y), shuffle=False, verbose=0),
    "a generator": lambda model, x, y: model.fit((batch for batch in Batches(x, y)), verbose=0),
    "validation data": lambda model, x, y: model.fit(*small_batch(np.random.default_rng(1)), validation_data=(x, y), verbose=0),
    "a validation split": lambda model, x, y: model.fit(x, y, batch_size=2, validation_split=0.3, shuffle=False, verbose=0),
    "evaluation": lambda model, x, y: model.evaluate(x, y, 4, verbose=0),
    "predictions": lambda model, x, y: model.predict(x, batch_size=4, verbose=0)[1],
    "single batches": steps,
}
if BACKEND == "tensorflow":
    CASES["a tf.data.Dataset"] = lambda model, x, y: model.fit(dataset(x, y), verbose=0)


def tried(kind, case, examples):
    """The sum over all weights and the outputs, or the error."""
    x, y = small_batch(np.random.default_rng(0), batch=examples)
    with distribute(kind):
        model = spread(compiled(small_model(transformer_num=1), optimizer=keras.optimizers.SGD(0.5)), np.random.default_rng(4), 0.1)
        try:
            answer = CASES[case](model, x, y)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    weights = np.concatenate([keras.ops.convert_to_numpy(v).ravel() for v in model.weights])
    return [*weights.tolist()[-500:], *(np.ravel(answer).tolist() if isinstance(answer, (list, np.ndarray)) else [])]


if __name__ == "__main__":
    two_devices()
    whole = ("predictions", "single batches")  # what TensorFlow can do without equal parts
    print(
        json.dumps(
            {
                "uneven": {case: tried(KIND, case, 7) for case in CASES},
                "empty": {case: tried(KIND, case, 5) for case in ("arrays", "a PyDataset")},
                "even": {case: [tried(kind, case, 8) for kind in ("none", KIND)] for case in ("arrays", "a PyDataset")},
                "whole": {case: tried("none", case, 7) for case in whole},
            }
        )
    )
