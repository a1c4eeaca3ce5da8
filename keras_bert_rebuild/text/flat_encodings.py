"""The encodings of the package tokenizers as flat arrays."""

import itertools

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens


def flat_encodings(encodings, with_offsets):
    """The `FlatTokens` of `tokenizers.Encoding`s without special tokens.

    Args:
        encodings: a list, one for each text.
        with_offsets: also return starts, stops and words.
    """
    lengths = np.array([len(encoding) for encoding in encodings], np.int64)
    flat = FlatTokens(_joined([encoding.ids for encoding in encodings]).astype(np.int32), lengths)
    if with_offsets:
        offsets = _joined([itertools.chain.from_iterable(encoding.offsets) for encoding in encodings]).reshape(-1, 2)
        flat.starts, flat.stops = offsets[:, 0].copy(), offsets[:, 1].copy()
        flat.words = _joined([encoding.word_ids for encoding in encodings])
    return flat


def _joined(columns):
    return np.fromiter(itertools.chain.from_iterable(columns), np.int64)
