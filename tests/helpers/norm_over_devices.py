"""Layer normalisation on two devices and on one; prints how far outputs and gradients are apart, as JSON."""

import json

import jax
import keras
import numpy as np

from keras_bert_rebuild.kernels import jax_norm

x, upstream = (np.random.default_rng(seed).standard_normal((4, 6, 64)).astype("float32") for seed in (0, 1))
gamma, beta = (np.random.default_rng(seed).standard_normal(64).astype("float32") for seed in (2, 3))


@jax.jit
def outputs_and_gradients(x, upstream):
    outputs, gradients = jax.vjp(lambda *arrays: jax_norm.normalize(*arrays, -1, 1e-12, interpret=True), x, gamma, beta)
    return outputs, *gradients(upstream)


def main():
    """Print one line of JSON."""
    one = [np.asarray(array) for array in outputs_and_gradients(x, upstream)]
    jax.clear_caches()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    mesh = keras.distribution.distribution().device_mesh.backend_mesh
    by_row = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    two = outputs_and_gradients(*jax.device_put((x, upstream), by_row))
    differences = [float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(one, two, strict=True)]
    print(json.dumps({"devices": len(two[0].sharding.device_set), "differences": differences}))


if __name__ == "__main__":
    main()
