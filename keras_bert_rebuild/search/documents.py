"""The documents of an index as rows of a table: their columns, and the hashes by which unchanged documents are recognised."""

import datetime
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.printable import printable

ID, TITLE, TEXT = "id", "title", "full_text"
# Hashes of the id, of what the vectors depend on, and of the whole document: 64 bits each.
ID_HASH, VECTOR_HASH, DOCUMENT_HASH = HASHES = ("id_hash", "vector_hash", "document_hash")
OWN = (ID, TITLE, TEXT, *HASHES)

# Types of the values of metadata, and what they are called.
_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_TIMES = {datetime.datetime: pa.timestamp("us"), datetime.date: pa.date32()}


# Integers that a column can hold.
_INTEGERS = range(-(1 << 63), 1 << 63)


def is_storable(value: Any) -> bool:
    """Whether a text or an integer can be stored: it has no half of a surrogate pair, and at most 64 bits."""
    if not isinstance(value, str):
        return int(value) in _INTEGERS
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def checked_document(document: Document) -> Document:
    """A document with plain values in place of NumPy's in its metadata.

    Raises:
        ValueError: its id, title or text cannot be stored.
    """
    for part in ("id", "title", "text"):
        if not is_storable(getattr(document, part)):
            shown = printable(document.id)
            raise ValueError(f"expected text in UTF-8 as {part}; document {shown!r} has {getattr(document, part)!r:.60}.")
    return document._replace(metadata={name: _plain(value) for name, value in document.metadata.items()})


def _plain(value):
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def hash_of(*parts: str) -> int:
    """A hash of texts in order, 64 bits."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return int.from_bytes(digest.digest(), "little")


class Batch:
    """Some documents and their hashes.

    Args:
        documents: the documents.
        model: identity of the model that computes their vectors.
    """

    def __init__(self, documents: Sequence[Document], model: str) -> None:
        self.documents = documents
        vectors = [hash_of(model, document.full_text) for document in documents]
        whole = [hash_of(json.dumps([*document], sort_keys=True, default=str)) for document in documents]
        self.hashes: dict[str, npt.NDArray[np.uint64]] = {
            ID_HASH: np.array([hash_of(str(document.id)) for document in documents], "uint64"),
            VECTOR_HASH: np.array(vectors, "uint64"),
            DOCUMENT_HASH: np.array(whole, "uint64"),
        }

    def __len__(self) -> int:
        return len(self.documents)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Batch":
        """The documents at which `mask`, bool `(documents,)`, is true."""
        batch = object.__new__(Batch)
        batch.documents = [self.documents[i] for i in np.flatnonzero(mask).tolist()]
        batch.hashes = {name: values[mask] for name, values in self.hashes.items()}
        return batch

    def columns(self, types: dict[str, pa.DataType]) -> dict[str, pa.Array]:
        """The columns of the documents but for vectors.

        Args:
            types: the types of id and metadata, from `types_of`.
        """
        texts = {TITLE: [document.title for document in self.documents], TEXT: [document.full_text for document in self.documents]}
        columns = {ID: pa.array([document.id for document in self.documents], types[ID])}
        columns |= {name: pa.array(values, pa.string()) for name, values in texts.items()}
        columns |= {name: pa.array(values) for name, values in self.hashes.items()}
        for name in types.keys() - {ID}:
            columns[name] = pa.array([document.metadata.get(name) for document in self.documents], types[name])
        return columns


def batches(documents: Iterable[Document], size: int, model: str) -> Iterator[Batch]:
    """Divide documents into batches.

    Args:
        documents: the documents.
        size: documents per batch.
        model: see `Batch`.

    Raises:
        ValueError: two documents have the same id; the error names it; or as for `checked_document`.
    """
    documents, seen = iter(documents), np.zeros(0, "uint64")
    while part := [checked_document(document) for document in itertools.islice(documents, size)]:
        batch = Batch(part, model)
        ids = batch.hashes[ID_HASH]
        _, first = np.unique(ids, return_index=True)
        again = np.isin(ids, seen)
        again[np.setdiff1d(np.arange(len(ids)), first)] = True
        if again.any():
            raise ValueError(f"expected every id once; {printable(part[int(np.flatnonzero(again)[0])].id)!r} occurs twice.")
        seen = np.sort(np.concatenate([seen, ids]))
        yield batch


def types_of(batch: Batch, types: dict[str, pa.DataType], reserved: Iterable[str]) -> dict[str, pa.DataType]:
    """The types of id and metadata of a table that has, or shall have, these documents.

    Args:
        batch: the documents.
        types: the types so far, empty for a new table.
        reserved: names of columns that are not for metadata.

    Raises:
        ValueError: a name is reserved, or a value has another type than in earlier documents, or one that an index cannot hold.
    """
    types, reserved = dict(types), {*reserved, *OWN}
    for document in batch.documents:
        _add_type(types, ID, document.id, document)
        for name, value in document.metadata.items():
            if name in reserved or not name or name.startswith("_") or {*name} & {*'.`"\\'}:
                raise ValueError(
                    f'expected other names of metadata than {", ".join(sorted(reserved))}, without . ` " \\ or a first _; '
                    f"document {printable(document.id)!r} has {printable(name)!r}."
                )
            if value is not None and value != [] and value != ():
                _add_type(types, name, value, document)
    return types


def _add_type(types, name, value, document):
    kind = _type_of(value)
    if kind is None:
        raise ValueError(
            f"expected metadata of text in UTF-8, numbers of 64 bits, truth values, dates or lists of one of them; document "
            f"{printable(document.id)!r} has {value!r:.60} as {printable(name)}."
        )
    present = types.setdefault(name, kind)
    if present != kind and not (present == pa.float64() and kind == pa.int64()):
        raise ValueError(
            f"expected {printable(name)} of type {present}, as in earlier documents; document {printable(document.id)!r} has "
            f"{value!r:.60}, {kind}."
        )


def _type_of(value):
    """The type of a column that holds a value; None if there is none."""
    if isinstance(value, (list, tuple)):
        inner = {_type_of(each) for each in value}
        return pa.list_(inner.pop()) if len(inner) == 1 and None not in inner else None
    if isinstance(value, (str, int)) and not is_storable(value):
        return None
    return next((kind for of, kind in {**_TYPES, **_TIMES}.items() if type(value) is of), None)


def documents_of(rows: pa.Table) -> list[Document]:
    """The documents of rows of the table."""
    names = [name for name in rows.schema.names if name not in OWN]
    result = []
    for row in rows.to_pylist():
        title, text = row[TITLE], row[TEXT]
        metadata = {name: row[name] for name in names if row[name] is not None}
        result.append(Document(row[ID], title, text[len(title) + 1 :] if title else text, metadata))
    return result
