"""Build an index: write the texts to disk, then their vectors, a block at a time."""

import contextlib
import hashlib
import itertools
import shutil
from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.store_files import sha256_of, write_json
from keras_bert_rebuild.data.retrieval import read_corpus
from keras_bert_rebuild.data.text_files import suffix_of
from keras_bert_rebuild.files.folders import link_or_copy, written_folder
from keras_bert_rebuild.files.kinds import INDEX, folder_kind
from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.files.output import check_own, claimed_folder
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.documents import FILES, DocumentStore, write_documents
from keras_bert_rebuild.search.index_files import (
    DOCUMENTS_RECORD,
    FORMAT,
    MANIFEST,
    PROGRESS,
    UNFINISHED,
    VERSION,
    IndexFiles,
    block_file,
    block_record,
    files_record,
    finished_record,
    own_names,
    read_manifest,
    write_block,
    write_manifest,
)
from keras_bert_rebuild.search.retrievers import described, document_encoder
from keras_bert_rebuild.search.storages import storage_for

# Number of texts by which a retriever may choose the lengths of its rows, see `EmbeddingStream`.
_FIRST_TEXTS = 1024


def claimed_index(corpus, path, overwrite, *inputs):
    """Check and lock the folder of an index; see `claimed_folder`.

    Args:
        corpus: the corpus, a file or a list of documents.
        path: the folder.
        overwrite: whether an index may be written into a folder with other files. What happens to an index depends on its settings.
        *inputs: further input paths.
    """
    path, inputs = Path(path), [*([] if isinstance(corpus, list) else [corpus]), *inputs]
    return claimed_folder(path, INDEX, inputs, overwrite or (path.is_dir() and folder_kind(path) is INDEX))


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
    with claimed_index(corpus, path, overwrite, model):
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
        if not overwrite and _is_same(path, MANIFEST, settings):
            return
        head = {"format": FORMAT, "version": VERSION, "model": None if model is None else str(model), "settings": settings}
        with _unfinished(path, head, overwrite) as folder:
            documents = _write_documents(folder, corpus, limit, progress)
            counts = [min(block, documents["documents"] - first) for first in range(0, documents["documents"], block)]
            names = [block_file(number, name) for number, count in enumerate(counts) for name in storage.arrays(count)]
            names, own = [MANIFEST, *FILES, *names], own_names(path)
            check_own(path, names, own, MANIFEST)
            blocks = _write_blocks(folder, documents, counts, storage, vectors_of, progress)
            write_manifest(folder, {**head, "documents": documents, "blocks": blocks})
            with written_folder(path, replaced=(*own, UNFINISHED)) as whole:
                for name in names:
                    link_or_copy(folder / name, whole / name)


def _is_same(path, name, settings):
    """Whether there is an index, or an unfinished one, with these settings.

    Raises:
        ValueError: it has others.
    """
    if not (path / name).is_file():
        return False
    earlier = read_manifest(path, name)["settings"]
    differ = [name for name, value in settings.items() if earlier.get(name) != value]
    if differ:
        words = {"corpus": "another corpus", "retriever": "another model", "block": "blocks of another size"}
        what = " and ".join(words.get(name, f"another {name}") for name in differ)
        raise ValueError(
            f"{printable(path)} holds an index made with {what}: choose another output, or --overwrite (in Python "
            "overwrite=True) replaces it."
        )
    return True


@contextlib.contextmanager
def _unfinished(path, head, overwrite):
    """The folder in which an index is built, with what an interrupted build with the same settings wrote."""
    folder = path / UNFINISHED
    try:
        resumed = _is_same(folder, PROGRESS, head["settings"])
    except ValueError:
        if not overwrite:
            raise
        resumed = False
    is_new = not path.exists()
    if not resumed:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / PROGRESS, head)
    try:
        yield folder
    except ValueError:  # the corpus or the model is at fault, and so would what is left be
        shutil.rmtree(folder, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # not empty
                path.rmdir()
        raise


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


def _write_blocks(folder, documents, counts, storage, vectors_of, progress):
    """Write the blocks that are not complete and return the records of all."""
    store = DocumentStore(IndexFiles(folder, documents["files"], verify=False), documents["documents"])
    encode = _encoder(vectors_of, storage, store, counts[0])
    records, first = [], 0
    for number, count in enumerate(counts):
        record = finished_record(folder, block_record(number))
        if record is None:
            record = write_block(folder, number, count, encode(first, first + count), np.save)
        records.append(record)
        first += count
        if progress is not None:
            progress("indexing", count, len(store))
    return records


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
        arrays = storage.encode(vectors)
        if not all(all_finite(values) for values in arrays.values() if values.dtype.kind == "f"):
            raise ValueError(f"expected vectors of numbers in the range of {storage.dtype}; the model returned others.")
        return arrays

    return encode
