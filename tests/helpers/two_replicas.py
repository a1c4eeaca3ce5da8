"""The same training on one and two logical TensorFlow processors; prints the results as JSON."""

import json

import keras
import tensorflow as tf

from helpers.distributed_training import STEPS, Trained
from keras_bert_rebuild import AdamW, distribute
from keras_bert_rebuild.training.optimizers.whole_batch import LossScaleOptimizer

PROCESSOR = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(PROCESSOR, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])


def scaled_steps():
    """Three steps of a weight whose gradient is scaled; in the second, that of the last replica is not finite."""
    where = distribute("mirrored")
    with where:
        strategy, weight = tf.distribute.get_strategy(), keras.Variable([1.0, 1.0], name="kernel")
        optimizer = LossScaleOptimizer(AdamW(0.1, global_clipnorm=1.0))
        optimizer.build([weight])

    @tf.function
    def step(overflows):
        def on_replica():
            last = tf.distribute.get_replica_context().replica_id_in_sync_group == strategy.num_replicas_in_sync - 1
            gradient = tf.where(tf.logical_and(overflows, last), float("inf"), 1000.0)
            optimizer.apply([tf.fill([2], gradient)], [weight])

        strategy.run(on_replica)

    steps = []
    for overflows in (False, True, False):
        step(tf.constant(overflows))
        first = lambda variable: strategy.experimental_local_results(variable.value)[0].numpy().tolist()  # noqa: E731
        counted = {"scale": first(optimizer.dynamic_scale), "steps": first(optimizer.inner_optimizer.iterations)}
        steps.append({"weights": first(weight), **counted})
    return steps


def main():
    one, two = Trained("none", 0.0, blocks=1), Trained("mirrored", 0.0, blocks=1)
    dropped = Trained("mirrored", 0.1, blocks=1)
    print(
        json.dumps(
            {
                "losses": {"one": one.losses, "two": two.losses, "dropped": dropped.losses},
                "evaluated": {"one": one.evaluated, "two": two.evaluated},
                "again": dropped.train(0, STEPS // 2, dropped.first),
                "gone on": dropped.train(STEPS // 2, STEPS, dropped.middle),
                "one after two": one.train(STEPS // 2, STEPS, two.middle),
                "two after one": two.train(STEPS // 2, STEPS, one.middle),
                "scaled": scaled_steps(),
                "devices": [[t.where.kind, t.where.devices, t.where.replicas] for t in (one, two)],
                "copies": [len(weight.value.values) for weight in two.model.weights],
            }
        )
    )


if __name__ == "__main__":
    main()
