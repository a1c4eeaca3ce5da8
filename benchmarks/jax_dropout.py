"""Random bits of dropout on JAX by several ways, and a training step with and without our kernels for it.

Command: KERAS_BACKEND=jax python benchmarks/jax_dropout.py --batch 8 --length 128 [--layers 2] [--dtype bfloat16]
Time: two minutes on two idle cores
On a GPU the same with --batch 256 --layers 12 --dtype bfloat16, and --batch 64 --length 512.

The first table is dropout of one array with its gradient, jitted, the best of ten: Keras's bits (Threefry of 32 bits a number),
Threefry of 16, JAX's `rbg` of 32, and ours. The second is the step of `fit` of a BERT of width 768 with dropouts of 0.1, MLM and
NSP, AdamW: the best of several in turn, the bytes that XLA plans for temporary arrays, and how many transposes, copies and fusions
its program has.
"""

import argparse
import contextlib
import re
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_bert_rebuild import AdamW, BertConfig, build_model, compile_model
from keras_bert_rebuild.kernels.jax_dropout import drop
from keras_bert_rebuild.layers import Dropout, MultiHeadSelfAttention

RATE = 0.1


def plain_bits(draw):
    """Dropout whose mask is retained for the gradient."""
    return lambda x, seed: jnp.where(draw(x.shape, seed), x / (1 - RATE), 0)


def rbg(shape, seed):
    key = jax.random.wrap_key_data(jnp.concatenate([seed, seed]), impl="rbg")
    return jax.random.bits(key, shape, "uint32") >= np.uint32(RATE * 2**32)


WAYS = {
    "Threefry, 32 bits (Keras)": plain_bits(lambda shape, seed: jax.random.bernoulli(seed, 1 - RATE, shape)),
    "Threefry, 16 bits": plain_bits(lambda shape, seed: jax.random.bits(seed, shape, "uint16") >= np.uint16(RATE * 2**16)),
    "rbg, 32 bits": plain_bits(rbg),
    "two words a row, hashed (ours)": lambda x, seed: drop(x, RATE, seed),
}


def best(function, *arguments, repeats=10):
    """The least seconds of a compiled function."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return min(times)


def bits(shape, dtype):
    """Print a row for each way."""
    print(f"| dropout of {' x '.join(map(str, shape))} and its gradient | ms |\n|---|---:|")
    x, seed = jnp.ones(shape, dtype), jnp.array([7, 3], "uint32")
    for name, way in WAYS.items():
        both = jax.jit(jax.value_and_grad(lambda x, seed, way=way: jnp.sum(way(x, seed).astype("float32") ** 2)))
        jax.block_until_ready(both(x, seed))
        print(f"| {name} | {1e3 * best(both, x, seed):.2f} |")


@contextlib.contextmanager
def without_kernels(seams):
    """Compute some seams in their plain form."""
    kernels = [list(seam.kernels) for seam in seams]
    for seam in seams:
        seam.kernels.clear()
    try:
        yield
    finally:
        for seam, before in zip(seams, kernels, strict=True):
            seam.kernels.extend(before)


def compiled_step(arguments):
    """The compiled step, its state and its batch."""
    keras.utils.set_random_seed(0)
    model = build_model(BertConfig(num_hidden_layers=arguments.layers), ["mlm", "nsp"])
    optimizer = AdamW(1e-4)
    compile_model(model, optimizer=optimizer, max_predictions=arguments.length * 20 // 128, metrics=None)
    optimizer.build(model.trainable_variables)
    parts = (model.trainable_variables, model.non_trainable_variables, optimizer.variables, model.metrics_variables)
    state = tuple([variable.value for variable in part] for part in parts)
    rng, shape = np.random.default_rng(0), (arguments.batch, arguments.length)
    ids, chosen = rng.integers(1000, 30000, shape).astype("int32"), np.zeros(shape, "int32")
    chosen[:, 1 : 1 + arguments.length * 20 // 128] = 1
    batch = (ids, np.zeros(shape, "int32"), chosen), (ids[..., None], np.zeros((arguments.batch, 1), "int32"))
    step = jax.jit(model.train_step).lower(state, batch).compile()
    return step, state, batch


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    bits((arguments.batch, arguments.length, 768), arguments.dtype)
    bits((arguments.batch, 12, arguments.length, arguments.length), arguments.dtype)
    keras.config.set_dtype_policy("float32" if arguments.dtype == "float32" else "mixed_bfloat16")
    attention = MultiHeadSelfAttention.call, MultiHeadSelfAttention.attend
    ways = {"plain forms": (Dropout.drop, *attention), "dropout": attention, "dropout and attention": ()}
    steps = {}
    for name, without in ways.items():
        with without_kernels(without):
            steps[name] = compiled_step(arguments)
    times = {name: [] for name in steps}
    for _ in range(arguments.rounds):
        for name, step in steps.items():
            times[name].append(best(*step, repeats=1))
    print("\n| kernels of ours | ms a step | temporary MB | transposes | copies | fusions |\n|---|---:|---:|---:|---:|---:|")
    for name, (step, _, _) in steps.items():
        text, memory = step.as_text(), step.memory_analysis().temp_size_in_bytes / 1e6
        counts = [len(re.findall(rf" {kind}\(", text)) for kind in ("transpose", "copy", "fusion")]
        print(f"| {name} | {1e3 * min(times[name]):.0f} | {memory:,.0f} | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main()
