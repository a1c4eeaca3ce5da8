"""Products of bfloat16 by JAX in the layouts of a BERT, by XLA's choice and as ours asks for them, and of float32: GFLOP/s.

Command: KERAS_BACKEND=jax python benchmarks/jax_products.py
Time: half a minute on two idle cores

The rates are those of the best of ten, in turn, with the result in the dtype of the factors, as in a layer.
"""

import math
import time

import jax
from jax import lax

from keras_bert_rebuild.kernels.jax_products import product

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


def main():
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


if __name__ == "__main__":
    main()
