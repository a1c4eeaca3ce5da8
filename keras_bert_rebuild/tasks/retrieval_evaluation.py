"""The evaluation of retrieval tasks and rerankers on their examples, by the rankings of the texts for each query."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.tasks.metrics.ranking import average_precision, ranking_scores

# Number of texts in an answer.
BEST = 100

METRICS = ("ndcg@10", "mrr@10", "recall@10", f"map@{BEST}")

# Fractional grades are rounded to multiples of 1 / this, which changes neither their order nor nDCG.
PARTS = 1000

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


def reranking_scores(examples: Sequence[Any], answers: Sequence[Any], measures: Sequence[str]) -> dict[str, float]:
    """Measures of rankings, and `average_precision` of texts with labels over all pairs.

    A text is relevant if it is a positive or its label is above 0. Equal queries are merged; queries whose texts are all relevant
    or all irrelevant are left out, as are measures that would be the same for every ranking.

    Args:
        examples: `TextGroup` or `RankedText` with labels.
        answers: for a `TextGroup` a dictionary from texts to scores, for a `RankedText` a score.
        measures: measures of rankings, as for `ranking_scores`.

    Raises:
        ValueError: no two texts differ in relevance.
    """
    grades: dict[str, dict[str, float]] = {}
    run: dict[str, dict[str, float]] = {}
    pairs = []
    for example, answer in zip(examples, answers, strict=True):
        of_query, scores = grades.setdefault(example.query, {}), run.setdefault(example.query, {})
        if isinstance(answer, Mapping):
            of_query[example.positive] = 1.0
            scores.update(answer)
        else:
            of_query[example.text] = max(example.label, of_query.get(example.text, 0.0))
            scores[example.text] = answer
            pairs.append((example.label > 0, answer))
    found = {}
    factor = 1 if all(float(grade).is_integer() for of_query in grades.values() for grade in of_query.values()) else PARTS
    judgements = {query: {text: round(factor * grade) for text, grade in of.items()} for query, of in grades.items()}
    compared = {query: of for query, of in judgements.items() if _differ(of, run[query])}
    if compared:
        found.update(ranking_scores(compared, run, measures))
    if len({relevant for relevant, _ in pairs}) == 2:
        found["average_precision"] = average_precision(*zip(*pairs, strict=True))
    if not found:
        raise ValueError("expected relevant and irrelevant texts to score a ranking; got only one of these.")
    return found


def _differ(judged: Mapping[str, int], ranked: Mapping[str, float]) -> bool:
    """Whether the texts of a ranking have different grades, one above 0."""
    return max(judged.values()) > 0 and len({judged.get(text, 0) for text in ranked}) > 1
