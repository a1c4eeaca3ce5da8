"""JAX's kernels on two devices and on one: `python kernels_over_devices.py flash|norm` prints how far they are apart, as JSON."""

import json
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_bert_rebuild.kernels import jax_flash, jax_flash_merged, jax_norm

QUERY, MASK, SEED = jnp.zeros((4, 16, 2, 16)), np.ones((4, 16), bool), np.array([3, 1], "uint32")
VALUE = jnp.ones(QUERY.shape)


@jax.jit
def flash_and_gradients(query, value):
    def attend(value):
        return jax_flash.attention_with_dropout(query, query, value, MASK, 0.5, SEED, interpret=True)

    def attend_to_inputs(inputs, kernels):
        denses = [SimpleNamespace(compute_dtype="float32", kernel=kernel, bias=kernel[0]) for kernel in kernels]
        return jax_flash_merged.attend_to_inputs(inputs, denses, 2, MASK, 0.5, SEED, interpret=True)

    outputs, gradient = jax.vjp(attend, value)
    kernels = jnp.sin(jnp.arange(3 * 16 * 32.0)).reshape(3, 16, 32) / 4
    merged, gradients = jax.vjp(attend_to_inputs, value[:, :, 0] * jnp.sin(jnp.arange(16.0)), kernels)
    return outputs, *gradient(outputs), merged, *gradients(merged)


def flash():
    """How far attention with dropout, and the dropped probabilities, are apart."""
    one = [np.asarray(array) for array in flash_and_gradients(QUERY, VALUE)]
    jax.clear_caches()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    split = jax.device_put(
        (QUERY, VALUE),
        jax.sharding.NamedSharding(keras.distribution.distribution().device_mesh.backend_mesh, jax.sharding.PartitionSpec("batch")),
    )
    two = flash_and_gradients(*split)
    odd = jax.eval_shape(lambda x: jax_flash.attention_with_dropout(x, x, x, MASK[:3], 0.5, SEED, interpret=True), QUERY[:3])
    first, second = (np.asarray(shard.data) for shard in two[0].addressable_shards)
    return {
        "devices": len(two[0].sharding.device_set),
        "shape of three rows": odd.shape,
        "difference": float(max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(one, two, strict=True))),
        "between devices": float((first != second).mean()),
    }


X, UPSTREAM = (np.random.default_rng(seed).standard_normal((4, 6, 64)).astype("float32") for seed in (0, 1))
GAMMA, BETA = (np.random.default_rng(seed).standard_normal(64).astype("float32") for seed in (2, 3))


@jax.jit
def norm_and_gradients(x, upstream):
    outputs, gradients = jax.vjp(lambda *arrays: jax_norm.normalize(*arrays, -1, 1e-12, interpret=True), x, GAMMA, BETA)
    return outputs, *gradients(upstream)


def norm():
    """How far outputs and gradients of a layer normalisation are apart."""
    one = [np.asarray(array) for array in norm_and_gradients(X, UPSTREAM)]
    jax.clear_caches()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    mesh = keras.distribution.distribution().device_mesh.backend_mesh
    by_row = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    two = norm_and_gradients(*jax.device_put((X, UPSTREAM), by_row))
    differences = [float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(one, two, strict=True)]
    return {"devices": len(two[0].sharding.device_set), "differences": differences}


if __name__ == "__main__":
    print(json.dumps({"flash": flash, "norm": norm}[sys.argv[1]]()))
