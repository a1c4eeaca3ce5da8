"""Tokenise a block of text into a shard of token ids."""

from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.store_files import record_file, write_json, write_shard

# Bytes that are tokenised at a time: enough to be fast, few compared with a block.
_SLICE = 300_000


def encode_block(text, encode_flat, continues=False):
    """Tokenise a block.

    Args:
        text: the text of a `Block`.
        encode_flat: a function from a list of strings to `(ids, lengths)`, arrays `(tokens,)` and `(strings,)`.
        continues: whether the first document started in an earlier block.

    Returns:
        A dictionary of arrays: `ids`, and where `passages` and `documents` start and, last, the number of ids, int64. Passages and
        documents without tokens are left out, and so is the start of a document that started in an earlier block.
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
    # A blank line has no tokens: the next document starts there. Starts that coincide are those of empty passages.
    ends = np.cumsum(np.concatenate(lengths), dtype="int64")
    total = ends[-1:]
    return {
        "ids": np.concatenate(ids),
        "passages": np.unique(np.concatenate([[0], ends])),
        "documents": np.unique(np.concatenate([ends[:0] if continues else [0], ends[blank], total])),
    }


def make_shard_writer(folder, cased, dtype, cleaning=None):
    """The function that tokenises a block and writes its shard.

    Args:
        folder: a folder with the vocabulary, `vocab.txt`; shards are written to it.
        cased: keep case.
        dtype: dtype of the ids on disk.
        cleaning: further arguments of the `WordPieceTokenizer`, a dictionary.

    Returns:
        A function from `(number, text, continues)` to the record of the shard for the index.
    """
    from keras_bert_rebuild.text.vocabulary import TOKEN_UNK, load_vocabulary
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

    folder = Path(folder)
    vocabulary = load_vocabulary(folder / "vocab.txt")
    unknown = vocabulary[TOKEN_UNK]

    def write(task):
        number, text, continues = task
        # A tokenizer remembers the words it has seen. Every block has its own, or memory would grow with the corpus.
        tokenizer = WordPieceTokenizer(vocabulary, cased=cased, fast=False, **(cleaning or {}))

        def encode_flat(texts):
            ids, lengths = tokenizer.encode_flat(texts)
            return ids.astype(dtype), lengths

        arrays = encode_block(text, encode_flat, continues)
        record = {
            "number": number,
            "tokens": len(arrays["ids"]),
            "passages": len(arrays["passages"]) - 1,
            "documents": len(arrays["documents"]) - 1,
            "unknown": int((arrays["ids"] == unknown).sum()),
            "files": write_shard(folder, number, arrays),
        }
        write_json(folder / record_file(number), record)
        return record

    return write
