"""Which attention heads a task needs: importance, each head switched off, and many of them at once in three orders.

    python benchmarks/which_heads.py subjectivity/model --data dev.tsv --test test.tsv --metric accuracy
    python benchmarks/which_heads.py all-MiniLM-L6-v2 --data pairs.tsv --test others.tsv --metric spearman --score-range 0 5

Importances are those of `head_importance` on `--examples` of `--data`. Then the score on `--test` with heads switched off: each
alone, on `--alone` examples, and shares of all of them at once: the least important first, the most important first, and in the
mean of three random orders. `--importance FILE` writes the importances for `keras-bert attention --importance`.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from keras_bert_rebuild import load_task
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.interpret import Head, head_importance, intervene

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def score_of(task, examples, metric, off=()):
    """The score of a task on examples while some heads are off."""
    with intervene(task, [Head(block, head) for block, head in off]):
        return task.scores(examples, task.predict_examples(examples))[metric]


def alone(task, examples, metric, order):
    """What is lost with each head off, in the order of the heads."""
    base = score_of(task, examples, metric)
    return base, np.array([base - score_of(task, examples, metric, [head]) for head in order])


def together(task, examples, metric, order):
    """For every share of the heads the scores without the least, the most and random ones: mean and least of three orders."""
    rng = np.random.default_rng(0)
    orders = [[order[i] for i in rng.permutation(len(order))] for _ in range(3)]
    for share in SHARES:
        count = round(share * len(order))
        drawn = [score_of(task, examples, metric, of[:count]) for of in orders]
        least, most = (score_of(task, examples, metric, of[:count]) for of in (order, order[::-1]))
        yield count, least, most, float(np.mean(drawn)), min(drawn)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--alone", type=int, default=200)
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--importance", type=Path)
    parser.add_argument("--score-range", type=float, nargs=2, help="of pairs with scores")
    args = parser.parse_args()
    task = load_task(args.model, **({"score_range": args.score_range} if args.score_range else {}))
    data, test = (read_examples(path, task.word.examples) for path in (args.data, args.test))
    importance = head_importance(task, data[: args.examples])
    if args.importance:
        args.importance.write_text(json.dumps({"values": importance.values.round(6).tolist()}), encoding="utf-8")
    print(f"1000 x importance, by {importance.examples} examples; rows are blocks")
    print((1000 * importance.values).round(1))
    print("standard errors, median", round(float(np.median(1000 * importance.standard_errors)), 1))
    order = importance.order()
    print("the most important:", order[:-7:-1], "the least:", order[:6])
    if args.alone:
        base, lost = alone(task, test[: args.alone], args.metric, order)
        print(f"each head off alone, {args.alone} examples, {args.metric} {base:.4f} with all:")
        print("  lost, the six most important:", lost[:-7:-1].round(4).tolist())
        print(f"  lost, greatest {lost.max():.4f} by {order[int(lost.argmax())]}")
        print(f"  share without effect {np.mean(lost == 0):.2f}, with a gain {np.mean(lost < 0):.2f}")
    tests = test[: args.tests]
    print(f"many heads off, {len(tests)} examples, {args.metric} {score_of(task, tests, args.metric):.4f} with all")
    print(f"{'off':>4}{'least':>10}{'most':>10}{'random':>10}{'worst':>10}")
    for count, *scores in together(task, tests, args.metric, order):
        print(f"{count:>4}" + "".join(f"{score:>10.4f}" for score in scores), flush=True)


if __name__ == "__main__":
    main()
