"""One MLM + NSP training step: the vocabulary at all positions or only at the masked positions, in turn.

Command: python benchmarks/train_step.py --size base --batch 8 --length 128 --rounds 4
Time: two minutes on two cores

Every round runs one step of each variant, so that changes in the speed of the machine affect all; the medians and their
ratio are printed.
"""

import argparse
import statistics
import time

import keras
import numpy as np

from keras_bert_rebuild import compile_model, get_model

SIZES = {
    "tiny": {"embed_dim": 128, "transformer_num": 2, "head_num": 2, "feed_forward_dim": 512},
    "base": {"embed_dim": 768, "transformer_num": 12, "head_num": 12, "feed_forward_dim": 3072},
}


def make_batch(rng, vocab, batch, length, predictions):
    ids = rng.integers(5, vocab, (batch, length))
    chosen = np.zeros((batch, length), int)
    for row in chosen:
        row[1 + rng.permutation(length - 1)[:predictions]] = 1
    return (ids, np.zeros_like(ids), chosen), (ids[..., None], rng.integers(0, 2, (batch, 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--policy", default="float32")
    parser.add_argument("--xla", action="store_true", help="compile with XLA on TensorFlow too")
    args = parser.parse_args()
    keras.config.set_dtype_policy(args.policy)
    predictions = max(round(args.length * 0.15), 1)
    x, y = make_batch(np.random.default_rng(0), args.vocab, args.batch, args.length, predictions)
    models = {}
    for name, slots in (("all positions", None), (f"{predictions} masked positions", predictions)):
        keras.utils.set_random_seed(0)
        model = get_model(args.vocab, seq_len=args.length, pos_num=512, dropout_rate=0.1, **SIZES[args.size])
        models[name] = compile_model(model, max_predictions=slots, metrics=None, jit_compile=True if args.xla else "auto")
        models[name].train_on_batch(x, y)
    seconds = {name: [] for name in models}
    for _ in range(args.rounds):
        for name, model in models.items():
            started = time.perf_counter()
            model.train_on_batch(x, y)
            seconds[name].append(time.perf_counter() - started)
    print(f"{keras.backend.backend()}, {args.policy}, {args.size}, batch {args.batch}, length {args.length}, {args.rounds} rounds")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"  {name:<24} {median:7.3f} s/step  {args.batch * args.length / median:9,.0f} tokens/s")
    full, gathered = medians.values()
    print(f"  ratio {full / gathered:.2f}")


if __name__ == "__main__":
    main()
