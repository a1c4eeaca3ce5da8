"""The scores of a reranker: rankings of the texts of each query, and all pairs together."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_rebuild.tasks.metrics import average_precision, ranking_scores

# Fractional grades are rounded to multiples of 1 / this, which changes neither their order nor nDCG.
PARTS = 1000


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
