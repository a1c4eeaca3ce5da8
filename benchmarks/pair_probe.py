"""How well lengths and edges of the segments alone predict the second task.

Command: python benchmarks/pair_probe.py TOKENS
Time: half a minute

A logistic regression (`data/pretraining/pair_probe.py`) is trained on one half of the documents and evaluated on the other half,
and also on further examples from the same documents, some of whose words it may have memorised.
"""

import argparse

from keras_bert_rebuild import TokenStore, pretraining_batches
from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.data.pretraining.pair_probe import probe_of_pairs

LENGTHS = (32, 64, 128, 512)
BATCH_SIZE = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tokens", help="a folder that `keras-bert prepare` wrote")
    parser.add_argument("--examples", type=int, default=10_000, help="to train on and to evaluate (10000)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    halves = split_documents(TokenStore(args.tokens), 0.5, args.seed)
    print("| Task | Length | The more frequent answer | Other documents | The same documents |")
    print("|---|---:|---:|---:|---:|")
    for kind in ("nsp", "sop"):
        for length in LENGTHS:
            steps = -(-2 * args.examples // BATCH_SIZE)
            settings = {"seed": args.seed, "next_sentence": kind, "steps_per_epoch": steps}
            train, test = (pretraining_batches(half, BATCH_SIZE, length, 1, **settings) for half in halves)
            other, same = probe_of_pairs(train, test, args.examples), probe_of_pairs(train, None, args.examples)
            print(f"| {kind} | {length} | {other.prior:.1%} | {other.accuracy:.1%} | {same.accuracy:.1%} |", flush=True)


if __name__ == "__main__":
    main()
