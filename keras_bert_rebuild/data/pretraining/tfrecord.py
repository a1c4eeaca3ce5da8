"""Pretraining examples in the TFRecord files of google-research/bert's `create_pretraining_data.py`, without TensorFlow.

Features of an example, of `length` or `predictions` numbers: `input_ids`, `input_mask` (1 at real tokens), `segment_ids`;
`masked_lm_positions`, `masked_lm_ids`, `masked_lm_weights` (floats, 1 at real predictions); `next_sentence_labels` (one number).

TFRecord is TensorFlow's format of records with checksums.
"""

import contextlib
import gzip
import struct
import zlib
from pathlib import Path

import google_crc32c
import numpy as np

from keras_bert_rebuild.data.pretraining.tf_example import decode_example, encode_example
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.limits import limit

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_TOO_LONG = limit("record_bytes") + 1


def write_records(path, records):
    """Write byte strings to a file atomically, compressed if its name ends in `.gz`.

    Args:
        path: a path.
        records: an iterable of `bytes`.
    """
    path = Path(path)
    # Without a timestamp, the same records give the same file.
    with written_file(path) as raw, _compressed(raw, path) as file:
        for record in records:
            length = _LENGTH.pack(len(record))
            for part in (length, record):
                file.write(part)
                file.write(_CHECKSUM.pack(masked_crc32c(part)))


def read_records(path):
    """The records of a file, in order; a file whose name ends in `.gz` is compressed.

    Args:
        path: a path.

    Yields:
        `bytes`.

    Raises:
        ValueError: the file is truncated or damaged.
    """
    with (gzip.open if _is_gzip(path) else open)(path, "rb") as file:
        number = 0
        while True:
            try:
                record = _read_record(file, path, number)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"{path} must be a complete gzip file; reading record {number} failed: {error}.") from None
            if record is None:
                return
            yield record
            number += 1


def masked_crc32c(data):
    """The checksum of a record: CRC-32C, rotated and shifted.

    Reference: `tensorflow/core/lib/hash/crc32c.h`.
    """
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _read_record(file, path, number):
    """The next record, or None at the end of the file."""
    head = file.read(_LENGTH.size)
    if not head:
        return None
    _check(path, number, head, _LENGTH.size, file.read(_CHECKSUM.size), "the length of")
    (length,) = _LENGTH.unpack(head)
    if length >= _TOO_LONG:
        raise ValueError(f"{path} must have records of at most {_TOO_LONG - 1:,} bytes; record {number} claims {length:,}.")
    data = file.read(length)
    _check(path, number, data, length, file.read(_CHECKSUM.size), "the bytes of")
    return data


def _check(path, number, data, length, checksum, what):
    if len(data) < length or len(checksum) < _CHECKSUM.size:
        raise ValueError(f"{path} must have complete records; it ends within record {number}.")
    if _CHECKSUM.unpack(checksum)[0] != masked_crc32c(data):
        raise ValueError(f"{path} must have matching checksums; that of {what} record {number} does not match.")


def _is_gzip(path):
    return str(path).endswith(".gz")


def _compressed(raw, path):
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if _is_gzip(path) else contextlib.nullcontext(raw)


_OF_TOKENS = ("input_ids", "input_mask", "segment_ids")
_OF_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def write_pretraining_records(path, batches, max_predictions, pad_id=0):
    """Write batches in the format of Google's files.

    Args:
        path: a path; compressed if it ends in `.gz`.
        batches: an iterable of batches, see `PretrainingBatches`; single segments get the next-sentence label 0.
        max_predictions: room for predictions per example in the file.
        pad_id: the id of the padding token.

    Raises:
        ValueError: an example has more predictions than that.
    """
    write_records(path, (encode_example(features) for batch in batches for features in _examples(batch, max_predictions, pad_id)))


def read_pretraining_records(path):
    """The examples of a file, in order.

    Args:
        path: a path; compressed if it ends in `.gz`.

    Yields:
        A dictionary from the name of a feature to its array: int64, `masked_lm_weights` float32.

    Raises:
        ValueError: the file is damaged, or a record is not a pretraining example.
    """
    for number, record in enumerate(read_records(path)):
        try:
            features = decode_example(record)
        except ValueError as error:
            raise ValueError(f"{path} must have examples; in record {number}, {error}") from None
        _check_store(path, number, features)
        yield features


def pretraining_batch(examples, next_sentence=True):
    """Examples as a batch that a model trains on.

    Args:
        examples: dictionaries from `read_pretraining_records`, of equal lengths.
        next_sentence: whether the model has a head for the next-sentence label.

    Returns:
        `((tokens, segments, chosen), (labels, next))` or `((tokens, segments, chosen), labels)`, int32, see
        `PretrainingBatches.batch`; labels are the tokens before masking, `(batch, length, 1)`.
    """
    stacked = {name: np.stack([example[name] for example in examples]) for name in (*_OF_TOKENS, *_OF_PREDICTIONS)}
    tokens, segments = stacked["input_ids"].astype("int32"), stacked["segment_ids"].astype("int32")
    labels, chosen = tokens.copy(), np.zeros_like(tokens)
    rows, slots = np.nonzero(stacked["masked_lm_weights"])
    positions = stacked["masked_lm_positions"][rows, slots]
    labels[rows, positions] = stacked["masked_lm_ids"][rows, slots]
    chosen[rows, positions] = 1
    x, y = (tokens, segments, chosen), labels[..., None]
    if not next_sentence:
        return x, y
    return x, (y, np.stack([example["next_sentence_labels"] for example in examples]).astype("int32"))


def _examples(batch, max_predictions, pad_id):
    (tokens, segments, chosen), y = batch
    labels, is_random = y if isinstance(y, tuple) else (y, np.zeros((len(tokens), 1), "int32"))
    for row in range(len(tokens)):
        positions = np.flatnonzero(chosen[row])
        if len(positions) > max_predictions:
            raise ValueError(f"an example may have at most {max_predictions} predictions; got {len(positions)}.")
        room = (0, max_predictions - len(positions))
        yield {
            "input_ids": tokens[row],
            "input_mask": (labels[row, :, 0] != pad_id).astype("int32"),
            "segment_ids": segments[row],
            "masked_lm_positions": np.pad(positions, room),
            "masked_lm_ids": np.pad(labels[row, positions, 0], room),
            "masked_lm_weights": np.pad(np.ones(len(positions), "float32"), room),
            "next_sentence_labels": is_random[row],
        }


def _check_store(path, number, features):
    for names in (_OF_TOKENS, _OF_PREDICTIONS, ("next_sentence_labels",)):
        for name in names:
            if not isinstance(features.get(name), np.ndarray):
                raise ValueError(f"{path} must have pretraining examples; record {number} lacks the integers {name}.")
            if name != "masked_lm_weights" and features[name].dtype.kind == "f":
                raise ValueError(f"{path}: {name} of record {number} must be integers; got floats.")
            size = 1 if len(names) == 1 else len(features[names[0]])
            if len(features[name]) != size:
                raise ValueError(f"{path}: {name} of record {number} must have {size} values; got {len(features[name])}.")
    positions, length = features["masked_lm_positions"], len(features["input_ids"])
    if len(positions) and not (positions.min() >= 0 and positions.max() < length):
        raise ValueError(
            f"{path}: positions of record {number} must be in 0 to {length - 1}; got {positions.min()} to {positions.max()}."
        )
