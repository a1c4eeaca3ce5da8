"""Products of bfloat16 by JAX in the layouts of a BERT, by XLA's choice and as ours asks for them, and of float32: GFLOP/s.

Command: KERAS_BACKEND=jax python benchmarks/jax_products.py
Time: half a minute on two idle cores
A training step of BERT-base with and without them: the same with --step 8 128 [--dtype float32]; two minutes, 12 GB of memory

The rates are those of the best of ten, in turn, with the result in the dtype of the factors, as in a layer.
The steps of both ways are run in turn in one process; --dtype float32 asks for products of float32 in the layouts of bfloat16, too.
"""

import argparse
import math
import statistics
import time

import jax
import keras
from jax import lax
from pretrain_loop import bare_steps
from step_profile import make

from keras_bert_rebuild.kernels import jax_attention, jax_dense
from keras_bert_rebuild.kernels.jax_dense import product

# Where a product occurs: the shapes of its factors, the axes to sum over, and how many axes at the front are those of a batch.
LAYOUTS = {
    "forward, 1024 x 768 x 3072": ((8, 128, 768), (768, 3072), (2,), (0,), 0),
    "gradient of the inputs": ((8, 128, 3072), (768, 3072), (2,), (1,), 0),
    "gradient of the kernel": ((8, 128, 768), (8, 128, 3072), (0, 1), (0, 1), 0),
    "160 positions by 30,522 words": ((160, 768), (30522, 768), (1,), (1,), 0),
    "gradient of that table": ((160, 30522), (160, 768), (0,), (0,), 0),
    "queries by keys, 2 x 12 x 512 x 512": ((2, 12, 512, 64), (2, 12, 512, 64), (3,), (3,), 2),
    "probabilities by values": ((2, 12, 512, 512), (2, 12, 512, 64), (3,), (2,), 2),
    "gradient of the values": ((2, 12, 512, 512), (2, 12, 512, 64), (2,), (2,), 2),
}


def by_xla(x, y, x_axes, y_axes, batch):
    """The product as JAX's `@` asks for it."""
    front = tuple(range(batch))
    return lax.dot_general(x, y, ((x_axes, y_axes), (front, front)))


def by_ours(x, y, *axes):
    """The product of our layers."""
    return product(x, y, *axes).astype(x.dtype)


WAYS = {"float32": (by_xla, "float32"), "bfloat16, XLA": (by_xla, "bfloat16"), "bfloat16, ours": (by_ours, "bfloat16")}


def steps(batch, length, dtype, rounds=6):
    """Print the seconds of a training step, by XLA's choice and ours, and the median ratio."""
    policy = "mixed_bfloat16" if dtype == "bfloat16" else dtype
    keras.config.set_dtype_policy(policy)
    shape, compiled = argparse.Namespace(single=True, mean=None, dropout=0.1, size="base", steps=1), {}
    for name, dtypes in (("XLA", ()), ("ours", (dtype,))):
        for module in (jax_dense, jax_attention):
            module.gives_float32 = lambda given, dtypes=dtypes: str(given) in dtypes
        compiled[name] = make(shape, batch, length)[:2]
        bare_steps(*compiled[name])
    seconds = {name: [] for name in compiled}
    for _ in range(rounds):
        for name, (model, batches) in compiled.items():
            seconds[name].append(bare_steps(model, batches))
    for name, found in seconds.items():
        print(f"{batch} x {length}, {dtype}, {name}: {statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f})")
    ratios = [plain / ours for plain, ours in zip(*seconds.values(), strict=True)]
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def layouts():
    """Print a row for each layout."""
    print(f"| | {' | '.join(WAYS)} |\n|---|{'---:|' * len(WAYS)}")
    for name, (*shapes, x_axes, y_axes, batch) in LAYOUTS.items():
        compiled = []
        for way, dtype in WAYS.values():
            factors = [jax.random.normal(jax.random.key(i), shape, dtype) for i, shape in enumerate(shapes)]
            axes = (x_axes, y_axes, batch)
            compiled.append((jax.jit(lambda x, y, way=way, axes=axes: way(x, y, *axes)), *factors))
        best = [math.inf] * len(compiled)
        for _ in range(11):  # the first compiles
            for i, (function, *factors) in enumerate(compiled):
                start = time.perf_counter()
                jax.block_until_ready(function(*factors))
                best[i] = min(best[i], time.perf_counter() - start)
        of_batch = math.prod(shapes[0][:batch])
        summed = math.prod(shapes[0][axis] for axis in x_axes)
        operations = 2 * math.prod(shapes[0]) * math.prod(shapes[1]) / (of_batch * summed)
        print(f"| {name} | {' | '.join(f'{operations / seconds / 1e9:.0f}' for seconds in best)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--step", type=int, nargs=2, metavar=("BATCH", "LENGTH"), help="compare training steps in place of products"
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the training steps")
    args = parser.parse_args()
    if args.step:
        steps(*args.step, args.dtype)
    else:
        layouts()


if __name__ == "__main__":
    main()
