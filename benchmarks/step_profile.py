"""Where the time of a pretraining step goes on a GPU: the milliseconds of its kernels, by kind and by name.

Command: KERAS_BACKEND=jax python benchmarks/step_profile.py --batch 64 --length 512 [--dropout 0] [--single] [--output FOLDER]
Time: a minute on a GPU for each shape, nearly all of it compiling
Look at it on a processor: the same with --size tiny --batch 4 --length 64, whose kinds are those of a processor

The step is BERT-base's MLM in bfloat16 with AdamW on random tokens in packed rows, whose sequences have lengths as --mean says;
with --single each row is one sequence without padding. Several --batch and --length are measured in turn, in pairs. A step is timed
bare, without a profiler: the compiled step on batches on the device, the host waiting for the last loss. Of the profile, the times
of all kernels are sums over its steps, divided by their number; "idle" is the rest of the bare step.

With --output: for each shape a file of all kernels. The program in which to look up their names is written by
XLA_FLAGS="--xla_dump_to=FOLDER --xla_dump_hlo_module_re=.*step.*".
"""

import argparse
import collections
import re
import tempfile
from pathlib import Path

import jax
import keras
import numpy as np
from pretrain_loop import bare_steps
from pretrain_step import SIZES

from keras_bert_rebuild import BertConfig, build_model, compile_model
from keras_bert_rebuild.data.pretraining.packed_rows import sequence_lengths
from keras_bert_rebuild.recipes.step_costs import Work, matrix_ceiling, train_flops
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW

# Kind of a kernel, and what its name contains; the first that fits counts.
KINDS = {
    "attention": r"attention_\w+_kernel|mha|flash|sdpa",
    "norms": r"layer_norm_\w+_kernel",
    "matrix products": r"nvjet|gemm|cutlass|cublas|_dot_|^dot",
    "transposes": r"transpose",
    "scatters, gathers, sorts": r"scatter|gather|sort|topk|top_k|dynamic",
    "reductions": r"reduce|reduction",
    "copies": r"^copy|memcpy|memset|wrapped_copy|concatenate|slice",
    "other passes over memory": r"fusion|wrapped",
}
VOCABULARY = 30522


def packed_batch(rng, batch, length, mean, predictions):
    """Random tokens in rows of sequences with lengths of half to one and a half times `mean`, and the numbers of these."""
    tokens = rng.integers(1000, VOCABULARY, (batch, length)).astype("int32")
    numbers, chosen = np.zeros((batch, length), "int32"), np.zeros((batch, length), "int32")
    for row in range(batch):
        start = 0
        while start < length:
            end = length if mean is None else min(length, start + int(rng.integers(mean // 2, mean * 3 // 2)))
            numbers[row, start:end] = start + 1
            start = end
        chosen[row, rng.choice(length, predictions, replace=False)] = 1
    return (tokens, np.zeros_like(tokens), chosen, *([] if mean is None else [numbers])), tokens[..., None]


def make(args, batch, length):
    """A compiled model, batches of it on the device, and their work."""
    rng, predictions = np.random.default_rng(0), length * 20 // 128
    mean = None if args.single else args.mean or length * 3 // 8
    dropouts = {"hidden_dropout_prob": args.dropout, "attention_probs_dropout_prob": args.dropout}
    config = BertConfig(**SIZES[args.size], vocab_size=VOCABULARY, max_position_embeddings=512, **dropouts)
    model = build_model(config, ["mlm"], packed=mean is not None)
    compile_model(model, optimizer=AdamW(1e-4, weight_decay=0.01), max_predictions=predictions, metrics=None, jit_compile=True)
    made = [packed_batch(rng, batch, length, mean, predictions) for _ in range(args.steps)]
    model.fit(*made[0], batch_size=batch, shuffle=False, verbose=0)
    work = sum((Work(0, int((sequence_lengths(numbers) ** 2).sum())) for (*_, numbers), _ in made if mean), Work())
    squares = work.squares // len(made) if mean else batch * length**2
    flops = train_flops(config, Work(batch * length, squares, batch * predictions, batch), False)
    return model, [keras.tree.map_structure(keras.ops.convert_to_tensor, one) for one in made], flops


def kernels_of(folder):
    """Milliseconds and number of runs of every kernel in a profile."""
    (file,) = Path(folder).rglob("*.xplane.pb")
    planes = list(jax.profiler.ProfileData.from_file(str(file)).planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:GPU")] or planes
    times = collections.defaultdict(lambda: [0.0, 0])
    for plane in devices:
        for line in plane.lines:
            if "Stream" in line.name or (plane.name == "/host:CPU" and "XLA" in line.name):
                for event in line.events:
                    found = times[event.name]
                    found[0] += event.duration_ns / 1e6
                    found[1] += 1
    return times


def kind_of(name):
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "others")


def profile(args, batch, length, ceiling):
    """Print the table of a shape."""
    model, batches, flops = make(args, batch, length)
    bare_steps(model, batches)
    step = min(bare_steps(model, batches) for _ in range(args.rounds)) / len(batches) * 1e3
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            bare_steps(model, batches)
        times = {name: (spent / len(batches), count) for name, (spent, count) in kernels_of(folder).items()}
    by_kind = collections.Counter()
    for name, (spent, _) in times.items():
        by_kind[kind_of(name)] += spent
    rows = f"{batch} x {length}, {'one sequence' if args.single else 'packed'}, dropout {args.dropout:g}"
    share = flops / (step / 1e3) / ceiling
    print(f"\n| {rows}: {step:.2f} ms, {batch * length / step * 1e3:,.0f} tokens/s, {share:.0%} of the ceiling | ms |\n|---|---:|")
    for kind, spent in by_kind.most_common():
        print(f"| {kind} | {spent:.2f} |")
    print(f"| idle | {step - sum(by_kind.values()):.2f} |", flush=True)
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        rows = [(spent, count / len(batches), name) for name, (spent, count) in times.items()]
        lines = [f"{spent:8.3f} ms {count:6.1f} {kind_of(name):25} {name}\n" for spent, count, name in rows]
        name = f"{batch}x{length}_{args.dropout:g}{'_single' if args.single else ''}"
        (args.output / f"{name}.txt").write_text("".join(sorted(lines, reverse=True)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--length", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--mean", type=int, help="mean tokens of a sequence in packed rows (three eighths of the length)")
    parser.add_argument("--single", action="store_true", help="rows of one sequence")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    keras.config.set_dtype_policy("mixed_bfloat16")
    ceiling = matrix_ceiling("bfloat16")
    for batch, length in zip(args.batch, args.length, strict=True):
        profile(args, batch, length, ceiling)


if __name__ == "__main__":
    main()
