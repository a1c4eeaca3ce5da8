"""Models that make vectors for a search."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from keras_bert_rebuild.files.printable import printable


class Retriever(Protocol):
    """What turns texts into vectors, such as a `SentenceEmbedder`.

    Vectors are of one of three kinds: "dense", float32 `(width,)`; "sparse", ascending ids of tokens, int32, and their weights
    above 0, float32; "tokens", float32 `(tokens, width)`.

    It may have a method `document_encoder(batch_tokens)`, which gives a function to use instead of `documents`: see there.
    """

    vectors: str
    """The kind."""

    @property
    def width(self) -> int:
        """Numbers in a vector; of a sparse one tokens in the vocabulary."""

    def queries(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of queries, in order."""

    def documents(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of documents, in order."""

    def description(self) -> dict[str, Any]:
        """What identifies the model and its settings: plain values, the same in every process."""


class Scorer(Protocol):
    """What scores texts for queries, such as a `Reranker`."""

    def scores_of(self, pairs: list[tuple[str, str]]) -> Any:
        """A number for every pair of a query and a text, higher for what fits better."""


def load_retriever(path: str | os.PathLike[str], **settings: Any) -> Any:
    """Load a model that makes vectors.

    Args:
        path: a folder that `load_task` reads: of a fine-tuned model, or of sentence-transformers.
        **settings: as for `load_task`.

    Raises:
        ValueError: the model does not make vectors.
    """
    from keras_bert_rebuild.tasks.saved_task import load_task

    task = load_task(path, **settings)
    if not hasattr(task, "vectors"):
        raise ValueError(f"expected a model that makes vectors of texts; {printable(path)} is one for {task.kind}.")
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
        raise ValueError(f"expected a reranker, a model that scores texts for queries; {printable(path)} is one for {task.kind}.")
    return task


def document_encoder(retriever: Retriever, batch_tokens: int | None = None) -> Callable[[Iterable[str]], Iterator[Any]]:
    """The function that gives the vectors of documents, for texts that come in blocks; what it gives depends on its first texts.

    Args:
        retriever: the model.
        batch_tokens: tokens in a batch, padding included; None for what the device is fast with.

    Raises:
        ValueError: the number is below 1, or the retriever makes no batches of tokens.
    """
    own = getattr(retriever, "document_encoder", None)
    if batch_tokens is not None and (own is None or batch_tokens < 1):
        raise ValueError(
            f"batch_tokens must be at least 1, and for a model that makes batches of tokens; got {batch_tokens} for a "
            f"{type(retriever).__name__}."
        )
    return retriever.documents if own is None else own(batch_tokens)


def described(retriever: Retriever) -> dict[str, Any]:
    """The description of a retriever with kind and width of its vectors, as it is in a file."""
    own = json.loads(json.dumps(retriever.description(), sort_keys=True))
    return {"vectors": retriever.vectors, "width": int(retriever.width), "model": own}


def check_same_retriever(found: dict[str, Any], expected: dict[str, Any], path: Any) -> None:
    """Refuse a model that is not the one of an index.

    Args:
        found: `described` of the model.
        expected: that of the index.
        path: the folder of the index, for the error.

    Raises:
        ValueError: they differ; the error says in what.
    """
    if found == expected:
        return
    for name, what in (("vectors", "kind"), ("width", "width")):
        if found[name] != expected[name]:
            raise ValueError(
                f"expected the model that made the index at {printable(path)}, with vectors of {what} {expected[name]}; "
                f"this one has {found[name]}."
            )
    names = sorted(expected["model"].keys() | found["model"].keys())
    differ = [name for name in names if expected["model"].get(name) != found["model"].get(name)]
    raise ValueError(
        f"expected the model that made the index at {printable(path)}; this one differs in {printable(', '.join(differ))}: "
        "give the right model, or make the index again."
    )
