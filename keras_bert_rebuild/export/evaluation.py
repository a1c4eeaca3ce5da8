"""The loss of quality in int8: the scores of the int8 model of an OpenVINO folder, and of a search, compared with float32."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.buckets import Buckets
from keras_bert_rebuild.data.max_sim import max_sim
from keras_bert_rebuild.data.retrieval import documents_in, read_judgements, read_queries
from keras_bert_rebuild.export.exported_retriever import ExportedRetriever
from keras_bert_rebuild.export.openvino import OpenVINORunner, calibration_texts
from keras_bert_rebuild.tasks.embedding_stream import BATCH_TOKENS
from keras_bert_rebuild.tasks.metrics import ranking_scores, regression_scores
from keras_bert_rebuild.tasks.sentence_embedder import unit

# Number of texts per query that a reranker scores: the judged ones, filled up from the corpus.
CANDIDATES = 50


@dataclass(frozen=True)
class Evaluation:
    """Queries, documents and relevance judgements."""

    queries: Mapping[str, str]
    """Query texts by id."""

    corpus: Mapping[str, str]
    """Document texts by id; all are searched, in memory."""

    judgements: Mapping[str, Mapping[str, int]]
    """`{query: {document: grade}}`."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.judgements if name not in self.queries]
        unknown += [name for grades in self.judgements.values() for name in grades if name not in self.corpus]
        if unknown or not self.judgements:
            raise ValueError(f"judgements must be of the given queries and documents; got {', '.join(unknown[:5]) or 'none'}.")

    @classmethod
    def read(cls, queries: str | os.PathLike[str], corpus: str | os.PathLike[str], judgements: str | os.PathLike[str]) -> Self:
        """Read TREC or BEIR files: see `read_queries`, `documents_in` and `read_judgements`."""
        documents = {str(document.id): document.full_text for document in documents_in(corpus)}
        return cls(read_queries(queries), documents, read_judgements(judgements))

    def candidates(self, query: str) -> list[str]:
        """The documents that a reranker scores for a query: those judged for it, filled up with the first others of the corpus."""
        judged = list(self.judgements[query])
        unjudged = (name for name in self.corpus if name not in self.judgements[query])
        return judged + [name for name, _ in zip(unjudged, range(CANDIDATES - len(judged)), strict=False)]


# Maximum number of texts compared with each other.
COMPARED = 300

METRIC = "ndcg@10"


def int8_quality(folder: Path, texts: list[str], evaluation: Evaluation | None = None) -> dict[str, Any]:
    """How well the scores of int8 agree with those of float32, and the retrieval quality of both.

    Args:
        folder: a folder written by `export` with openvino_int8, of a task that returns vectors or scores.
        texts: the calibration texts.
        evaluation: a search to run; None for none.

    Returns:
        `spearman`, the rank correlation between int8 and float32 of the similarities of all pairs of at most `COMPARED` texts, or
        of the scores of that many pairs; with an evaluation also `ndcg@10` of both.
    """
    runners = {"float32": OpenVINORunner(folder, int8=False), "int8": OpenVINORunner(folder)}
    sample = calibration_texts([text for text in texts if text.strip()][:COMPARED], runners["int8"].settings)
    scores = {name: _similarities(runner, sample) for name, runner in runners.items()}
    quality: dict[str, Any] = {
        "compared": len(sample),
        "spearman": round(regression_scores(scores["float32"], scores["int8"])["spearman"], 6),
    }
    if evaluation is not None:
        searched = {name: _search(runner, evaluation) for name, runner in runners.items()}
        quality[METRIC] = {
            name: round(ranking_scores(evaluation.judgements, run, [METRIC])[METRIC], 6) for name, run in searched.items()
        }
    return quality


def _similarities(runner, texts):
    """The scores of pairs, or the similarities of all pairs of texts, as a list."""
    if runner.settings["kind"] == "reranking":
        return _answers(runner, *zip(*texts, strict=True))[:, 0].tolist()
    vectors = _vectors(runner, texts, "document")
    return np.concatenate([_products(runner, one, vectors[i + 1 :]) for i, one in enumerate(vectors[:-1])]).tolist()


def _search(runner, evaluation):
    """The run of an evaluation: scores of documents for every query."""
    names, run = list(evaluation.corpus), {}
    if runner.settings["kind"] == "reranking":
        for query in evaluation.judgements:
            candidates = evaluation.candidates(query)
            texts = [evaluation.corpus[name] for name in candidates]
            scores = _answers(runner, [evaluation.queries[query]] * len(texts), texts)[:, 0]
            run[query] = dict(zip(candidates, scores.tolist(), strict=True))
        return run
    prompts, own = runner.settings.get("prompts") or {}, runner.settings.get("prompt", "")
    queries = [prompts.get("query", own) + evaluation.queries[query] for query in evaluation.judgements]
    queries = _vectors(runner, queries, "query")
    documents = _vectors(runner, [prompts.get("document", own) + text for text in evaluation.corpus.values()], "document")
    for query, vector in zip(evaluation.judgements, queries, strict=True):
        run[query] = dict(zip(names, _products(runner, vector, documents).tolist(), strict=True))
    return run


def _products(runner, one, vectors):
    """The similarities of a text to other texts."""
    if one.ndim == 1:
        return np.stack(vectors) @ one
    return max_sim(one, np.concatenate(vectors), np.cumsum([0, *map(len, vectors)]))


def _vectors(runner, texts, of):
    """A vector per text, or per token, whose dot products are the similarity.

    Args:
        runner: an `OpenVINORunner`.
        texts: the texts.
        of: "query" or "document".
    """
    if runner.settings["kind"] == "late_interaction":
        return list(ExportedRetriever(runner).vectors_of_tokens(texts, of))
    vectors = _answers(runner, texts)
    return list(unit(vectors) if runner.settings.get("measure") == "cosine" else vectors)


def _answers(runner, texts, pairs=None):
    """The first output of the model for texts or pairs of texts, `(texts, ...)`."""
    encoded = runner.tokenizer.encode_batch(list(texts), None if pairs is None else list(pairs), max_len=runner.max_len)
    buckets = Buckets(runner, bucket_lengths(runner.max_len, compiled=False), BATCH_TOKENS)
    return np.stack(list(buckets.stream(zip(encoded.ids, encoded.segments, strict=True))))
