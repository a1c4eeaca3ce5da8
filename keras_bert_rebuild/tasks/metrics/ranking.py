"""Scores of rankings: how well the documents that a search found for queries agree with relevance judgements, or with examples.

Judgements are `{query: {document: grade}}` with whole numbers, of which those above 0 mean relevant; documents without a judgement
have grade 0. A run is `{query: {document: score}}`. Documents are ranked by descending score, ties by descending name, as in
trec_eval, which compares scores in float32. The examples of retrieval tasks and rerankers are judged by their positives and labels.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Judgements = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]

# The usual measures of a search.
SEARCH_METRICS = ("ndcg@10", "mrr@10", "recall@100", "map")

# Number of texts in the answer of a retrieval, and its metrics.
BEST = 100
RETRIEVAL_METRICS = ("ndcg@10", "mrr@10", "recall@10", f"map@{BEST}")

# Fractional grades are rounded to multiples of 1 / this, which changes neither their order nor nDCG.
PARTS = 1000


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The documents of a query, best first.

    Args:
        scores: scores by document.

    Raises:
        ValueError: a score is not a number.

    Example:

    >>> ranked({"a": 1.0, "b": 3.0, "c": 1.0})
    ['b', 'c', 'a']
    """
    wrong = next((document for document, score in scores.items() if math.isnan(score)), None)
    if wrong is not None:
        raise ValueError(f"expected numbers as scores; the score of {wrong} is NaN.")
    by_name = sorted(scores, reverse=True)
    order = np.argsort(-np.array([scores[document] for document in by_name], "float32"), kind="stable")
    return [by_name[i] for i in order]


def ndcg(grades: npt.NDArray[np.int64], best: npt.NDArray[np.int64]) -> float:
    """The discounted cumulative gain, Σ grade / log₂(rank + 1), as a fraction of that of the ideal ranking.

    Args:
        grades: grades of the ranked documents, up to the cutoff.
        best: all grades above 0, highest first, up to the cutoff.

    Reference: Järvelin and Kekäläinen, 2002, section 2.2, with the discount of Burges et al., 2005, and the grades as gains.
    """
    return _gain(np.maximum(grades, 0)) / _gain(best)


def reciprocal_rank(grades: npt.NDArray[np.int64], best: npt.NDArray[np.int64]) -> float:
    """1 / rank of the first relevant document; 0 if there is none."""
    ranks = np.flatnonzero(grades > 0)
    return 1 / (ranks[0] + 1) if len(ranks) else 0.0


def recall(grades: npt.NDArray[np.int64], best: npt.NDArray[np.int64]) -> float:
    """The fraction of the relevant documents that were found; `best` is not cut off."""
    return int((grades > 0).sum()) / len(best)


def precision_of_hits(grades: npt.NDArray[np.int64], best: npt.NDArray[np.int64]) -> float:
    """Average precision: the mean precision at every relevant document, 0 for those not found; `best` is not cut off."""
    ranks = np.flatnonzero(grades > 0)
    return float((np.arange(1, len(ranks) + 1) / (ranks + 1)).sum()) / len(best)


# Name of a measure, its function of one query, and whether the ideal ranking is cut off too.
MEASURES: dict[str, tuple[Callable[..., float], bool]] = {
    "ndcg": (ndcg, True),
    "mrr": (reciprocal_rank, False),
    "recall": (recall, False),
    "map": (precision_of_hits, False),
}


def ranking_scores(judgements: Judgements, run: Run, measures: Iterable[str] | None = None) -> dict[str, float]:
    """Scores of a run: means over the queries that have a relevant document; queries missing from the run count as 0.

    Args:
        judgements, run: see the top of this module.
        measures: "ndcg", "mrr", "recall" and "map", each with a cutoff as in "ndcg@10", or without one for the whole ranking. None
            is `SEARCH_METRICS`, with no cutoff above the depth of the run, the documents of its longest ranking: a run of ten
            documents a query has recall@10, not recall@100.

    Returns:
        The scores by name of the measure, in [0, 1]. They equal trec_eval's `ndcg_cut`, `recip_rank`, `recall` and `map_cut` with
        `-c`, for queries with relevant documents.

    Raises:
        ValueError: no query has a relevant document, a measure is unknown, or a score is not a number.

    Example:

    >>> judgements = {"q": {"a": 1, "b": 0, "c": 2}}
    >>> ranking_scores(judgements, {"q": {"a": 0.9, "b": 0.8, "d": 0.1}}, ["mrr", "recall@2"])
    {'mrr': 1.0, 'recall@2': 0.5}
    """
    by_query = ranking_scores_by_query(judgements, run, measures)
    if not by_query:
        raise ValueError("expected judgements of at least one query with a relevant document; there is none.")
    return {name: float(np.mean([scores[name] for scores in by_query.values()])) for name in next(iter(by_query.values()))}


