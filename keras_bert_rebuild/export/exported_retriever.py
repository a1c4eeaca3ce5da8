"""An exported OpenVINO model that computes vectors for a search, several times as fast in int8."""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.buckets import LOOK_AHEAD, Buckets
from keras_bert_rebuild.data.corpora.store_files import sha256_of
from keras_bert_rebuild.export.openvino import OpenVINORunner
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.tasks.embedding_stream import BATCH_TOKENS, EmbeddingStream, texts_of_stream
from keras_bert_rebuild.tasks.retrieval_rows import MarkedRows
from keras_bert_rebuild.tasks.sentence_embedder import unit

# The kind of an exported task, and of its vectors: see `Retriever`.
VECTORS = {"embedding": "dense", "sparse_embedding": "sparse", "late_interaction": "tokens"}

# Values in export.json that do not affect vectors.
NOT_OF_VECTORS = ("quality", "files", "outputs", "labels", "problem_type")


class ExportedRetriever:
    """Computes vectors of texts with the model of an OpenVINO folder; an index accepts it like any `Retriever`.

    Long texts are truncated. Its vectors are those of the exported model, so an index made with the original model is another
    index.

    Args:
        runner: the model of the folder.

    Raises:
        ValueError: the model does not return vectors of texts.

    Example: `Index.open("index", ExportedRetriever.load("int8")).add("corpus.jsonl")`
    """

    def __init__(self, runner: OpenVINORunner) -> None:
        self.kind = runner.settings.get("kind", "embedding")
        if self.kind not in VECTORS or (self.kind == "embedding" and not runner.gives_vectors):
            what = "one for each token of a text" if self.kind == "embedding" else f"one for {printable(self.kind)}"
            raise ValueError(f"expected a model that returns vectors of texts; {printable(runner.folder)} is {what}.")
        self.runner, self.vectors = runner, VECTORS[self.kind]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The retriever of a folder that `export` wrote in the format openvino or openvino_int8.

        Raises:
            ValueError: the folder is something else, its model does not return vectors, or the package openvino is missing.
        """
        return cls(OpenVINORunner(folder))

    @property
    def width(self) -> int:
        """Dimensions of a vector; for sparse vectors, the vocabulary size."""
        return self.runner.float.outputs[0].partial_shape[-1].get_length()

    def queries(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of queries in order; the iterable may be endless."""
        return self._of_role(texts, "query", None)

    def documents(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield the vectors of documents, like `queries` with another prompt."""
        return self._of_role(texts, "document", None)

    def document_encoder(self, batch_tokens: int | None = None) -> Callable[[Iterable[str]], Iterator[Any]]:
        """A function like `documents`, with batches of that many tokens, padding included; None for 2,048."""
        return lambda texts: self._of_role(texts, "document", batch_tokens)

    def vectors_of_tokens(self, texts: Iterable[str], role: str, batch_tokens: int | None = None) -> Iterator[Any]:
        """Yield the token vectors for late interaction, `(tokens, width)`.

        Args:
            texts: the texts.
            role: "query" or "document".
            batch_tokens: tokens per batch, padding included; None for 2,048.
        """
        rows_of = MarkedRows.from_settings(self.runner.tokenizer, **self.runner.settings["rows"][role])
        rows, again = itertools.tee(itertools.chain.from_iterable(map(rows_of, texts_of_stream(texts))))
        tokens = batch_tokens or BATCH_TOKENS
        buckets = Buckets(self.runner, bucket_lengths(rows_of.length, compiled=False), tokens, max(LOOK_AHEAD, tokens))
        for vectors, row in zip(buckets.stream(rows), again, strict=True):
            yield vectors[: len(row.ids)][row.scored > 0]

    def description(self) -> dict[str, Any]:
        """Plain values that identify the model and the settings of its vectors, for an index."""
        folder = self.runner.folder
        files = sorted([*folder.glob("model*.xml"), *folder.glob("model*.bin")])
        tokens = repr((type(self.runner.tokenizer).__name__, sorted(self.runner.tokenizer.tokens.items())))
        settings = {name: value for name, value in self.runner.settings.items() if name not in NOT_OF_VECTORS}
        return {
            "kind": self.kind,
            "files": {file.name: sha256_of(file) for file in files},
            "tokenizer": hashlib.sha256(tokens.encode()).hexdigest(),
            "settings": settings,
        }

    def _of_role(self, texts, role, batch_tokens):
        if self.kind == "late_interaction":
            return self.vectors_of_tokens(texts, role, batch_tokens)
        runner = self.runner
        tokens = batch_tokens or BATCH_TOKENS
        stream = EmbeddingStream(runner, runner.tokenizer, runner.max_len, batch_tokens=tokens, prompt=runner.prompt(role))
        if self.kind == "sparse_embedding":
            return map(self._words, stream.stream(texts))
        return stream.stream(texts, self._compared)

    def _compared(self, vectors):
        """Vectors scaled such that dot products are the similarity."""
        return unit(vectors) if self.runner.settings.get("measure", "cosine") == "cosine" else vectors

    def _words(self, weights):
        """The word ids of a text, ascending, and their weights."""
        ids, most = np.flatnonzero(weights > 0), self.runner.settings.get("max_active")
        if most is not None and len(ids) > most:
            ids = np.sort(ids[np.argsort(-weights[ids], kind="stable")[:most]])
        return ids.astype("int32"), weights[ids]
