"""A retrieval evaluation that shows the loss of quality of an exported model."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from keras_bert_rebuild.data.retrieval import read_corpus, read_judgements, read_queries

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
        unknown += [name for found in self.judgements.values() for name in found if name not in self.corpus]
        if unknown or not self.judgements:
            raise ValueError(f"judgements must be of the given queries and documents; got {', '.join(unknown[:5]) or 'none'}.")

    @classmethod
    def read(cls, queries: str | os.PathLike[str], corpus: str | os.PathLike[str], judgements: str | os.PathLike[str]) -> Self:
        """Read TREC or BEIR files: see `read_queries`, `read_corpus` and `read_judgements`."""
        documents = {document.id: document.full_text for document in read_corpus(corpus)}
        return cls(read_queries(queries), documents, read_judgements(judgements))

    def candidates(self, query: str) -> list[str]:
        """The documents that a reranker scores for a query: those judged for it, filled up with the first others of the corpus."""
        judged = list(self.judgements[query])
        others = (name for name in self.corpus if name not in self.judgements[query])
        return judged + [name for name, _ in zip(others, range(CANDIDATES - len(judged)), strict=False)]
