"""A process with two devices: `python two_devices.py unused|uneven|dropout` prints what happens there as JSON."""

import json
import sys
import tempfile
import warnings

import keras
import numpy as np

from helpers.killed_runs import SETTINGS
from helpers.small import compiled, small_batch, small_model, spread
from keras_bert_rebuild import distribute, pretrain
from keras_bert_rebuild.layers import Dropout, MultiHeadSelfAttention

BACKEND = keras.config.backend()
KIND = {"tensorflow": "mirrored", "jax": "data", "torch": "none"}[BACKEND]


def two_devices():
    """Make two logical TensorFlow processors; for JAX an environment variable has done it."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        processor = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])


def train(method="fit"):
    """A step of a new model; the warning, with the file and line that it points to."""
    x, y = small_batch(np.random.default_rng(3), batch=4)
    model = compiled(small_model(transformer_num=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y, verbose=0) if method == "fit" else model.train_on_batch(x, y)
    return [[str(w.message), w.filename.rpartition("/")[2]] for w in caught if "distribute(" in str(w.message)]


def unused():
    """The warnings of trainings, some of which ignore the chosen devices."""
    warned = {"nothing chosen": train()}
    distribute(KIND)
    warned["forgotten"] = train()
    warned["once"] = train()
    kept = distribute(KIND)
    warned["kept"] = train("train_on_batch")
    with kept:
        warned["entered later"] = train()
    warned["after it"] = train()
    distribute("none")
    warned["one device"] = train()
    with distribute(KIND):
        warned["entered"] = train()
    distribute(KIND)
    with distribute("none"):
        warned["one device entered"] = train()
    if BACKEND == "jax":
        distribute("auto")
        warned["auto"] = train()
        where = distribute("model", model_devices=2)
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        warned["set by Keras"] = train()
        keras.distribution.set_distribution(None)
        with where:
            pass
    try:  # it chooses devices, and stops before it enters them
        pretrain("no store", tempfile.mkdtemp(), {**SETTINGS, "batch_size": 3}, distribute=KIND)
    except ValueError as error:
        warned["pretrain"] = [str(error)]
    warned["after pretrain"] = train()
    return warned


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


def uneven():
    """What happens to batches that two devices cannot share evenly."""
    whole = ("predictions", "single batches")  # what TensorFlow can do without equal parts
    return {
        "uneven": {case: tried(KIND, case, 7) for case in CASES},
        "empty": {case: tried(KIND, case, 5) for case in ("arrays", "a PyDataset")},
        "even": {case: [tried(kind, case, 8) for kind in ("none", KIND)] for case in ("arrays", "a PyDataset")},
        "whole": {case: tried("none", case, 7) for case in whole},
    }


ROWS, WIDTH, STEPS = 32, 8, 2


def make_layers():
    """Dropout, dropout with a noise shape, and attention that drops probabilities; the last gives equal outputs for equal rows."""
    keras.utils.set_random_seed(7)
    attention = MultiHeadSelfAttention(2, attention_dropout=0.5)
    attention.build((None, 4, WIDTH))
    layers = {"dropout": Dropout(0.5), "rows": Dropout(0.5, noise_shape=(None, 1)), "attention": attention}
    layers["dropout"].build((None, WIDTH))
    layers["rows"].build((None, WIDTH))
    return layers


def ones(rows):
    """The inputs of the layers; all rows of the input of attention are equal."""
    sequence = np.sin(np.arange(4 * WIDTH, dtype="float32")).reshape(4, WIDTH)
    flat = np.ones((rows, WIDTH), "float32")
    return {"dropout": flat, "rows": flat, "attention": np.repeat(sequence[None], rows, axis=0)}


def on_tensorflow():
    """The output for a replica's part of the batch, by layer, step and replica; and for one replica, and without a strategy."""
    import tensorflow as tf

    names = [device.name for device in tf.config.list_logical_devices("CPU")]

    def steps(strategy, rows):
        with strategy.scope():
            layers = make_layers()
        inputs = ones(rows)
        run = tf.function(lambda: strategy.run(lambda: {name: layers[name](inputs[name], training=True) for name in layers}))
        return [
            {name: [part.numpy().tolist() for part in strategy.experimental_local_results(value)] for name, value in run().items()}
            for _ in range(STEPS)
        ]

    return {
        "parts": steps(tf.distribute.MirroredStrategy(names), ROWS // 2),
        "one": steps(tf.distribute.MirroredStrategy(names[:1]), ROWS),
        "none": steps(tf.distribute.get_strategy(), ROWS),
    }


def on_jax():
    """What `on_tensorflow` gives, for a compiled step under `distribute("data")`."""
    import jax

    def steps(where):
        drawn = []
        with where:
            layers, distribution = make_layers(), keras.distribution.distribution()
            for _ in range(STEPS):
                drawn.append({})
                for name, x in ones(ROWS).items():
                    layer = layers[name]
                    if distribution is not None:
                        x = keras.distribution.distribute_tensor(x, distribution.get_data_layout(x.shape))
                    step = jax.jit(lambda trained, state, x, layer=layer: layer.stateless_call(trained, state, x, training=True))
                    values = [variable.value for variable in layer.non_trainable_variables]
                    answer, after = step([variable.value for variable in layer.trainable_variables], values, x)
                    for variable, value in zip(layer.non_trainable_variables, after, strict=True):
                        variable.assign(value)
                    shards = sorted(answer.addressable_shards, key=lambda shard: shard.index[0].start or 0)
                    drawn[-1][name] = [np.asarray(shard.data).tolist() for shard in shards]
        return drawn

    return {"parts": steps(distribute("data")), "one": steps(distribute("none"))}


def dropout():
    """What the replicas on two devices drop."""
    return on_tensorflow() if BACKEND == "tensorflow" else on_jax()


if __name__ == "__main__":
    two_devices()
    print(json.dumps({"unused": unused, "uneven": uneven, "dropout": dropout}[sys.argv[1]]()))
