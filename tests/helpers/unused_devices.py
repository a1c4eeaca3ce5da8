"""Trainings in a process with two devices, some of which ignore the chosen devices; prints the warnings of each as JSON."""

import json
import tempfile
import warnings

import keras
import numpy as np

from helpers import hosts_run

BACKEND = keras.config.backend()
KIND = {"tensorflow": "mirrored", "jax": "data"}[BACKEND]


def two_devices():
    """Make two logical TensorFlow processors; for JAX an environment variable has done it."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        processor = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])


def train(method="fit"):
    """A step of a new model; the warning, with the file and line that it points to."""
    from helpers.small import compiled, small_batch, small_model

    x, y = small_batch(np.random.default_rng(3), batch=4)
    model = compiled(small_model(transformer_num=1))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(x, y, verbose=0) if method == "fit" else model.train_on_batch(x, y)
    return [[str(w.message), w.filename.rpartition("/")[2]] for w in found if "distribute(" in str(w.message)]


def told():
    """The warnings of every case."""
    from keras_bert_rebuild import distribute, pretrain

    found = {"nothing chosen": train()}
    distribute(KIND)
    found["forgotten"] = train()
    found["once"] = train()
    kept = distribute(KIND)
    found["kept"] = train("train_on_batch")
    with kept:
        found["entered later"] = train()
    found["after it"] = train()
    distribute("none")
    found["one device"] = train()
    with distribute(KIND):
        found["entered"] = train()
    distribute(KIND)
    with distribute("none"):
        found["one device entered"] = train()
    if BACKEND == "jax":
        distribute("auto")
        found["auto"] = train()
        where = distribute("model", model_devices=2)
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        found["set by Keras"] = train()
        keras.distribution.set_distribution(None)
        with where:
            pass
    try:  # it chooses devices, and stops before it enters them
        pretrain("no store", tempfile.mkdtemp(), {**hosts_run.SETTINGS, "batch_size": 3}, distribute=KIND)
    except ValueError as error:
        found["pretrain"] = [str(error)]
    found["after pretrain"] = train()
    return found


if __name__ == "__main__":
    two_devices()
    print(json.dumps(told()))
