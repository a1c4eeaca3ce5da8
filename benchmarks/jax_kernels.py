"""Kernels on JAX for a GPU beside what they replace: attention with dropout, and layer normalisation.

Command: KERAS_BACKEND=jax python benchmarks/jax_kernels.py attention [--shapes 256x128 64x512] [--blocks 64x64x4x2 ...]
         KERAS_BACKEND=jax python benchmarks/jax_kernels.py norm [--rows 32768] [--width 768] [--launches 4096x4x512 ...]
Look at them on a processor: the same with --interpret, and --rows 64
Time: about two minutes on a GPU for attention, half a minute for norms
Also a part of benchmarks/gpu.py: python benchmarks/gpu.py --output FOLDER --only jax_flash

Attention is that of `kernels/jax_flash.py` beside the form that stores its scores. For each shape, batch x length, of 12 heads of
64, dropout of 0.1, full rows and rows of several sequences: how far values and gradients of the kernel are from the other form's
with the same seed, of the norm; and milliseconds of the forward pass and of it with the gradients, the best of twenty, forms in
turn. "No dropout" is what runs in a model without it. Other --blocks (queries, keys, warps, stages) show whether those of
`jax_flash_blocks.blocks_for` are well chosen. Exit code 1 if a difference is above 0.02.

Norms are those of `kernels/jax_norm.py` beside what XLA makes of the plain form, and differences are from that in float32; "read
and written once" is the time of a copy of as many bytes. Other --launches (numbers of an array that a program holds, warps,
programs of the backward pass) show whether those of the module are well chosen.
"""

import argparse
import functools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from keras import ops

from keras_bert_rebuild.kernels import jax_dropout, jax_flash, jax_flash_blocks, jax_norm
from keras_bert_rebuild.layers import MultiHeadSelfAttention

HEADS, WIDTH, RATE = 12, 64, 0.1
EPSILON = 1e-12


def masks(batch, length):
    """Full rows, and rows of sequences of a third to all of the length."""
    rng = np.random.default_rng(0)
    numbers = np.zeros((batch, length), "int32")
    for row in numbers:
        start = 0
        while start < length:
            end = min(length, start + int(rng.integers(length // 3, length + 1)))
            row[start:end] = start + 1
            start = end
    return {"full": np.ones((batch, length), bool), "packed": numbers}


def passes(form):
    """The forward pass of three tensors and the upstream gradient, and it with gradients, compiled; others are constant."""

    def forward(first, second, third, upstream, *others):
        return form(first, second, third, *others)

    def with_gradients(first, second, third, upstream, *others):
        outputs, gradients = jax.vjp(lambda *tensors: form(*tensors, *others), first, second, third)
        return outputs, *gradients(upstream)

    return jax.jit(forward), jax.jit(with_gradients)


def difference(found, expected):
    """The largest of the differences, each of the norm of what is expected."""
    pairs = [(np.asarray(a, "float32"), np.asarray(b, "float32")) for a, b in zip(found, expected, strict=True)]
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)


def milliseconds(compiled, arguments, rounds):
    """The best time of each function, measured in turn; None for one that fails."""
    best = dict.fromkeys(compiled)
    for _ in range(rounds):
        for name, function in compiled.items():
            start = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            best[name] = min(best[name] or np.inf, 1e3 * (time.perf_counter() - start))
    return best


def dropping(form):
    """The form with the rate."""
    return lambda query, key, value, mask, seed: form(query, key, value, mask, RATE, seed)


def attention(args):
    """Print a table for each shape and mask; returns the exit code."""
    if args.interpret:
        args.shapes, args.blocks, args.rounds = args.shapes or ["2x40"], ["32x32x4x2"], 1
    flash = functools.partial(jax_flash.attention_with_dropout, interpret=args.interpret)
    forms = {
        "no dropout": lambda query, key, value, mask, seed: MultiHeadSelfAttention(HEADS).attend(query, key, value, mask),
        "stored scores": dropping(jax_dropout.attention_with_dropout),
        "fused": dropping(flash),
    }
    for text in args.blocks:
        forms[f"fused, {text}"] = dropping(functools.partial(flash, blocks=jax_flash_blocks.Blocks(*map(int, text.split("x")))))
    worst = 0.0
    for shape in args.shapes or ["256x128", "64x512"]:
        batch, length = map(int, shape.split("x"))
        rng = np.random.default_rng(1)
        tensors = [jnp.asarray(rng.standard_normal((batch, length, HEADS, WIDTH)), args.dtype) for _ in range(4)]
        for kind, mask in masks(batch, length).items():
            arguments = (*tensors, jnp.asarray(mask), jnp.asarray([3, 1], "uint32"))
            compiled, results = {}, {}
            for name, form in forms.items():
                both = passes(form)
                try:
                    results[name] = jax.block_until_ready(both[1](*arguments))
                    jax.block_until_ready(both[0](*arguments))
                except Exception as error:
                    print(f"{name} failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
                    worst = np.inf if name == "fused" else worst
                    continue
                compiled[name] = both
            times = [milliseconds({name: both[i] for name, both in compiled.items()}, arguments, args.rounds) for i in (0, 1)]
            print(f"\n| {shape}, {kind}, {args.dtype} | differs by | forward, ms | with gradients, ms |\n|---|---:|---:|---:|")
            for name in compiled:
                differs = difference(results[name], results["stored scores"]) if name.startswith("fused") else None
                worst = max(worst, differs or 0.0) if name == "fused" else worst
                said = "" if differs is None else f"{differs:.1e}"
                print(f"| {name} | {said} | {times[0][name]:.2f} | {times[1][name]:.2f} |")
    return 0 if worst <= 0.02 else 1


def norms(args):
    """Print a table; returns the exit code."""
    rng = np.random.default_rng(0)
    x, upstream = (jnp.asarray(rng.standard_normal((1, args.rows, args.width)), args.dtype) for _ in range(2))
    arguments = x, *(jnp.asarray(rng.standard_normal(args.width), "float32") for _ in range(2)), upstream
    own = jax_norm.NUMBERS, jax_norm.WARPS, jax_norm.PROGRAMS
    launches = dict.fromkeys([own, *(tuple(map(int, text.split("x"))) for text in args.launches)])

    def plain(x, gamma, beta):
        return ops.cast(ops.layer_normalization(x, gamma, beta, -1, EPSILON), x.dtype)

    def fused(x, gamma, beta):
        return jax_norm.normalize(x, gamma, beta, -1, EPSILON, interpret=args.interpret)

    compiled = {"XLA": passes(plain)}
    exact = jax.block_until_ready(passes(plain)[1](x.astype("float32"), *arguments[1:3], upstream.astype("float32")))
    results = {"XLA": jax.block_until_ready(compiled["XLA"][1](*arguments))}
    for launch in launches:
        name = f"ours, {'x'.join(map(str, launch))}"
        jax_norm.NUMBERS, jax_norm.WARPS, jax_norm.PROGRAMS = launch
        compiled[name] = passes(fused)
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
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=("attention", "norm"))
    parser.add_argument("--shapes", nargs="+", metavar="BATCHxLENGTH")
    parser.add_argument(
        "--blocks", nargs="+", metavar="QxKxWARPSxSTAGES", default=["32x32x4x2", "64x64x4x2", "128x64x8x2", "64x64x4x3"]
    )
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--launches", nargs="*", metavar="NUMBERSxWARPSxPROGRAMS", default=[])
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--interpret", action="store_true", help="on any device, slowly: the values count, not the times")
    args = parser.parse_args()
    return attention(args) if args.kernel == "attention" else norms(args)


if __name__ == "__main__":
    sys.exit(main())
