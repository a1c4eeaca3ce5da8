"""What the replicas on two logical TensorFlow processors, or two JAX devices, drop; prints it as JSON."""

import json

import keras
import numpy as np

from keras_bert_rebuild.layers import Dropout, MultiHeadSelfAttention

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

    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])
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
    """The same, for a compiled step under `distribute("data")`."""
    import jax

    from keras_bert_rebuild import distribute

    def steps(where):
        found = []
        with where:
            layers, distribution = make_layers(), keras.distribution.distribution()
            for _ in range(STEPS):
                found.append({})
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
                    found[-1][name] = [np.asarray(shard.data).tolist() for shard in shards]
        return found

    return {"parts": steps(distribute("data")), "one": steps(distribute("none"))}


if __name__ == "__main__":
    print(json.dumps(on_tensorflow() if keras.config.backend() == "tensorflow" else on_jax()))
