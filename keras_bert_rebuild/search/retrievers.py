"""Models that compute vectors or scores for a search, and checks of what it is given."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.documents import is_storable

# Judged documents that are read from an index at once.
_JUDGED = 1000


class Retriever(Protocol):
    """The interface of models that compute vectors of texts, such as a `SentenceEmbedder`.

    There are three kinds of vectors: "dense", float32 `(width,)`; "sparse", ascending ids of tokens, int32, and their weights above
    0, float32; "tokens", float32 `(tokens, width)`.

    It may have a method `document_encoder(batch_tokens)`, which returns a function to use instead of `documents`: see the function
    `document_encoder`.
    """

    vectors: str
    """The kind of vectors."""

    @property
    def width(self) -> int:
        """The width of a vector; for sparse ones the size of the vocabulary."""

    def queries(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of queries, in order."""

    def documents(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of documents, in order."""

    def description(self) -> dict[str, Any]:
        """The identity of the model and its settings: plain values, the same in every process."""


class Scorer(Protocol):
    """The interface of models that score texts for queries, such as a `Reranker`."""

    def scores_of(self, pairs: list[tuple[str, str]]) -> Any:
        """A score for every pair of a query and a text, higher for more relevant texts."""


def load_retriever(path: str | os.PathLike[str], **settings: Any) -> Any:
    """Load a model that computes vectors.

    Args:
        path: a folder that `load_task` reads, of a fine-tuned model or of sentence-transformers.
        **settings: as for `load_task`.

    Raises:
        ValueError: the model does not compute vectors.
    """
    from keras_bert_rebuild.tasks.saved_task import load_task

    task = load_task(path, **settings)
    if not hasattr(task, "vectors"):
        raise ValueError(f"expected a model that computes vectors of texts; {printable(path)} is for {task.kind}.")
    return task


def load_scorer(path: str | os.PathLike[str]) -> Any:
    """Load a model that scores texts for queries, a reranker.

    Args:
        path: a folder that `load_task` reads.

    Raises:
        ValueError: the model does not score pairs.
    """
    from keras_bert_rebuild.tasks.saved_task import load_task

    task = load_task(path)
    if not hasattr(task, "scores_of"):
        raise ValueError(f"expected a reranker, a model that scores texts for queries; {printable(path)} is for {task.kind}.")
    return task


def document_encoder(retriever: Retriever, batch_tokens: int | None = None) -> Callable[[Iterable[str]], Iterator[Any]]:
    """A function that computes the vectors of documents, to be called block by block; its results depend on the first texts.

    Args:
        retriever: the model.
        batch_tokens: tokens per batch, including padding; None for a number that is fast on the device.

    Raises:
        ValueError: the number is below 1, or the retriever does not batch by tokens.
    """
    own = getattr(retriever, "document_encoder", None)
    if batch_tokens is not None and (own is None or batch_tokens < 1):
        raise ValueError(
            f"batch_tokens must be at least 1, and the model must batch by tokens; got {batch_tokens} for a "
            f"{type(retriever).__name__}."
        )
    return retriever.documents if own is None else own(batch_tokens)


def described(retriever: Retriever) -> dict[str, Any]:
    """The description of a retriever with kind and width of its vectors, as stored in a file."""
    own = json.loads(json.dumps(retriever.description(), sort_keys=True))
    return {"vectors": retriever.vectors, "width": int(retriever.width), "model": own}


def check_same_retriever(described: dict[str, Any], expected: dict[str, Any], path: Any) -> None:
    """Refuse a model other than the one that built an index.

    Args:
        described: `described` of the model.
        expected: `described` of the index's model.
        path: the folder of the index, for the error.

    Raises:
        ValueError: they differ; the error says how.
    """
    if described == expected:
        return
    for name, what in (("vectors", "kind"), ("width", "width")):
        if described[name] != expected[name]:
            raise ValueError(
                f"expected the model that built the index at {printable(path)}, with vectors of {what} {expected[name]}; "
                f"this one has {described[name]}."
            )
    names = sorted(expected["model"].keys() | described["model"].keys())
    differ = [name for name in names if expected["model"].get(name) != described["model"].get(name)]
    raise ValueError(
        f"expected the model that built the index at {printable(path)}; this one differs in {printable(', '.join(differ))}: "
        "pass the right model, or build the index again."
    )


def checked_queries(queries):
    """The queries as a list of texts.

    Raises:
        ValueError: queries is a string instead of a list of texts, or an item is not a string, or not one in UTF-8.
    """
    if isinstance(queries, (str, bytes)):
        raise ValueError(f"queries must be a list of texts; got the string {queries[:40]!r}: put it into a list.")
    queries = list(queries)
    wrong = next((query for query in queries if not isinstance(query, str)), None)
    if wrong is not None:
        raise ValueError(f"queries must be texts; got {type(wrong).__name__} {str(wrong)[:40]!r}.")
    wrong = next((query for query in queries if not is_storable(query)), None)
    if wrong is not None:
        raise ValueError(f"queries must be texts in UTF-8; got {printable(wrong[:40])!r}.")
    return queries


def check_numbers(**numbers):
    """Refuse numbers, given by name, that are not whole numbers of at least 1.

    Raises:
        ValueError: a number is not; the error names it.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {number!r}.")


def missing_judged(index, judgements):
    """The ids of judged documents that an index does not have, in the order of the judgements.

    Args:
        index: an `Index`.
        judgements: `{query: {document: grade}}`; a whole number as an id of the index is the text of its digits here.
    """
    names = [*dict.fromkeys(name for grades in judgements.values() for name in grades)]
    is_whole = bool(len(index)) and isinstance(next(iter(index)).id, int)
    missing = []
    for first in range(0, len(names), _JUDGED):
        part = names[first : first + _JUDGED]
        ids = [int(name) for name in part if re.fullmatch("-?[0-9]{1,18}", name)] if is_whole else part
        present = {*map(str, index.documents(ids))} if len(index) else {}
        missing += [name for name in part if name not in present]
    return missing
