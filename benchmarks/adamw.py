"""One step of AdamW with clipping by the global norm, over all weights of MiniLM: ours, Keras's and torch's fused one, in turn.

Command: python benchmarks/adamw.py --peer PYTHON --rounds 3
Time: two minutes on two cores

PYTHON is the interpreter of an environment that has torch; without it torch is left out. Every contender runs in a separate
process, once per round. The gradients are given; what is timed is a call that clips them and takes the step. The first call,
in which TensorFlow traces and compiles, is reported separately; the figure is the median of the 25 calls after it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# MiniLM: tables of tokens and positions; attention; feed-forward; about as many biases and norms as it has.
SHAPES = [(30522, 384), (512, 384), *[(384, 384)] * 24, *[(384, 1536)] * 6, *[(1536, 384)] * 6, *[(384,)] * 80]
RATE = 2e-5
CLIP = 1.0
STEPS = 25
THREADS = "2"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(measure(CONTENDERS[args.contender]())))
        return
    pythons = {"ours": sys.executable, "keras": sys.executable, **({"torch": args.peer} if args.peer else {})}
    results = {name: [] for name in pythons}
    for _ in range(args.rounds):
        for name, python in pythons.items():
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": THREADS}
            done = subprocess.run([python, __file__, "--contender", name], capture_output=True, text=True, env=environment)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
            results[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
    print("| | ms a step | processor ms a step | first call, s |\n|---|---:|---:|---:|")
    for name, rounds in results.items():
        step, processor, first = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {name} | {1000 * step:.0f} | {1000 * processor:.0f} | {first:.1f} |")


def measure(step):
    """Median seconds and processor seconds of a step, and the seconds of the first."""
    first = timed(step)[0]
    seconds, processor = zip(*(timed(step) for _ in range(STEPS)), strict=True)
    return statistics.median(seconds), statistics.median(processor), first


def timed(step):
    started, processor = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - started, time.process_time() - processor


def arrays():
    import numpy as np

    rng = np.random.default_rng(0)
    return [[rng.normal(0, size, shape).astype("float32") for shape in SHAPES] for size in (0.02, 0.01)]


def of_keras(optimizer_class):
    """A step of a Keras optimizer in a TensorFlow graph, completed before it returns."""
    import keras
    import tensorflow as tf

    values, gradients = arrays()
    variables = [keras.Variable(value, name=f"variable-{i}") for i, value in enumerate(values)]
    optimizer = optimizer_class(RATE, weight_decay=0.01, global_clipnorm=CLIP)
    optimizer.build(variables)
    gradients = [tf.constant(gradient) for gradient in gradients]
    apply = tf.function(lambda: optimizer.apply(gradients))

    def step():
        apply()
        variables[0].value[0, 0].numpy()

    return step


def ours():
    from keras_bert_rebuild import AdamW

    return of_keras(AdamW)


def kerass():
    import keras

    return of_keras(keras.optimizers.AdamW)


def torchs():
    import torch

    torch.set_num_threads(int(THREADS))
    values, gradients = arrays()
    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in values]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01, fused=True)
    gradients = [torch.tensor(gradient) for gradient in gradients]

    def step():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()

    return step


CONTENDERS = {"ours": ours, "keras": kerass, "torch": torchs}


if __name__ == "__main__":
    main()
