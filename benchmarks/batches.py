"""How many tokens a second one core makes into pretraining batches: python benchmarks/batches.py [--seconds 1]"""

import argparse
import itertools
import time

import numpy as np

from keras_bert_rebuild.data.corpus import TokenCorpus
from keras_bert_rebuild.data.masking_units import UNITS
from keras_bert_rebuild.data.packed_batches import PackedBatches
from keras_bert_rebuild.data.pretraining_batches import NEXT_SENTENCE, pretraining_batches

VOCABULARY = 30000
TOKENS = 20_000_000
MAX_PREDICTIONS = {128: 20, 512: 77}


def make_corpus(rng):
    """Passages of 26 tokens and documents of 30 passages on average; a quarter of the tokens go on with a word."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"##{i}" if i % 4 == 0 else f"{i}" for i in range(VOCABULARY - len(special))]
    ends = np.cumsum(rng.integers(3, 50, TOKENS // 26))
    passages = np.concatenate([[0], ends[ends < TOKENS], [TOKENS]])
    documents = np.append(passages[:-1][rng.random(len(passages) - 1) < 1 / 30], TOKENS)
    documents[0] = 0
    ids = rng.integers(len(special), VOCABULARY, TOKENS, dtype="int32")
    return TokenCorpus(ids, passages, documents, special + words)


def rate(data, size, seconds):
    """Million tokens a second, padding included, of batches one after the other."""
    data.batch(0, 0)
    made, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        made += 1
        data.batch(0, made % len(data))
    return made * size / passed / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="to measure each line (1)")
    args = parser.parse_args()
    store = make_corpus(np.random.default_rng(0))
    print("next_sentence  masking     seq_len  batch  million tokens/s")
    for kind, masking, seq_len, batch in itertools.product((*NEXT_SENTENCE, "packed"), UNITS, (128, 512), (32, 256)):
        shape = batch, seq_len, MAX_PREDICTIONS[seq_len]
        if kind == "packed":
            data = PackedBatches(store, *shape, masking=masking)
        else:
            data = pretraining_batches(store, *shape, next_sentence=kind, masking=masking)
        measured = rate(data, batch * seq_len, args.seconds)
        print(f"{kind or 'none':<13}  {masking:<10}  {seq_len:>7}  {batch:>5}  {measured:>16.1f}", flush=True)


if __name__ == "__main__":
    main()
