"""Layer normalisation on a GPU: the kernels of `kernels/jax_norm.py` beside what XLA makes of the plain form.

Command: KERAS_BACKEND=jax python benchmarks/jax_norm.py [--rows 32768] [--width 768] [--launches 4096x4x512 ...]
Look at it on a processor: KERAS_BACKEND=jax python benchmarks/jax_norm.py --rows 64 --interpret
Time: half a minute on a GPU

How far outputs and gradients are from the plain form's in float32, of the norm, and milliseconds of the forward pass and of it with
the gradients, the best of twenty, forms in turn; "read and written once" is the time of a copy of as many bytes. Other --launches
(numbers of an array that a program holds, warps, programs of the backward pass) show whether those of the module are well chosen.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax_flash import difference, milliseconds
from keras import ops

from keras_bert_rebuild.kernels import jax_norm

EPSILON = 1e-12


def plain(x, gamma, beta):
    return ops.cast(ops.layer_normalization(x, gamma, beta, -1, EPSILON), x.dtype)


def passes(form, launch=None):
    """The forward pass, and it with gradients, compiled with the constants of a launch."""
    if launch:
        jax_norm.NUMBERS, jax_norm.WARPS, jax_norm.PROGRAMS = launch

    def with_gradients(x, gamma, beta, upstream):
        outputs, gradients = jax.vjp(form, x, gamma, beta)
        return outputs, *gradients(upstream)

    return jax.jit(lambda x, gamma, beta, upstream: form(x, gamma, beta)), jax.jit(with_gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--launches", nargs="*", metavar="NUMBERSxWARPSxPROGRAMS", default=[])
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--interpret", action="store_true", help="on any device, slowly: the values count, not the times")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    x, upstream = (jnp.asarray(rng.standard_normal((1, args.rows, args.width)), args.dtype) for _ in range(2))
    arguments = x, *(jnp.asarray(rng.standard_normal(args.width), "float32") for _ in range(2)), upstream
    own = jax_norm.NUMBERS, jax_norm.WARPS, jax_norm.PROGRAMS
    launches = dict.fromkeys([own, *(tuple(map(int, text.split("x"))) for text in args.launches)])

    def fused(x, gamma, beta):
        return jax_norm.normalize(x, gamma, beta, -1, EPSILON, interpret=args.interpret)

    compiled = {"XLA": passes(plain)}
    exact = jax.block_until_ready(passes(plain)[1](x.astype("float32"), *arguments[1:3], upstream.astype("float32")))
    results = {"XLA": jax.block_until_ready(compiled["XLA"][1](*arguments))}
    for launch in launches:
        name = f"ours, {'x'.join(map(str, launch))}"
        compiled[name] = passes(fused, launch)
        results[name] = jax.block_until_ready(compiled[name][1](*arguments))
        jax.block_until_ready(compiled[name][0](*arguments))
    copy = jax.jit(lambda x, *others: x + 1)
    compiled["read and written once"] = copy, jax.jit(lambda x, gamma, beta, upstream: (x + 1, x + upstream))
    for both in compiled["XLA"], compiled["read and written once"]:
        jax.block_until_ready([function(*arguments) for function in both])
    forward, both = (milliseconds({name: pair[i] for name, pair in compiled.items()}, arguments, args.rounds) for i in (0, 1))
    print(f"| {args.rows} x {args.width}, {args.dtype} | differs by | forward, ms | with gradients, ms |\n|---|---:|---:|---:|")
    for name in compiled:
        differs = f"{difference(results[name], exact):.1e}" if name in results else ""
        print(f"| {name} | {differs} | {forward[name]:.3f} | {both[name]:.3f} |")


if __name__ == "__main__":
    main()
