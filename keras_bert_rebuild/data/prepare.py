"""Tokenising a corpus once, into a folder that training reads from disk."""

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from keras_bert_rebuild.data.preparation import Preparation
from keras_bert_rebuild.data.read_corpus import BLOCK_BYTES, CorpusReader
from keras_bert_rebuild.data.store_files import part_file
from keras_bert_rebuild.data.tokenise_block import make_shard_writer
from keras_bert_rebuild.data.worker_pool import run_tasks
from keras_bert_rebuild.files.kinds import STORE
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.text.tokens import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary
from keras_bert_rebuild.text.wordpiece_files import settings_beside

MOST_WORKERS = 256


def prepare(
    corpus: str | os.PathLike[str],
    vocabulary: str | os.PathLike[str],
    output: str | os.PathLike[str],
    cased: bool | None = None,
    workers: int | None = None,
    part: tuple[int, int] = (0, 1),
    document_per_file: bool = False,
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int, int], object] | None = None,
) -> Any:
    """Tokenise a corpus into a folder for `TokenStore`.

    The bytes of the folder depend on the corpus, the vocabulary and the settings alone. A run that was stopped, at any moment, goes
    on when it is called again: finished shards are kept. Memory does not depend on the size of the corpus.

    Args:
        corpus: a file or folder: see `CorpusReader`.
        vocabulary: a file with a token a line.
        output: the folder to write.
        cased: keep case; None takes it from the settings of a tokenizer beside a vocab.txt, and else from the vocabulary, by
            capitals in it. What becomes of accents and CJK characters is read there, too.
        workers: number of processes; None is one for every core, and 1 is this process itself; 256 at the most.
        part: `(number, parts)`: make only the blocks whose number leaves this remainder. The parts may be made on several hosts,
            in one folder or in several whose files are put together afterwards.
        document_per_file: a file is one document, whatever blank lines are in it.
        block_bytes: text of a shard, at most.
        progress: called as `progress(file_bytes, text_bytes)` when so many more bytes of the files are done, and so many of text
            were tokenised for it.

    Returns:
        `Prepared`.

    Raises:
        ValueError: the corpus or vocabulary will not do, or `output` was begun with other settings or cannot be a folder.
        OSError: a file cannot be read or written, another run is writing the same part, or a worker process died.
    """
    workers = _cores() if workers is None else workers
    if workers > MOST_WORKERS:
        raise ValueError(f"workers must be at most {MOST_WORKERS}, each a process with memory of its own; got {workers:,}.")
    if workers < 1 or not 0 <= part[0] < part[1]:
        raise ValueError(f"expected at least one worker and a part in [0, parts); got {workers} and {part[0]}/{part[1]}.")
    corpus, vocabulary, output = Path(corpus), Path(vocabulary), Path(output)
    reader = CorpusReader(corpus, document_per_file, block_bytes)
    _check_places(corpus, vocabulary, output)
    content, tokens = _read_vocabulary(vocabulary)
    cleaning = settings_beside(vocabulary)
    told = cleaning.pop("cased", None)
    usual = {"strip_accents": None, "tokenize_chinese_chars": True}
    cleaning = {name: value for name, value in cleaning.items() if value != usual[name]}
    cased = told if cased is None else cased
    settings = {
        "block_bytes": block_bytes,
        "cased": is_cased(tokens) if cased is None else cased,
        "corpus": reader.fingerprint(),
        "document_per_file": document_per_file,
        "dtype": "uint16" if max(tokens.values()) < 1 << 16 else "int32",
        **cleaning,
        "vocabulary": {"sha256": hashlib.sha256(content).hexdigest(), "tokens": max(tokens.values()) + 1},
    }
    run = Preparation(reader, output, settings, part, content, progress or (lambda file_bytes, text_bytes: None))
    with claimed_store(corpus, output, part):
        run.check_folder()
        arguments = (str(output.resolve()), settings["cased"], settings["dtype"], cleaning)
        with closing(run_tasks(make_shard_writer, arguments, run.tasks(), workers)) as records:
            for record in records:
                run.add(record)
        return run.finish()


def claimed_store(corpus, output, part):
    """Check the folder of a part of a corpus, and hold its lock: a context."""
    return claimed_run(output, STORE, [corpus], f".{part_file('prepare', part)}.lock")


def _cores():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_places(corpus, vocabulary, output):
    if output.exists() and not output.is_dir():
        raise ValueError(f"expected a folder to write to; {output} is a file.")
    if output.resolve().is_relative_to(corpus.resolve()):
        raise ValueError(f"expected a folder outside the corpus, which would read it as text; {output} is inside it.")
    if vocabulary.resolve().is_relative_to(corpus.resolve()):
        raise ValueError(f"expected a vocabulary outside the corpus, which would read it as text; {vocabulary} is inside it.")


def _read_vocabulary(path):
    """The bytes of a vocabulary file, and its tokens with their ids."""
    if not path.is_file():
        raise ValueError(
            f"expected a vocabulary, a file with a token a line; {path} is {'a folder' if path.exists() else 'not there'}."
        )
    tokens = load_vocabulary(path)
    for token in (GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK):
        if token not in tokens and not (token == GOOGLE_PAD and TOKEN_PAD in tokens):
            raise ValueError(f"expected a vocabulary with {token}; {path} has {len(tokens):,} tokens without it.")
    return path.read_bytes(), tokens
