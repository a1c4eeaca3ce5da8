"""Build an index: write the texts to disk, then their vectors, a block at a time."""

import hashlib
import itertools
from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.store_files import sha256_of, write_json
from keras_bert_rebuild.data.retrieval.corpora import read_corpus
from keras_bert_rebuild.data.text_files import suffix_of
from keras_bert_rebuild.files.kinds import INDEX, names_in_the_way
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.documents import FILES, DocumentStore, write_documents
from keras_bert_rebuild.search.index_files import (
    DOCUMENTS_RECORD,
    FORMAT,
    MANIFEST,
    PROGRESS,
    VERSION,
    block_record,
    files_record,
    finished_record,
    read_manifest,
    write_block,
)
from keras_bert_rebuild.search.retrievers import described, document_encoder
from keras_bert_rebuild.search.storages import storage_for

# Number of texts by which a retriever may choose the lengths of its rows, see `EmbeddingStream`.
_FIRST_TEXTS = 1024


def claimed_index(corpus, path, *inputs):
    """Check and lock the folder of an index; see `claimed_run`.

    Args:
        corpus: the corpus, a file or a list of documents.
        path: the folder.
        *inputs: further input paths.
    """
    return claimed_run(path, INDEX, [*([] if isinstance(corpus, list) else [corpus]), *inputs])


def build_index(
    corpus,
    path,
    retriever,
    dtype=None,
    rescoring=None,
    limit=None,
    block=None,
    batch_tokens=None,
    model=None,
    overwrite=False,
    progress=None,
):
    """Build an index; for the arguments see `Index.build`."""
    path = Path(path)
    storage = storage_for(retriever.vectors, int(retriever.width), dtype, rescoring)
    block = storage.BLOCK if block is None else block
    if not 1 <= block <= storage.BLOCK:
        raise ValueError(f"block must be from 1 to {storage.BLOCK}; got {block}.")
    vectors_of = document_encoder(retriever, batch_tokens)
    with claimed_index(corpus, path, model):
        settings = {
            "corpus": {
                "sha256": _digest(corpus),
                "read_as": None if isinstance(corpus, list) else suffix_of(corpus),
                "limit": limit,
            },
            "retriever": described(retriever),
            "dtype": storage.dtype,
            "rescoring": storage.rescoring,
            "block": block,
        }
        head = {"format": FORMAT, "version": VERSION, "model": None if model is None else str(model), "settings": settings}
        if _begin(path, head, overwrite):
            _remove_records(path)
            return
        documents = _write_documents(path, corpus, limit, progress)
        store = DocumentStore(path, documents["documents"])
        encode = _encoder(vectors_of, storage, store, block)
        records = []
        for number, first in enumerate(range(0, len(store), block)):
            last = min(first + block, len(store))
            record = finished_record(path, block_record(number))
            if record is None:
                record = write_block(path, number, last - first, encode(first, last), np.save)
            records.append(record)
            if progress is not None:
                progress("indexing", last - first, len(store))
        write_json(path / MANIFEST, {**head, "documents": documents, "blocks": records})
        _remove_records(path)


def _begin(path, head, overwrite):
    """Whether the index is complete; otherwise prepare the folder: write the settings, and remove files made with others."""
    existing = next((name for name in (MANIFEST, PROGRESS) if (path / name).is_file()), None)
    if existing and not overwrite:
        found = read_manifest(path, existing)["settings"]
        differ = [name for name, value in head["settings"].items() if found.get(name) != value]
        if differ:
            words = {"corpus": "another corpus", "retriever": "another model", "block": "blocks of another size"}
            what = " and ".join(words.get(name, f"another {name}") for name in differ)
            raise ValueError(
                f"{printable(path)} holds an index made with {what}: choose another output, or --overwrite (in Python "
                "overwrite=True) replaces it."
            )
        if existing == MANIFEST:
            return True
    elif existing or overwrite:
        # The manifest first: without it, the folder does not count as a finished index.
        for name in (MANIFEST, PROGRESS, *names_in_the_way(path, INDEX)):
            (path / name).unlink(missing_ok=True)
    write_json(path / PROGRESS, head)
    return False


def _remove_records(path):
    """Remove the files of an unfinished index, which a run that was killed after writing its manifest may have left."""
    records = [record.name for record in path.glob("block-??????.json")]
    for name in (*records, DOCUMENTS_RECORD, PROGRESS):
        (path / name).unlink(missing_ok=True)


def _digest(corpus):
    """The identity of a corpus: the SHA-256 of its file, or of its documents."""
    if not isinstance(corpus, list):
        if not Path(corpus).is_file():
            raise ValueError(f"expected a corpus file; {corpus} {'is a folder' if Path(corpus).is_dir() else 'does not exist'}.")
        return sha256_of(corpus)
    digest = hashlib.sha256()
    for document in corpus:
        for part in document:
            content = part.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _write_documents(path, corpus, limit, progress):
    record = finished_record(path, DOCUMENTS_RECORD)
    if record is None:
        documents = corpus if isinstance(corpus, list) else read_corpus(corpus)
        report = None if progress is None else lambda documents: progress("reading", documents, None)
        count = write_documents(path, itertools.islice(documents, limit), report)
        record = {"documents": count, "files": files_record(path, FILES)}
        write_json(path / DOCUMENTS_RECORD, record)
    return record


def _encoder(vectors_of, storage, store, block):
    """A function of the first and the last document of a block that returns its arrays.

    Every block is passed to the retriever separately, so that its vectors are bit-identical in a resumed run. A retriever may
    choose the shapes of its batches by its first texts, so a resumed run passes it those of the first block again.
    """
    ready = False

    def encode(first, last):
        nonlocal ready
        if first and not ready:
            shown = store.span(0, min(_FIRST_TEXTS, block))
            next(iter(vectors_of(document.full_text for document in shown)))
        ready = True
        texts = (document.full_text for document in store.span(first, last))
        vectors = list(vectors_of(texts))
        if len(vectors) != last - first:
            raise ValueError(f"expected a vector for each of {last - first:,} documents; the model returned {len(vectors):,}.")
        return storage.encode(vectors)

    return encode
