"""What the mask of packed rows costs a training step, and what an attention that computes no masked pair could save at most.

Command: KERAS_BACKEND=jax python benchmarks/packing.py --length 512 --sequence 64
Time: a minute or two for each backend and dropout
Needs: 2 GB of memory

Two blocks of BERT-base's size with an MLM head train on the same tokens in three forms, in turn: rows of one sequence each, without
padding; the same rows with sequences of `--sequence` tokens that do not see each other; and each of these sequences as a row of its
own, which is what an attention without masked pairs computes. Times are medians; the ratios are medians of ratios taken in turn.
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_bert_rebuild import BertConfig, build_model, compile_model

TOKENS = 2000


def make_step(args, length, packed):
    """A function that trains on a batch of rows of this length, already compiled."""
    dropouts = {"hidden_dropout_prob": args.dropout, "attention_probs_dropout_prob": args.dropout}
    config = BertConfig(vocab_size=TOKENS, num_hidden_layers=2, max_position_embeddings=args.length, **dropouts)
    model = build_model(config, ["mlm"], packed=packed)
    compile_model(model, max_predictions=length * 3 // 10, metrics=None)
    rng, shape = np.random.default_rng(0), (args.tokens // length, length)
    tokens = rng.integers(5, TOKENS, shape).astype("int32")
    columns = np.arange(length, dtype="int32")
    numbers = np.broadcast_to(columns // args.sequence * args.sequence + 1, shape)
    chosen = np.tile(columns % 7 == 0, (len(tokens), 1)).astype("int32")
    x = tokens, np.zeros_like(tokens), chosen, *([np.array(numbers)] if packed else [])

    def step():
        started = time.perf_counter()
        model.train_on_batch(x, tokens[..., None])
        return time.perf_counter() - started

    step()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--length", type=int, default=512, help="tokens of a row (512)")
    parser.add_argument("--sequence", type=int, default=64, help="tokens of a sequence (64)")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of a batch (2,048)")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    forms = {
        "one sequence a row": make_step(args, args.length, packed=False),
        "packed": make_step(args, args.length, packed=True),
        "sequences apart": make_step(args, args.sequence, packed=False),
    }
    times = {name: [] for name in forms}
    for _ in range(args.rounds):
        for name, step in forms.items():
            times[name].append(step())
    print(f"{keras.config.backend()}, {args.length} tokens a row, {args.sequence} a sequence, dropout {args.dropout:g}")
    for name, seconds in times.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, times["packed"], strict=True))
        print(f"  {name:20} {statistics.median(seconds):.3f} s a step, {ratio:.2f} of packed")


if __name__ == "__main__":
    main()
