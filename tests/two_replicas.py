"""The same training on one and two logical processors of TensorFlow; prints what came of it as JSON."""

import json

import tensorflow as tf
from distributed_training import STEPS, Trained

PROCESSOR = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(PROCESSOR, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])


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
                "devices": [[t.where.kind, t.where.devices, t.where.replicas] for t in (one, two)],
                "copies": [len(weight.value.values) for weight in two.model.weights],
            }
        )
    )


if __name__ == "__main__":
    main()
