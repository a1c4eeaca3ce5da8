"""The savings of rematerialisation and a loss in chunks: memory and time of a training step with and without them.

Command: python benchmarks/remat.py --layers 4 --batch 16 --length 256 --rounds 3
Time: two minutes on two cores

Each variant runs in a separate process. Memory is the highest resident set during steps after the first, beyond what the process
used for its weights and the state of the optimizer before any step: activations, gradients and other needs of a step. On JAX the
bytes of temporaries that XLA plans for the step are reported too. There XLA's CPU scheduler, which spends memory on doing
things at once and so undoes rematerialisation, is switched off.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

VARIANTS = {
    "plain": {},
    "remat": {"remat": True},
    "chunk": {"loss_chunk": 256},
    "remat and chunk": {"remat": True, "loss_chunk": 256},
}

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": "--xla_cpu_enable_concurrency_optimized_scheduler=false"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", default="float32")
    parser.add_argument("--xla", action="store_true", help="compile with XLA on TensorFlow too")
    parser.add_argument("--all-positions", action="store_true", help="compute the MLM head everywhere, as keras_bert does")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.variant:
        print(json.dumps(measure(args)))
        return
    results = {}
    for variant in VARIANTS:
        command = [sys.executable, __file__, *sys.argv[1:], "--variant", variant]
        done = subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, **os.environ})
        if done.returncode:
            raise RuntimeError(f"{variant}: {done.stderr[-2000:]}")
        results[variant] = json.loads(done.stdout.strip().splitlines()[-1])
    backend = os.environ.get("KERAS_BACKEND", "tensorflow") + (" with XLA" if args.xla else "")
    print(f"{backend}, {args.policy}, {args.layers} layers of {args.hidden}, batch {args.batch} x {args.length}")
    for variant, result in results.items():
        planned = f"   planned by XLA {result['planned'] / 1e6:7,.0f} MB" if result["planned"] else ""
        print(f"  {variant:<16} {result['seconds']:6.2f} s/step   memory {result['memory'] / 1e6:7,.0f} MB{planned}")


def measure(args):
    import keras
    import numpy as np

    from keras_bert_rebuild import compile_model, get_model

    keras.config.set_dtype_policy(args.policy)
    predictions = round(args.length * 0.15)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 30522, (args.batch, args.length))
    chosen = np.zeros((args.batch, args.length), int)
    chosen[:, 1 : predictions + 1] = 1
    x, y = (ids, ids * 0, chosen), (ids[..., None], rng.integers(0, 2, (args.batch, 1)))
    model = get_model(
        30522, seq_len=args.length, embed_dim=args.hidden, transformer_num=args.layers, head_num=args.hidden // 64,
        feed_forward_dim=4 * args.hidden, pos_num=512,
    )  # fmt: skip
    slots = None if args.all_positions else predictions
    jit = {"jit_compile": True} if args.xla else {}
    compile_model(model, max_predictions=slots, **VARIANTS[args.variant], **jit)
    model.optimizer.build(model.trainable_variables)
    before = resident()
    model.train_on_batch(x, y)
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # reset the peak resident set
    seconds = []
    for _ in range(args.rounds):
        started = time.perf_counter()
        model.train_on_batch(x, y)
        seconds.append(time.perf_counter() - started)
    with open("/proc/self/status") as file:
        highest = int(dict(line.split(":", 1) for line in file)["VmHWM"].split()[0]) * 1024
    return {"seconds": statistics.median(seconds), "memory": highest - before, "planned": planned(model, x, y)}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def planned(model, x, y):
    """The bytes of temporaries of the compiled step, None on backends other than JAX."""
    import keras

    if keras.backend.backend() != "jax":
        return None
    import jax

    state = tuple([v.value for v in variables] for variables in (
        model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables
    ))  # fmt: skip
    return jax.jit(model.train_step, donate_argnums=0).lower(state, (x, y)).compile().memory_analysis().temp_size_in_bytes


if __name__ == "__main__":
    main()
