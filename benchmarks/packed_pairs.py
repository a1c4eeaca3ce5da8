"""What a model learns from pairs in packed rows, beside the same pairs one a row.

Command: KERAS_BACKEND=jax python benchmarks/packed_pairs.py --next-sentence nsp --length 128 --seeds 0 1 2
Time: about ten minutes for three seeds of both forms
Needs: 2 GB of memory

A small BERT with MLM and NSP or SOP is pretrained on the docstrings of installed packages, with both forms of rows. A step
has about as many pairs in both: packed, its rows are as many fewer as pairs share a row, the rates are the same. Then both models
are evaluated on the same unpacked pairs of documents held out.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from pretrain_step import docstring_corpora

from keras_bert_rebuild import compile_model, pretraining_batches
from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

HELD_OUT, VOCABULARY = 0.1, 4096


def pairs_of_row(corpus, args):
    """How many pairs a packed row has, on average."""
    batches = pretraining_batches(corpus, 256, args.length, 1, next_sentence=args.next_sentence, packed=True)
    return np.mean([len(batches.work(batches.batch(0, i))[0]) / 256 for i in range(4)])


def train(corpus, args, seed, packing, rows):
    """The model, and the seconds that its training took."""
    settings = {
        "model": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512},
        "steps": args.steps,
        "batch_size": rows,
        "seq_len": args.length,
        "learning_rate": 1e-3,
        "next_sentence": args.next_sentence,
        "packing": packing,
        "held_out": HELD_OUT,
        "evaluate_steps": args.steps,
        "seed": seed,
        "tensorboard": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        model = pretrain(corpus, Path(folder) / "run", settings)
        return model, time.perf_counter() - started


def score(model, corpus, args):
    """The losses and accuracies on unpacked pairs."""
    limit = args.length * 3 // 10
    batches = pretraining_batches(corpus, 64, args.length, limit, 1, next_sentence=args.next_sentence, steps_per_epoch=32)
    compile_model(model, max_predictions=limit)
    return model.evaluate(batches, verbose=0, return_dict=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--next-sentence", choices=("nsp", "sop"), default="nsp")
    parser.add_argument("--length", type=int, default=128, help="tokens of a row (128)")
    parser.add_argument("--pairs", type=int, default=32, help="pairs of a step (32)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    corpus, _ = docstring_corpora(VOCABULARY)
    head, shared = args.next_sentence.upper(), pairs_of_row(corpus, args)
    print(f"{shared:.2f} pairs a row of {args.length}, {args.steps} steps", flush=True)
    found = {}
    for seed in args.seeds:
        _, held_out = split_documents(corpus, HELD_OUT, seed)
        for name, packing, rows in (("one a row", False, args.pairs), ("packed", True, round(args.pairs / shared))):
            model, seconds = train(corpus, args, seed, packing, rows)
            results = score(model, held_out, args)
            values = results["MLM_loss"], results[f"{head}_loss"], results[f"{head}_accuracy"]
            found.setdefault(name, []).append((*values, seconds))
            shown = "MLM {:.3f} nats, {head} {:.3f} nats, {:.1%} right".format(*values, head=head)
            print(f"  seed {seed}, {name:10} {rows} rows: {shown}, {seconds:.0f} s", flush=True)
    for name, rows in found.items():
        means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
        print("  mean, {:10} MLM {:.3f} nats, {head} {:.3f} nats, {:.1%} right, {:.0f} s".format(name, *means, head=head))


if __name__ == "__main__":
    main()
