"""How an index grows: time and memory to make it, time to search it, and what compressed vectors find of the exact answer.

    python benchmarks/search.py TEXT ... --model MODEL --work FOLDER [--documents 20000 200000] [--words 16]

Texts are cut into passages of a number of words, each of which is a document; every 500th passage is a query instead. The model
makes the float32 index; the other storages are made from its vectors, so that they differ in nothing else. Every measurement of
memory is of a process of its own: the maximum of its resident set, mapped files included.
"""

import argparse
import json
import lzma
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

QUERIES, TOP_K, EVERY = 100, 10, 500
STORAGES = {
    "float32": ("float32", "none"),
    "float16": ("float16", "none"),
    "int8": ("int8", "none"),
    "int8, float16 again": ("int8", "float16"),
    "binary, int8 again": ("binary", "int8"),
    "binary alone": ("binary", "none"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--work", type=Path, required=True, help="a folder for corpora and indexes")
    parser.add_argument("--documents", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--words", type=int, default=16)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        print(json.dumps(STEPS[args.step.split(":")[0]](args, *args.step.split(":")[1:])))
        return
    args.work.mkdir(exist_ok=True)
    passages, queries = cut(args.texts, args.words, max(args.documents))
    (args.work / "queries.json").write_text(json.dumps(queries))
    print(f"{len(passages):,} passages of {args.words} words, {len(queries)} queries, {args.model}\n")
    print("| documents | index, s | documents/s | peak MB |\n|---:|---:|---:|---:|")
    for count in args.documents:
        (args.work / f"corpus-{count}.tsv").write_text("".join(f"p{i}\t{text}\n" for i, text in enumerate(passages[:count])))
        found = step("index", count)
        print(f"| {count:,} | {found['seconds']:.0f} | {count / found['seconds']:.0f} | {found['peak']:.0f} |", flush=True)
    print("\n| documents | stored as | MB on disk | made in s | 1 query, ms | 100 queries, ms | recall@10 | peak MB |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for count in args.documents:
        exact = None
        for name in STORAGES:
            made = step("store", count, name) if name != "float32" else {"seconds": 0}
            found = step("search", count, name)
            exact = exact or found["rows"]
            recall = np.mean([len(set(a) & set(b)) / TOP_K for a, b in zip(exact, found["rows"], strict=True)])
            print(
                f"| {count:,} | {name} | {found['disk']:.1f} | {made['seconds']:.1f} | {found['one']:.1f} | {found['many']:.0f} | "
                f"{recall:.3f} | {found['peak']:.0f} |",
                flush=True,
            )


def cut(paths, words, most):
    """Distinct passages of a number of words, and the queries, every `EVERY`th of them."""
    passages = {}
    for path in sorted(paths):
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                parts = line.split()
                for first in range(0, len(parts), words):
                    if len(parts) - first >= words // 2:
                        passages[" ".join(parts[first : first + words])] = None
    chosen = list(passages)
    queries = chosen[::EVERY][:QUERIES]
    taken = set(queries)
    documents = [text for text in chosen if text not in taken][:most]
    # Mixed, so that a small corpus is a sample of the large one.
    return [documents[i] for i in np.random.default_rng(0).permutation(len(documents))], queries


def step(*parts):
    """Run a step in a process of its own."""
    command = [sys.executable, *sys.argv, "--step", ":".join(map(str, parts))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def make_index(args, count):
    from keras_bert_rebuild.search.index import Index
    from keras_bert_rebuild.search.retrievers import load_retriever

    retriever = load_retriever(args.model)
    list(retriever.documents(["a text"] * 64))
    started = time.perf_counter()
    Index.build(args.work / f"corpus-{count}.tsv", folder(args, count, "float32"), retriever, overwrite=True)
    vectors = np.stack(list(retriever.queries(json.loads((args.work / "queries.json").read_text()))))
    np.save(args.work / "queries.npy", vectors)
    return {"seconds": time.perf_counter() - started, "peak": peak()}


def store(args, count, name):
    """Make an index of the vectors of another."""
    from keras_bert_rebuild.search.index import Index

    class Stored:
        def __init__(self, index):
            self.vectors, self.width, self._blocks = index.vectors, index.width, index._blocks()

        def documents(self, texts):
            return iter(next(self._blocks)["vectors"])

        def description(self):
            return {"of": "vectors"}

    dtype, rescoring = STORAGES[name]
    source = Index.open(folder(args, count, "float32"))
    started = time.perf_counter()
    corpus = args.work / f"corpus-{count}.tsv"
    Index.build(corpus, folder(args, count, name), Stored(source), dtype=dtype, rescoring=rescoring, overwrite=True)
    return {"seconds": time.perf_counter() - started}


def search(args, count, name):
    from keras_bert_rebuild.search.index import Index

    path = folder(args, count, name)
    index = Index.open(path)
    vectors = np.load(args.work / "queries.npy")
    one = [timed(lambda i=i: index.search_vectors(vectors[i : i + 1], TOP_K)) for i in range(12)][2:]
    many = [timed(lambda: index.search_vectors(vectors, TOP_K)) for _ in range(4)][1:]
    found = index.search_vectors(vectors, TOP_K)
    return {
        "one": 1000 * statistics.median(one),
        "many": 1000 * statistics.median(many),
        "rows": [rows.tolist() for rows, _ in found],
        "peak": peak(),
        "disk": sum(file.stat().st_size for file in path.glob("block-*.npy")) / 1e6,
    }


def timed(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def folder(args, count, name):
    return args.work / f"index-{count}-{name.replace(' ', '-').replace(',', '')}"


def peak():
    """The largest resident set of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


STEPS = {"index": make_index, "store": store, "search": search}

if __name__ == "__main__":
    main()
