"""Mining of hard negatives: texts that a model ranks high for a query although they are not its positives.

Reference: Xiong et al., 2020, "Approximate nearest neighbor negative contrastive learning" (https://arxiv.org/abs/2007.00808);
margins relative to the positive as in Moreira et al., 2024, "NV-Retriever" (https://arxiv.org/abs/2407.15831).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.data.random_numbers import Stream, keys, uniform
from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.retrievers import Scorer

# Number of queries that are searched at once: every batch reads all vectors.
_QUERIES = 512


@dataclass(frozen=True)
class MiningSettings:
    """How negatives are chosen from the texts that a query finds."""

    negatives: int = 5
    """Maximum number of negatives per pair."""

    from_rank: int = 1
    """First rank to take negatives from; rank 1 is the best text that is not marked as relevant."""

    to_rank: int = 100
    """Last rank to take negatives from."""

    margin: float | None = None
    """Minimum difference between the score of the positive and that of a negative (default: none)."""

    relative_margin: float | None = None
    """The same as a fraction of the score of the positive: with 0.05, negatives score at most 0.95 of it (default: none)."""

    max_score: float | None = None
    """Maximum score of a negative (default: none)."""

    sampling: str = "best"
    """Which of the candidates to take: best (the highest ranked) or random."""

    seed: int = 0
    """Random seed of the sampling."""

    def __post_init__(self) -> None:
        if self.negatives < 1 or not 1 <= self.from_rank <= self.to_rank:
            raise ValueError(
                "expected at least one negative, and ranks from at least 1 up to at least that; "
                f"got {self.negatives}, {self.from_rank} and {self.to_rank}."
            )
        for name, value in (("margin", self.margin), ("relative_margin", self.relative_margin)):
            if value is not None and not 0 <= value < np.inf:
                raise ValueError(f"{name} must be a number of at least 0; got {value}.")
        if self.sampling not in ("best", "random"):
            raise ValueError(f"sampling must be best or random; got {self.sampling!r}.")

    def limit(self, positive: float) -> float:
        """The maximum score of a negative, given the score of the positive."""
        limits = [np.inf if self.max_score is None else self.max_score]
        limits += [] if self.margin is None else [positive - self.margin]
        limits += [] if self.relative_margin is None else [positive - self.relative_margin * abs(positive)]
        return float(min(limits))


class Mined(NamedTuple):
    """A pair with its negatives."""

    group: TextGroup
    """The query, the positive, its negatives and, if there is a teacher, the teacher's scores."""

    positive_score: float
    """The score of the positive by the model that mined; NaN if no limit needs it."""

    negative_scores: tuple[float, ...]
    """The scores of the negatives, best first with sampling "best"."""


def distinct_positives(pairs: Sequence[TextGroup]) -> list[Document]:
    """The unique positives of pairs, as a corpus to mine in if there is no other."""
    return [Document(str(number), "", text) for number, text in enumerate(dict.fromkeys(pair.positive for pair in pairs), 1)]


