"""Tokenising on one core beside Hugging Face's tokenizers: texts per second, in one run.

Run: taskset -c 0 python benchmarks/text.py VOCAB.txt TEXT [TEXT ...]
     (files of lines, .xz too; of a table's lines the last column)
Needs: tensorflow-text for the fast path, tokenizers (a dependency of the package).
"""

import argparse
import lzma
import os
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from tokenizers import BertWordPieceTokenizer

from keras_bert_rebuild import WordPieceTokenizer

BATCH = 1000
ROUNDS = 3


def read_lines(path):
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[-1].strip() for line in file if line.strip()]


def batches(lines):
    return [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]


def ours(tokenizer, offsets):
    def run(lines):
        return [tokenizer.encode_batch(batch, return_offsets=offsets, pad_to="longest") for batch in batches(lines)]

    return run


def theirs(tokenizer, offsets):
    def run(lines):
        encoded = (encoding for batch in batches(lines) for encoding in tokenizer.encode_batch(batch))
        return [(e.ids, e.offsets) if offsets else e.ids for e in encoded]

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = [line for path in args.texts for line in read_lines(path)]
    peer = BertWordPieceTokenizer(str(args.vocab), lowercase=not WordPieceTokenizer(args.vocab).cased)
    length = sum(map(len, lines)) / len(lines)
    print(f"{len(lines):,} lines, {length:.0f} characters each, {ROUNDS} rounds in turn, the best of each")
    for offsets in (False, True):
        runs = {
            "tokenizers": theirs(peer, offsets),
            "ours, tensorflow-text": ours(WordPieceTokenizer(args.vocab, fast=True), offsets),
            "ours, without": ours(WordPieceTokenizer(args.vocab, fast=False), offsets),
        }
        first, best = {}, {}
        for run in runs.values():
            run(lines[:64])  # TensorFlow traces its graph
        for _ in range(ROUNDS):
            for name, run in runs.items():
                started = time.process_time()
                run(lines)
                rate = len(lines) / (time.process_time() - started)
                first.setdefault(name, rate)
                best[name] = max(best.get(name, 0), rate)
        print("with character offsets" if offsets else "ids")
        for name, rate in best.items():
            print(
                f"  {name:22} first round {first[name]:9,.0f} texts/s  {first[name] / first['tokenizers']:5.1f} x   "
                f"best {rate:9,.0f} texts/s  {rate / best['tokenizers']:5.1f} x"
            )


if __name__ == "__main__":
    main()