def ranking_scores_by_query(judgements: Judgements, run: Run, measures: Iterable[str] | None = None) -> dict[str, dict[str, float]]:
    """As `ranking_scores`, for every query that has a relevant document."""
    depth = max([1, *map(len, run.values())])
    scores, measures = {}, measures_to(depth, SEARCH_METRICS) if measures is None else list(measures)
    for query, grades_of in judgements.items():
        best = np.sort(np.array([grade for grade in grades_of.values() if grade > 0], "int64"))[::-1]
        if not len(best):
            continue
        grades = np.array([grades_of.get(document, 0) for document in ranked(run.get(query, {}))], "int64")
        scores[query] = scores_of_grades(grades, best, measures)
    return scores


def scores_of_grades(grades: npt.NDArray[np.int64], best: npt.NDArray[np.int64], measures: Iterable[str]) -> dict[str, float]:
    """The scores of one query, by name of the measure.

    Args:
        grades: grades of the ranked documents.
        best: all grades above 0, highest first, at least one.
        measures: see `ranking_scores`.
    """
    parsed = {name: _parsed(name) for name in measures}
    return {name: function(grades[:cutoff], best[:cutoff] if cuts else best) for name, (function, cuts, cutoff) in parsed.items()}


def measures_to(depth: int, measures: Iterable[str]) -> list[str]:
    """The measures that a run with the best `depth` documents of a query has: a larger cutoff, or none, becomes this one.

    Example:

    >>> measures_to(5, ["ndcg@10", "mrr@3", "map"])
    ['ndcg@5', 'mrr@3', 'map@5']
    """
    cutoffs = {name: _parsed(name)[-1] for name in measures}
    return [f"{name.partition('@')[0]}@{min(depth, cutoff or depth)}" for name, cutoff in cutoffs.items()]


def average_precision(relevant: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """Average precision of one ranking: Σ (recall_n − recall_n₋₁) · precision_n over distinct scores.

    Args:
        relevant: true or 1 for relevant items, such as pairs with the same meaning.
        scores: numbers, higher for more relevant items.

    Raises:
        ValueError: the lengths differ, nothing is relevant, or a score is NaN.

    Example:

    >>> average_precision([1, 0, 1], [0.9, 0.8, 0.7])
    0.8333333333333333
    """
    hits, values = np.asarray(relevant, bool), np.asarray(scores, "float64")
    if hits.ndim != 1 or hits.shape != values.shape:
        raise ValueError(f"expected a score for every label; got {hits.size} labels and {values.size} scores.")
    if not hits.any() or np.isnan(values).any():
        raise ValueError(f"expected something relevant and numbers as scores; got {'NaN' if hits.any() else 'nothing relevant'}.")
    order = np.argsort(-values, kind="stable")
    hits_above = np.cumsum(hits[order])
    last = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # of every distinct score
    precisions, recalls = hits_above[last] / (last + 1), hits_above[last] / hits_above[-1]
    return float((np.diff(recalls, prepend=0) * precisions).sum())


def _parsed(name):
    """The function of a measure, whether it cuts off the ideal ranking, and its cutoff."""
    measure, at, cutoff = name.partition("@")
    if measure not in MEASURES or (at and not (cutoff.isascii() and cutoff.isdigit() and int(cutoff) > 0)):
        raise ValueError(f"a measure must be one of {', '.join(MEASURES)}, with a cutoff such as @10 or without; got {name!r}.")
    return (*MEASURES[measure], int(cutoff) if at else None)


def _gain(grades):
    return float((grades / np.log2(np.arange(2, len(grades) + 2))).sum())


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
    nearest = (
        np.argpartition(-scores, count - 1, axis=1)[:, :count]
        if count < len(corpus)
        else np.tile(np.arange(count), (len(scores), 1))
    )
    values = np.take_along_axis(scores, nearest, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return [
        {corpus[i]: float(value) for i, value in zip(numbers[ranks], of_query[ranks], strict=True)}
        for numbers, of_query, ranks in zip(nearest, values, order, strict=True)
    ]


def retrieval_scores(examples: Sequence[Any], answers: Sequence[dict[str, float]]) -> dict[str, float]:
    """`RETRIEVAL_METRICS` of the answers to examples; the relevant texts of a query are its positives in all examples."""
    judgements: dict[str, dict[str, int]] = {}
    for example in examples:
        judgements.setdefault(example.query, {})[example.positive] = 1
    run = {example.query: answer for example, answer in zip(examples, answers, strict=True)}
    return ranking_scores(judgements, run, RETRIEVAL_METRICS)


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
    figures = {}
    factor = 1 if all(float(grade).is_integer() for of_query in grades.values() for grade in of_query.values()) else PARTS
    judgements = {query: {text: round(factor * grade) for text, grade in of.items()} for query, of in grades.items()}
    compared = {query: of for query, of in judgements.items() if _differ(of, run[query])}
    if compared:
        figures.update(ranking_scores(compared, run, measures))
    if len({relevant for relevant, _ in pairs}) == 2:
        figures["average_precision"] = average_precision(*zip(*pairs, strict=True))
    if not figures:
        raise ValueError("expected relevant and irrelevant texts to score a ranking; got only one of these.")
    return figures


def _differ(judged: Mapping[str, int], ranked: Mapping[str, float]) -> bool:
    """Whether the texts of a ranking have different grades, one above 0."""
    return max(judged.values()) > 0 and len({judged.get(text, 0) for text in ranked}) > 1
