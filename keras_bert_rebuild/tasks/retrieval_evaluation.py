"""The evaluation of retrieval tasks on their examples: every query searches a corpus of the texts of all groups."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.tasks.metrics.ranking import ranking_scores

# Number of texts in an answer.
BEST = 100

METRICS = ("ndcg@10", "mrr@10", "recall@10", f"map@{BEST}")

# A function from queries and the texts of a corpus to score arrays `(some queries, texts)`, which cover all queries in order.
Scorer: TypeAlias = Callable[[list[str], list[str]], Iterable[npt.NDArray[Any]]]


def retrieved(examples: Sequence[Any], scorer: Scorer) -> list[dict[str, float]]:
    """The best texts for the query of every example, `{text: score}`, best first.

    The corpus consists of the positives and negatives of the examples; equal queries are searched once.

    Args:
        examples: `TextGroup`s.
        scorer: see `Scorer`.
    """
    queries = list(dict.fromkeys(example.query for example in examples))
    corpus = list(dict.fromkeys(text for example in examples for text in (example.positive, *example.negatives)))
    best = [answer for scores in scorer(queries, corpus) for answer in best_of(scores, corpus)]
    answers = dict(zip(queries, best, strict=True))
    return [answers[example.query] for example in examples]


def best_of(scores: npt.NDArray[Any], corpus: Sequence[str]) -> list[dict[str, float]]:
    """For every row of scores the best texts of a corpus, best first.

    Args:
        scores: `(queries, texts)`.
        corpus: the texts.
    """
    count = min(BEST, len(corpus))
    chosen = (
        np.argpartition(-scores, count - 1, axis=1)[:, :count]
        if count < len(corpus)
        else np.tile(np.arange(count), (len(scores), 1))
    )
    values = np.take_along_axis(scores, chosen, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return [
        {corpus[i]: float(value) for i, value in zip(numbers[ranks], of_query[ranks], strict=True)}
        for numbers, of_query, ranks in zip(chosen, values, order, strict=True)
    ]


def retrieval_scores(examples: Sequence[Any], answers: Sequence[dict[str, float]]) -> dict[str, float]:
    """`METRICS` of the answers to examples; the relevant texts of a query are its positives in all examples."""
    judgements: dict[str, dict[str, int]] = {}
    for example in examples:
        judgements.setdefault(example.query, {})[example.positive] = 1
    run = {example.query: answer for example, answer in zip(examples, answers, strict=True)}
    return ranking_scores(judgements, run, METRICS)


def retrieval_row(example: Any, answer: dict[str, float], count: int = 10) -> dict[str, Any]:
    """The query of an example, and the best texts with their scores, as plain values."""
    best = list(answer.items())[:count]
    return {"query": example.query, "texts": [text for text, _ in best], "scores": [round(score, 6) for _, score in best]}
