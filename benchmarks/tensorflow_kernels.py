"""What stands between the products of a step on TensorFlow, with and without our kernels: milliseconds with the gradients.

Command: KERAS_BACKEND=tensorflow python benchmarks/tensorflow_kernels.py [--dtype float32 bfloat16]
Time: a minute on two idle cores for each dtype

The shapes are those of BERT-base at 8 x 128. Each operation runs alone in a graph, as in training; medians of --runs runs.
Without kernels is a process of its own with KERAS_BERT_WITHOUT_KERNELS naming all of TensorFlow's: the graph of Keras's operations.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

BATCH, LENGTH, HIDDEN, HEADS, WIDE, POSITIONS, VOCABULARY = 8, 128, 768, 12, 3072, 160, 30522


def operations(dtype):
    """Functions of tensors of a dtype, and shapes of these, by a name."""
    from keras import ops

    from keras_bert_rebuild.layers import Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, gelu, gelu_erf
    from keras_bert_rebuild.layers.products import similarities

    policy = {"dtype": dtype if dtype == "float32" else f"mixed_{dtype}"}
    mask = ops.ones((BATCH, LENGTH), "bool")
    tanh, error_function = (FeedForward(WIDE, activation=activation, **policy) for activation in (gelu, gelu_erf))
    norm, dropout = LayerNormalization(**policy), Dropout(0.1, **policy)
    attention = MultiHeadSelfAttention(HEADS, attention_dropout=0.1, **policy)
    for layer in (norm, attention):
        layer.build((None, None, HIDDEN))
    tokens, heads = (BATCH, LENGTH, HIDDEN), (BATCH, LENGTH, HEADS, HIDDEN // HEADS)
    return {
        "gelu, tanh": (lambda x: tanh.activate(x, True), (BATCH, LENGTH, WIDE)),
        "gelu, error function": (lambda x: error_function.activate(x, True), (BATCH, LENGTH, WIDE)),
        "norm": (lambda x: norm(x, training=True), tokens),
        "dropout": (dropout.drop, tokens),
        "attention with dropout": (lambda *x: attention.attend(*x, mask, True), heads, heads, heads),
        "logits of the vocabulary": (similarities, (POSITIONS, HIDDEN), (VOCABULARY, HIDDEN)),
    }


def training_step(function, inputs):
    """A graph that computes the function of variables and the gradients of all."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def step():
        values = [variable.value() for variable in inputs]
        with tf.GradientTape() as tape:
            tape.watch(values)
            outputs = function(*values)
        return tape.gradient(outputs, values, outputs)

    return step


def measure(dtype, runs):
    """Milliseconds of each operation."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(2)
    found, rng = {}, np.random.default_rng(0)
    for name, (function, *shapes) in operations(dtype).items():
        step = training_step(function, [tf.Variable(tf.cast(rng.standard_normal(shape), dtype)) for shape in shapes])
        times = []
        for _ in range(runs + 2):
            started = time.perf_counter()
            step()
            times.append(time.perf_counter() - started)
        found[name] = statistics.median(times[2:]) * 1e3
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.worker, args.runs)))
        return
    from keras_bert_rebuild.kernels.kernel import KERNELS

    without = ",".join(KERNELS)
    columns = {}
    for dtype in args.dtype:
        for title, names in (("without", without), ("ours", "")):
            command = [sys.executable, __file__, "--worker", dtype, "--runs", str(args.runs)]
            environment = os.environ | {"KERAS_BERT_WITHOUT_KERNELS": names}
            answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            columns[f"{dtype}, {title}"] = json.loads(answer.stdout.splitlines()[-1])
    print(f"| | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name in next(iter(columns.values())):
        print(f"| {name} | {' | '.join(f'{column[name]:.2f}' for column in columns.values())} |")


if __name__ == "__main__":
    main()
