"""What attention within a window saves in bands: time and memory of a forward pass and of a training step, beside all pairs.

Command: python benchmarks/window.py --lengths 128 256 512 2048 8192 --rounds 5
Time: two minutes for each backend on two cores, and 6 GB for the longest

One attention layer, by default of four heads of 64. Times are medians of calls in one process, where both forms take turns. For
memory every form has a process of its own: the highest resident set during the second call, beyond that before the first.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

# Name of a form to the number of windows beyond which bands are used.
FORMS = {"bands": -1, "all pairs": 1 << 30}
PASSES = ("predict_on_batch", "train_on_batch")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--window", type=int, default=64, help="tokens on either side")
    parser.add_argument("--heads", type=int, default=4, help="heads of 64")
    parser.add_argument("--tokens", type=int, default=8192, help="tokens of a batch, at least one text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dropout", type=float, default=0.0, help="of the probabilities")
    parser.add_argument("--any-length", action="store_true", help="trace TensorFlow's graph for texts of any length")
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.length:
        print(json.dumps(measure(args)))
        return
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    print(f"{backend}, {args.heads} heads of 64, window {args.window}, {args.tokens} tokens, dropout {args.dropout}\n")
    print(
        "| length | form | forward, s | training step, s | memory of forward, MB | of a step, MB |\n|---:|---|---:|---:|---:|---:|"
    )
    for length in args.lengths:
        seconds = in_process("--length", str(length))
        for form in FORMS:
            memory = in_process("--length", str(length), "--form", form)
            cells = [*(f"{seconds[form][name]:.3f}" for name in PASSES), *(f"{memory[name] / 1e6:,.0f}" for name in PASSES)]
            print(f"| {length:,} | {form} | {' | '.join(cells)} |", flush=True)


def in_process(*arguments):
    command = [sys.executable, __file__, *sys.argv[1:], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ})
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(args):
    import keras
    import numpy as np

    from keras_bert_rebuild.kernels import bands
    from keras_bert_rebuild.layers import MultiHeadSelfAttention

    width = 64 * args.heads
    x = np.random.default_rng(0).standard_normal((max(args.tokens // args.length, 1), args.length, width)).astype("float32")
    models = {}
    for form in [args.form] if args.form else FORMS:
        inputs = keras.Input((None if args.any_length else args.length, width))
        layer = MultiHeadSelfAttention(args.heads, window=args.window, attention_dropout=args.dropout)
        models[form] = keras.Model(inputs, layer(inputs))
        models[form].compile(keras.optimizers.SGD(1e-3), "mse", jit_compile=keras.backend.backend() == "jax")

    def run(form, name):
        bands.WINDOWS = FORMS[form]
        given = (x,) if name == "predict_on_batch" else (x, x)
        started = time.perf_counter()
        np.asarray(getattr(models[form], name)(*given))
        return time.perf_counter() - started

    if args.form:
        before = resident()
        return {name: peak(lambda name=name: run(args.form, name)) - before for name in PASSES}
    found = {form: {} for form in FORMS}
    for name in PASSES:
        seconds = [[run(form, name) for form in FORMS] for _ in range(args.rounds + 1)][1:]
        for form, of_form in zip(FORMS, zip(*seconds, strict=True), strict=True):
            found[form][name] = statistics.median(of_form)
    return found


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(run):
    """The highest resident set while `run()` runs for the second time, in bytes."""
    run()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    run()
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)["VmHWM"].split()[0]) * 1024


if __name__ == "__main__":
    main()
