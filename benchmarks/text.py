"""From text to batches on one core, in one run: tokenising, compared with Hugging Face's tokenizers, `prepare`, batches.

Command: python benchmarks/text.py [--corpus FILE] [--vocab FILE]
Time: two minutes for 15 MB
Needs: tokenizers (a dependency of the package), Linux.

The goals: eight times the peer on English; 5 MB/s prepared; two million tokens per second in batches, with padding.
Rates are per processor time, in alternating rounds, the best of each.
"""

import argparse
import itertools
import lzma
import operator
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tokenizers import BertWordPieceTokenizer

from keras_bert_rebuild import TokenStore, WordPieceTokenizer, prepare, pretraining_batches
from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files
from keras_bert_rebuild.data.pretraining.masking import UNITS
from keras_bert_rebuild.data.pretraining.pretraining_batches import NEXT_SENTENCE
from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary

TEXTS_A_CALL = 1000
ROUNDS = 3
VOCABULARY = 30000

# (length, examples per batch), and the maximum of predictions per example for its length.
SHAPES = ((128, 32), (128, 256), (512, 32), (512, 256))
MAX_PREDICTIONS = {128: 20, 512: 77}


def read_lines(path):
    """The lines of a file, or the last column of a table; without a file the docstrings, a blank line after each document."""
    if path is None:
        documents = map(docstring_document, docstring_files(["numpy", "keras"]))
        return [line for document in documents if document for line in (*document, "")]
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[-1].strip() for line in file]


def tokenising(lines, vocabulary):
    peer = BertWordPieceTokenizer(str(vocabulary), lowercase=not WordPieceTokenizer(vocabulary).cased)
    calls = [lines[i : i + TEXTS_A_CALL] for i in range(0, len(lines), TEXTS_A_CALL)]

    def ours(offsets):
        tokenizer = WordPieceTokenizer(vocabulary)
        return lambda texts: tokenizer.encode_batch(texts, return_offsets=offsets, pad_to="longest")

    def theirs(offsets):
        return lambda texts: [(e.ids, e.offsets) if offsets else e.ids for e in peer.encode_batch(texts)]

    for offsets in (False, True):
        runs = {"tokenizers": theirs(offsets), "ours": ours(offsets)}
        rates = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                started = time.process_time()
                for texts in calls:
                    run(texts)
                rates[name].append(len(lines) / (time.process_time() - started))
        print(f"tokenising, {'with character offsets' if offsets else 'ids'}")
        for name, measured in rates.items():
            columns = [f"  {name:22}"]
            for column, pick in (("first round", operator.itemgetter(0)), ("best", max)):
                columns.append(f"{column} {pick(measured):9,.0f} texts/s {pick(measured) / pick(rates['tokenizers']):5.1f} x")
            print(*columns, sep="   ", flush=True)


def preparing(corpus, vocabulary, folder):
    """Make the store once per round; return the last."""
    size, rates = corpus.stat().st_size / 1e6, []
    for number in range(ROUNDS):
        started, passed = time.process_time(), time.perf_counter()
        prepare(corpus, vocabulary, folder / f"tokens{number}", workers=1)
        rates.append((size / (time.process_time() - started), size / (time.perf_counter() - passed)))
    processor, clock = map(max, zip(*rates, strict=True))
    store = TokenStore(folder / f"tokens{number}")
    print(f"preparing {size:.1f} MB, {store.num_tokens:,} tokens, one process")
    print(f"  {processor:.1f} MB/s of processor time, {clock:.1f} MB/s by the clock", flush=True)
    return store


def making_batches(store, seconds):
    print("batches, million tokens/s   " + "".join(f"{f'{length} x {size}':>11}" for length, size in SHAPES))
    for pairs, masking in itertools.product((*NEXT_SENTENCE, "packed"), UNITS):
        rates = []
        for length, size in SHAPES:
            shape = size, length, MAX_PREDICTIONS[length]
            if pairs == "packed":
                data = pretraining_batches(store, *shape, masking=masking, next_sentence=None, packed=True)
            else:
                data = pretraining_batches(store, *shape, next_sentence=pairs, masking=masking)
            rates.append(rate(data, seconds) * size * length / 1e6)
        print(f"  {pairs or 'none':12}{masking:14}" + "".join(f"{rate:11.1f}" for rate in rates), flush=True)


def rate(data, seconds):
    """Batches per second, one after another."""
    data.batch(0, 0)
    made, started = 0, time.process_time()
    while (passed := time.process_time() - started) < seconds:
        made += 1
        data.batch(0, made % len(data))
    return made / passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a text file, .xz too; by default the docstrings of Python, NumPy and Keras")
    parser.add_argument("--vocab", type=Path, help="its vocabulary, lower-case or cased; by default one is learnt from the corpus")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure every kind of batch (1)")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    lines = read_lines(args.corpus)
    texts = [line for line in lines if line]
    print(f"{len(texts):,} texts of {sum(map(len, texts)) / len(texts):.0f} characters", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        corpus, vocabulary = Path(folder) / "corpus.txt", args.vocab or Path(folder) / "vocab.txt"
        corpus.write_text("\n".join(lines), encoding="utf-8")
        if args.vocab is None:
            words = (word for text in texts for word in split_words(text))
            save_vocabulary(train_vocabulary(words, VOCABULARY), vocabulary)
        tokenising(texts, vocabulary)
        making_batches(preparing(corpus, vocabulary, Path(folder)), args.seconds)


if __name__ == "__main__":
    main()
