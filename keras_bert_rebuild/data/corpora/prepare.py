"""Tokenise a corpus once, block by block, into a folder that training reads from disk."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert_rebuild.data.corpora.deduplicate import DEDUPLICATE
from keras_bert_rebuild.data.corpora.deduplicate import deduplicate as deduplicate_store
from keras_bert_rebuild.data.corpora.preparation import STAGING, Preparation
from keras_bert_rebuild.data.corpora.read_corpus import BLOCK_BYTES, CorpusReader
from keras_bert_rebuild.data.corpora.store_files import read_indexes, write_shard
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.corpora.worker_pool import mapped
from keras_bert_rebuild.files.kinds import STORE
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.text.vocabulary import (
    GOOGLE_PAD,
    TOKEN_CLS,
    TOKEN_MASK,
    TOKEN_PAD,
    TOKEN_SEP,
    TOKEN_UNK,
    is_cased,
    load_vocabulary,
)

if TYPE_CHECKING:
    from keras_bert_rebuild.data.corpora.ray_cluster import RayCluster

# Bytes tokenised at a time: enough to be fast, small compared with a block.
_SLICE = 300_000


def encode_block(text, encode_flat, continues=False):
    """Tokenise a block.

    Args:
        text: the text of a `Block`.
        encode_flat: a function from a list of strings to `(ids, lengths)`, arrays `(tokens,)` and `(strings,)`.
        continues: whether the first document started in an earlier block.

    Returns:
        A dictionary of arrays: `ids`, and, as int64, the offsets of `passages` and `documents`, each followed by the number of ids.
        Passages and documents without tokens are left out, as is the start of a document that started in an earlier block.
    """
    ids, lengths, blank, lines = [], [], [], 0
    start = 0
    while start <= len(text):
        end = text.find(b"\n", start + _SLICE)
        end = len(text) if end < 0 else end
        slice_ = text[start:end].decode().split("\n")
        start = end + 1
        flat, counts = encode_flat(slice_)
        ids.append(flat)
        lengths.append(counts)
        blank += [lines + i for i, line in enumerate(slice_) if not line]
        lines += len(slice_)
    # A blank line has no tokens, so the next document starts at its offset. Equal offsets are those of empty passages.
    ends = np.cumsum(np.concatenate(lengths), dtype="int64")
    total = ends[-1:]
    return {
        "ids": np.concatenate(ids),
        "passages": np.unique(np.concatenate([[0], ends])),
        "documents": np.unique(np.concatenate([ends[:0] if continues else [0], ends[blank], total])),
    }


def make_shard_writer(folder, cased, dtype, cleaning=None):
    """Make a function that tokenises a block and writes its shard.

    Args:
        folder: a folder with the vocabulary, `vocab.txt`, to which shards are written.
        cased: keep case.
        dtype: dtype of the ids on disk.
        cleaning: other arguments of the `WordPieceTokenizer`, a dictionary.

    Returns:
        A function from `(number, text, continues)` to the record of the shard for the index.
    """
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

    folder = Path(folder)
    vocabulary = load_vocabulary(folder / "vocab.txt")
    unknown = vocabulary[TOKEN_UNK]

    def write(task):
        number, text, continues = task
        # A tokenizer caches words: one tokenizer per block, so that memory does not grow with the corpus.
        tokenizer = WordPieceTokenizer(vocabulary, cased=cased, **(cleaning or {}))

        def encode_flat(texts):
            ids, lengths = tokenizer.encode_flat(texts)
            return ids.astype(dtype), lengths

        return write_shard(folder, number, encode_block(text, encode_flat, continues), unknown)

    return write


MAX_WORKERS = 256

# Default Jaccard similarity from which texts are near duplicates.
SIMILARITY = 0.8


def prepare(
    corpus: str | os.PathLike[str],
    vocabulary: str | os.PathLike[str],
    output: str | os.PathLike[str],
    cased: bool | None = None,
    workers: "int | RayCluster | None" = None,
    document_per_file: bool = False,
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int, int], object] | None = None,
    deduplicate: str = "no",
    similarity: float = SIMILARITY,
    apart_from: Sequence[str | os.PathLike[str]] = (),
) -> Any:
    """Tokenise a corpus into a folder for `TokenStore`.

    The bytes of the folder depend only on the corpus, the vocabulary and the settings. Calling it again resumes an interrupted run:
    finished shards are reused. Memory does not depend on the size of the corpus.

    Args:
        corpus: a file or folder: see `CorpusReader`.
        vocabulary: a file with one token per line.
        output: the folder to write.
        cased: keep case; None takes it from the tokenizer settings next to a vocab.txt, or, if there are none, from whether the
            vocabulary has capitals. The treatment of accents and CJK characters is also read from these settings.
        workers: number of processes, at most 256; None for one per core, 1 to run in this process; or a `RayCluster`.
        document_per_file: each file is one document, regardless of blank lines.
        block_bytes: maximum size of the text of a shard.
        progress: called as `progress(file_bytes, text_bytes)` with the increase of the bytes of the files that are done, and of
            the bytes of text that were tokenised for that.
        deduplicate: "exact" removes documents with the same ids as an earlier document, then passages of at least 8 words with the
            same ids as an earlier passage; "near" also those that share most of their shingles (three consecutive words) with an
            earlier one; "no" removes nothing. The first of several is retained; text before and after a removed passage becomes two
            documents.
        similarity: the Jaccard similarity of shingle sets from which two texts are near duplicates, in [0.5, 1). Candidates are
            compared exactly; a pair at this similarity is found with a probability of at least 99 %, a more similar pair with a
            higher one.
        apart_from: folders of other finished stores with the same vocabulary, such as test data or corpora to mix with: texts that
            repeat one of theirs are removed too.

    Returns:
        `Prepared`.

    Raises:
        ValueError: the corpus or vocabulary is not usable, or `output` was started with other settings or is not a folder.
        OSError: reading or writing a file fails, another run is writing the same folder, or a worker process died.
    """
    workers = _cores() if workers is None else workers
    if isinstance(workers, int) and not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"workers must be at least 1 and at most {MAX_WORKERS}, each with its own memory; got {workers:,}.")
    _check_deduplication(deduplicate, similarity, apart_from)
    corpus, vocabulary, output = Path(corpus), Path(vocabulary), Path(output)
    reader = CorpusReader(corpus, document_per_file, block_bytes)
    _check_paths(corpus, vocabulary, output)
    content, tokens = _read_vocabulary(vocabulary)
    from keras_bert_rebuild.text.wordpiece_tokenizer import settings_beside

    cleaning = settings_beside(vocabulary)
    found_cased = cleaning.pop("cased", None)
    usual = {"strip_accents": None, "tokenize_chinese_chars": True}
    cleaning = {name: value for name, value in cleaning.items() if value != usual[name]}
    cased = found_cased if cased is None else cased
    settings = {
        "block_bytes": block_bytes,
        "cased": is_cased(tokens) if cased is None else cased,
        "corpus": reader.fingerprint(),
        "document_per_file": document_per_file,
        "dtype": "uint16" if max(tokens.values()) < 1 << 16 else "int32",
        **cleaning,
        "vocabulary": {"sha256": hashlib.sha256(content).hexdigest(), "tokens": max(tokens.values()) + 1},
    }
    if deduplicate != "no":
        settings["deduplicate"] = {
            "kind": deduplicate,
            **({"similarity": similarity} if deduplicate == "near" else {}),
            **({"apart_from": [_digest_beside(settings, folder) for folder in apart_from]} if apart_from else {}),
        }
    run = Preparation(reader, output, settings, content, progress or (lambda file_bytes, text_bytes: None))
    with claimed_run(output, STORE, [corpus, *apart_from]):
        run.check_folder()
        if deduplicate != "no":
            shared = (workers, document_per_file, block_bytes, progress)
            return run.finished() or _without_duplicates(
                run,
                lambda tokens: prepare(corpus, vocabulary, tokens, cased, *shared),
                similarity=similarity if deduplicate == "near" else None,
                workers=workers,
                apart_from=apart_from,
            )
        arguments = (str(output.resolve()), settings["cased"], settings["dtype"], cleaning)
        with closing(mapped(make_shard_writer, arguments, run.tasks(), workers)) as records:
            for record in records:
                run.add(record)
        return run.finish()


def _without_duplicates(run, prepare_in, **settings):
    """Prepare the whole corpus in a temporary folder, then write the folder of the run from it."""
    tokens = run.output / STAGING / "tokens"
    prepared = prepare_in(tokens)
    run.start()
    records, removed = deduplicate_store(tokens, run.output, run.output / STAGING / "sketches", **settings)
    return run.finish_from(tokens, prepared, records, removed)


def _digest_beside(settings, folder):
    """What identifies another store, whose vocabulary must be the same."""
    store = TokenStore(folder)
    theirs, _ = read_indexes(store.path)
    if theirs["vocabulary"]["sha256"] != settings["vocabulary"]["sha256"] or theirs["cased"] != settings["cased"]:
        raise ValueError(f"apart_from must list stores of the same vocabulary and case; those of {folder} differ.")
    return store.sha256


def _check_deduplication(kind, similarity, apart_from):
    if kind not in DEDUPLICATE:
        raise ValueError(f"deduplicate must be one of {', '.join(map(repr, DEDUPLICATE))}; got {kind!r}.")
    if not (is_number(similarity) and 0.5 <= similarity < 1):
        raise ValueError(f"similarity must be in [0.5, 1), the value from which texts are near duplicates; got {similarity!r}.")
    if kind == "no" and apart_from:
        raise ValueError(f"apart_from needs deduplicate='exact' or 'near', which it applies to other stores; got {kind!r}.")


def _cores():
    """Number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_paths(corpus, vocabulary, output):
    if output.exists() and not output.is_dir():
        raise ValueError(f"expected a folder to write to; {output} is a file.")
    if output.resolve().is_relative_to(corpus.resolve()):
        raise ValueError(f"expected an output folder outside the corpus, which would be read as text; {output} is inside it.")
    if vocabulary.resolve().is_relative_to(corpus.resolve()):
        raise ValueError(f"expected a vocabulary outside the corpus, which would be read as text; {vocabulary} is inside it.")


def _read_vocabulary(path):
    """The bytes of a vocabulary file, and its tokens with their ids."""
    if not path.is_file():
        raise ValueError(
            f"expected a vocabulary, a file with one token per line; {path} {'is a folder' if path.exists() else 'does not exist'}."
        )
    tokens = load_vocabulary(path)
    for token in (GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK):
        if token not in tokens and not (token == GOOGLE_PAD and TOKEN_PAD in tokens):
            raise ValueError(f"expected a vocabulary with {token}; {path} has {len(tokens):,} tokens without it.")
    return path.read_bytes(), tokens
