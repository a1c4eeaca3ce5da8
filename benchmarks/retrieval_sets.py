"""A retrieval set as files, for `keras-bert mine`, `finetune`, `index` and `search`.

    python benchmarks/retrieval_sets.py DATA --set squad|banking77 --output FOLDER [--queries 300]

DATA is the folder with classification/ and qa/; what the sets are is said in `retrieval.py`. FOLDER gets train.jsonl and dev.jsonl
(pairs; the last 200 are dev), corpus.jsonl, queries.jsonl and qrels.tsv in the formats of BEIR, and train_corpus.jsonl, the texts
to find of train, from which negatives may come.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from retrieval_worker import DATA

HELD_OUT = 200


def write(path, rows):
    """A JSON object a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", choices=("squad", "banking77"), required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=300)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    examples, test = DATA[args.set]({"data_folder": args.data, "objective": ""}, np.random.default_rng(0))
    examples = [examples[i] for i in np.random.default_rng(0).permutation(len(examples))]
    pairs = [{"query": query, "positive": positive} for (query, positive), _ in examples]
    write(args.output / "train.jsonl", pairs[:-HELD_OUT])
    write(args.output / "dev.jsonl", pairs[-HELD_OUT:])
    texts = dict.fromkeys(pair["positive"] for pair in pairs)
    write(args.output / "train_corpus.jsonl", [{"_id": f"t{i}", "text": text} for i, text in enumerate(texts)])
    write(args.output / "corpus.jsonl", [{"_id": str(i), "text": text} for i, text in enumerate(test["corpus"])])
    queries = test["queries"][: args.queries]
    write(args.output / "queries.jsonl", [{"_id": f"q{i}", "text": query} for i, query in enumerate(queries)])
    judged = [(f"q{i}", document, grade) for i in range(len(queries)) for document, grade in test["judged"][str(i)].items()]
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    (args.output / "qrels.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
