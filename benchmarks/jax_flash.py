"""Attention with dropout on a GPU: the fused kernel of `kernels/jax_flash.py` beside the form that stores its scores.

Command: KERAS_BACKEND=jax python benchmarks/jax_flash.py [--dtype float32] [--shapes 256x128 64x512] [--blocks 64x64x4x2 ...]
Look at it on a processor: KERAS_BACKEND=jax python benchmarks/jax_flash.py --interpret
Time: about two minutes on a GPU
Also a part of benchmarks/gpu.py: python benchmarks/gpu.py --output FOLDER --only jax_flash

For each shape, batch x length, of 12 heads of 64, dropout of 0.1, full rows and rows of several sequences: how far values and
gradients of the kernel are from the other form's with the same seed, of the norm; and milliseconds of the forward pass and of it
with the gradients, the best of twenty, forms in turn. "No dropout" is what runs in a model without it. Other --blocks (queries,
keys, warps, stages) show whether those of `jax_flash_blocks.blocks_for` are well chosen. Exit code 1 if a difference is above 0.02.
"""

import argparse
import functools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.kernels import jax_dropout, jax_flash, jax_flash_blocks
from keras_bert_rebuild.layers import MultiHeadSelfAttention

HEADS, WIDTH, RATE = 12, 64, 0.1


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
    """The forward pass, and it with gradients, compiled."""

    def forward(query, key, value, upstream, mask, seed):
        return form(query, key, value, mask, RATE, seed)

    def with_gradients(query, key, value, upstream, mask, seed):
        outputs, gradients = jax.vjp(lambda *tensors: forward(*tensors, upstream, mask, seed), query, key, value)
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


def main():
    """Print a table for each shape and mask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", metavar="BATCHxLENGTH")
    parser.add_argument(
        "--blocks", nargs="+", metavar="QxKxWARPSxSTAGES", default=["32x32x4x2", "64x64x4x2", "128x64x8x2", "64x64x4x3"]
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--interpret", action="store_true", help="on any device, slowly: the values count, not the times")
    args = parser.parse_args()
    if args.interpret:
        args.shapes, args.blocks, args.rounds = args.shapes or ["2x40"], ["32x32x4x2"], 1
    flash = functools.partial(jax_flash.attention_with_dropout, interpret=args.interpret)
    forms = {
        "no dropout": lambda query, key, value, mask, rate, seed: MultiHeadSelfAttention(HEADS).attend(query, key, value, mask),
        "stored scores": jax_dropout.attention_with_dropout,
        "fused": flash,
    }
    for text in args.blocks:
        forms[f"fused, {text}"] = functools.partial(flash, blocks=jax_flash_blocks.Blocks(*map(int, text.split("x"))))
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


if __name__ == "__main__":
    sys.exit(main())
