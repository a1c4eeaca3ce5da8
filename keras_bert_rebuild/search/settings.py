"""The settings of an index: which model computes its vectors, and how they are stored."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.dense_vectors import DenseVectors
from keras_bert_rebuild.search.documents import HASHES, ID, TEXT, TITLE
from keras_bert_rebuild.search.retrievers import Retriever, check_same_retriever, described
from keras_bert_rebuild.search.sparse_vectors import SparseVectors
from keras_bert_rebuild.search.token_vectors import TokenVectors

STORAGES: dict[str, Any] = {"dense": DenseVectors, "sparse": SparseVectors, "tokens": TokenVectors}
_KEY = b"keras_bert_rebuild"


def language_of(documents: Iterable[Document]) -> str:
    """The language of an index that none was given for: "English", or "none" if most of the letters are not those of English."""
    letters = [letter for document in documents for letter in document.full_text[:1000] if letter.isalpha()]
    return "none" if 2 * sum(map(str.isascii, letters)) < len(letters) else "English"


@dataclass(frozen=True)
class IndexSettings:
    """What all documents of an index have in common. It is stored with the table."""

    retriever: dict[str, Any] | None = None
    """`described` of the model; None for an index without vectors, which BM25 searches."""

    dtype: str | None = None
    """The dtype of the vectors."""

    rescoring: str | None = None
    """The dtype of their second copy, or "none"."""

    language: str = ""
    """The language of the texts, for BM25; empty until the first documents are there: see `language_of`."""

    model: str | None = None
    """The path or name of the model."""

    @classmethod
    def for_model(
        cls, retriever: Retriever | None, dtype: str | None, rescoring: str | None, language: str | None, model: str | None
    ) -> "IndexSettings":
        """The settings of a new index.

        Args:
            retriever: the model.
            dtype: dtype of the stored vectors, one of `DTYPES` of the storage; None for its first.
            rescoring: dtype of a second copy of int8 or binary dense vectors, to rescore candidates; None for "int8" with binary
                ones and no copy with others, "none" for no copy.
            language, model: see the fields.

        Raises:
            ValueError: a value is unknown, or values contradict each other.
        """
        if retriever is None:
            if dtype is not None or rescoring is not None:
                raise ValueError("dtype and rescoring are for vectors, which an index without a model does not have.")
            return cls(language=language or "")
        kind = retriever.vectors
        if kind not in STORAGES:
            raise ValueError(f"the kind of vectors must be one of {', '.join(STORAGES)}; got {kind!r}.")
        storage = STORAGES[kind]
        dtype = dtype or storage.DTYPES[0]
        if dtype not in storage.DTYPES:
            raise ValueError(f"the dtype of {kind} vectors must be one of {', '.join(storage.DTYPES)}; got {dtype!r}.")
        modes = storage.RESCORING.get(dtype, ("none",))
        rescoring = rescoring or modes[0]
        if rescoring not in modes:
            raise ValueError(f"rescoring of {kind} vectors stored as {dtype} must be one of {', '.join(modes)}; got {rescoring!r}.")
        return cls(described(retriever), dtype, rescoring, language or "", model)

    @classmethod
    def from_schema(cls, schema: pa.Schema, place: Any) -> "IndexSettings":
        """The settings that are stored with a table.

        Raises:
            ValueError: it has none: it is not an index.
        """
        stored = (schema.metadata or {}).get(_KEY)
        if stored is None:
            raise ValueError(f"expected an index; the table at {printable(place)} was not made by keras_bert_rebuild.")
        return cls(**json.loads(stored))

    def __str__(self) -> str:
        """What is stored of a text, in words."""
        if self.retriever is None:
            return "none: BM25 searches its words (--model adds vectors to a new index)"
        kind, width = self.retriever["vectors"], self.retriever["width"]
        again = "" if self.rescoring == "none" else f", and again as {self.rescoring}"
        return f"{kind}, {width:,} {'tokens' if kind == 'sparse' else 'numbers'}, {self.dtype}{again}"

    @property
    def storage(self) -> Any:
        """The storage of the vectors; None without vectors."""
        if self.retriever is None:
            return None
        return STORAGES[self.retriever["vectors"]](self.retriever["width"], self.dtype, self.rescoring)

    @property
    def identity(self) -> str:
        """What the vectors of a text depend on."""
        return json.dumps(self.retriever, sort_keys=True)

    def schema(self, types: dict[str, pa.DataType]) -> pa.Schema:
        """The columns of the table, in order.

        Args:
            types: the types of id and metadata.
        """
        fields = {ID: types[ID], TITLE: pa.string(), TEXT: pa.string()} | dict.fromkeys(HASHES, pa.uint64())
        fields |= {} if self.storage is None else self.storage.columns
        return pa.schema([*(fields | types).items()], metadata={_KEY: json.dumps(asdict(self)).encode()})

    def metadata_types(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The types of id and metadata in a table."""
        own = {TITLE, TEXT, *HASHES, *(() if self.storage is None else self.storage.columns)}
        return {field.name: field.type for field in schema if field.name not in own}

    def check_same(self, other: "IndexSettings", place: Any) -> None:
        """Refuse other settings than those of an index.

        Args:
            other: settings that were asked for, with None for those that were not.
            place: where the index is, for the error.

        Raises:
            ValueError: they differ; the error says how.
        """
        if other.retriever is not None:
            if self.retriever is None:
                raise ValueError(f"the index at {printable(place)} has no vectors, only words: open it without a model.")
            check_same_retriever(other.retriever, self.retriever, place)
        for name in ("dtype", "rescoring", "language"):
            if getattr(other, name) not in (None, "", getattr(self, name)):
                raise ValueError(
                    f"the index at {printable(place)} has the {name} {getattr(self, name)}; got {getattr(other, name)}: build "
                    "another index."
                )
