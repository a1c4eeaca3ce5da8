"""Attention with dropout on two devices and on one; prints how far they and the dropped probabilities are apart, as JSON."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_bert_rebuild.kernels import jax_flash, jax_flash_merged

query, mask, seed = jnp.zeros((4, 16, 2, 16)), np.ones((4, 16), bool), np.array([3, 1], "uint32")
value = jnp.ones(query.shape)


@jax.jit
def outputs_and_gradient(query, value):
    def attend(value):
        return jax_flash.attention_with_dropout(query, query, value, mask, 0.5, seed, interpret=True)

    def attend_to_inputs(inputs, kernels):
        denses = [SimpleNamespace(compute_dtype="float32", kernel=kernel, bias=kernel[0]) for kernel in kernels]
        return jax_flash_merged.attend_to_inputs(inputs, denses, 2, mask, 0.5, seed, interpret=True)

    outputs, gradient = jax.vjp(attend, value)
    kernels = jnp.sin(jnp.arange(3 * 16 * 32.0)).reshape(3, 16, 32) / 4
    merged, gradients = jax.vjp(attend_to_inputs, value[:, :, 0] * jnp.sin(jnp.arange(16.0)), kernels)
    return outputs, *gradient(outputs), merged, *gradients(merged)


def main():
    """Print one line of JSON."""
    one = [np.asarray(array) for array in outputs_and_gradient(query, value)]
    jax.clear_caches()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    split = jax.device_put(
        (query, value),
        jax.sharding.NamedSharding(keras.distribution.distribution().device_mesh.backend_mesh, jax.sharding.PartitionSpec("batch")),
    )
    two = outputs_and_gradient(*split)
    odd = jax.eval_shape(lambda x: jax_flash.attention_with_dropout(x, x, x, mask[:3], 0.5, seed, interpret=True), query[:3])
    first, second = (np.asarray(shard.data) for shard in two[0].addressable_shards)
    print(
        json.dumps(
            {
                "devices": len(two[0].sharding.device_set),
                "shape of three rows": odd.shape,
                "difference": float(max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(one, two, strict=True))),
                "between devices": float((first != second).mean()),
            }
        )
    )


if __name__ == "__main__":
    main()