def mine(
    pairs: Sequence[TextGroup],
    index: Index,
    settings: MiningSettings | None = None,
    scorer: Scorer | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Mined]:
    """Find hard negatives.

    A text is not used as a negative if it equals the query, or the positive of any pair with the same query, ignoring white space.
    Such documents are not ranked; of documents with equal texts, the best is used. Existing negatives of pairs are replaced.

    Args:
        pairs: queries, each with a positive.
        index: the corpus to find negatives in, opened with its model.
        settings: a `MiningSettings`; None for the defaults.
        scorer: a model, such as a `Reranker`, whose scores of the positive and the negatives are added for distillation.
        progress: called with the number of pairs mined since its last call.

    Yields:
        A `Mined` for every pair, in order; it may have fewer negatives than requested, or none.
    """
    settings = settings or MiningSettings()
    right: dict[str, set[str]] = {}
    for pair in pairs:
        right.setdefault(_plain(pair.query), {_plain(pair.query)}).add(_plain(pair.positive))
    ids = _ids_of_texts(index, {text for texts in right.values() for text in texts})
    # Retrieves enough documents that the requested ranks remain after known answers are removed.
    most = max((sum(len(ids.get(text, ())) for text in texts) for texts in right.values()), default=0)
    limited = settings.margin is not None or settings.relative_margin is not None
    queries = iter(index.retriever.queries(pair.query for pair in pairs))
    for first in range(0, len(pairs), _QUERIES):
        part = pairs[first : first + _QUERIES]
        vectors = list(itertools.islice(queries, len(part)))
        positives = _positive_scores(index, part, vectors, ids) if limited else [np.nan] * len(part)
        fitting = []
        for pair, positive, ranking in zip(part, positives, index.search_vectors(vectors, settings.to_rank + most), strict=True):
            excluded = {name for text in right[_plain(pair.query)] for name in ids.get(text, ())}
            scored = zip(ranking.ids, ranking.rows.tolist(), ranking.scores.tolist(), strict=True)
            ranked = [(row, score) for name, row, score in scored if name not in excluded]
            limit = settings.limit(positive) if limited else settings.limit(np.inf)
            fitting.append([each for each in ranked[settings.from_rank - 1 : settings.to_rank] if each[1] <= limit])
        texts = _texts_at(index, {row for each in fitting for row, _ in each})
        mined = []
        for number, (pair, positive, each) in enumerate(zip(part, positives, fitting, strict=True), first):
            best: dict[str, tuple[str, float]] = {}
            for row, score in each:
                best.setdefault(_plain(texts[row]), (texts[row], score))
            negatives = _chosen([*best.values()], settings, number)
            group = TextGroup(pair.query, pair.positive, tuple(text for text, _ in negatives), where=pair.where)
            mined.append(Mined(group, float(positive), tuple(score for _, score in negatives)))
        yield from mined if scorer is None else _with_scores(mined, scorer)
        if progress is not None:
            progress(len(part))


def row_of(mined: Mined) -> dict[str, Any]:
    """A mined pair as a line of a training file."""
    group = mined.group
    row: dict[str, Any] = {"query": group.query, "positive": group.positive, "negatives": list(group.negatives)}
    return row if group.scores is None else {**row, "scores": [round(score, 6) for score in group.scores]}


def _plain(text):
    """A text normalised for comparisons."""
    return " ".join(text.split())


def _ids_of_texts(index, texts):
    """For every text the ids of the documents that equal it, with or without their titles."""
    ids = {}
    for document in index:
        for text in {_plain(document.full_text), _plain(document.text)} & texts:
            ids.setdefault(text, []).append(document.id)
    return ids


def _texts_at(index, rows):
    """The texts of documents by their row numbers."""
    rows = np.sort(np.fromiter(rows, "uint64"))
    documents = index.documents_at(rows) if len(rows) else []
    return {row: document.full_text for row, document in zip(rows.tolist(), documents, strict=True)}


def _positive_scores(index, pairs, vectors, ids):
    """The score of the positive of every pair: of its document, or of its text if it is not in the corpus.

    Negative infinity without a common token.
    """
    inside = [ids.get(_plain(pair.positive), ())[:1] for pair in pairs]
    rankings = index.search_vectors(vectors, 1, ids=inside)
    scores = [float(ranking.scores[0]) if len(ranking.scores) else -np.inf for ranking in rankings]
    missing = [i for i, names in enumerate(inside) if not names]
    if missing:
        storage = index.settings.storage
        arrays = storage.arrays(storage.encode(list(index.retriever.documents(pairs[i].positive for i in missing))))
        for row, (i, query) in enumerate(zip(missing, storage.queries([vectors[i] for i in missing]), strict=True)):
            scores[i] = float(storage.rescore(arrays, query, np.array([row]))[0])
    return scores


def _chosen(ranked, settings, number):
    """The negatives of a pair, chosen from its ranked texts."""
    if settings.sampling == "best" or len(ranked) <= settings.negatives:
        return ranked[: settings.negatives]
    draws = uniform(keys(settings.seed, 0, number), len(ranked), Stream.SAMPLE)
    return [ranked[i] for i in np.sort(np.argsort(draws, kind="stable")[: settings.negatives])]


def _with_scores(mined, scorer):
    """The pairs with the scores of a teacher, which scores each batch in one call."""
    texts = [(each.group.query, text) for each in mined for text in (each.group.positive, *each.group.negatives)]
    scores = iter(np.asarray(scorer.scores_of(texts), "float64").tolist())
    for each in mined:
        own = tuple(next(scores) for _ in range(1 + len(each.group.negatives)))
        group = TextGroup(each.group.query, each.group.positive, each.group.negatives, own, where=each.group.where)
        yield each._replace(group=group)
