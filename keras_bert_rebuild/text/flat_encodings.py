"""What the package tokenizers answers, as flat arrays."""

import itertools

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens


def flat_encodings(encodings, places):
    """The `FlatTokens` of `tokenizers.Encoding`s without special tokens around them.

    Args:
        encodings: a list, one a text.
        places: give starts, stops and words.
    """
    lengths = np.array([len(encoding) for encoding in encodings], np.int64)
    flat = FlatTokens(_joined([encoding.ids for encoding in encodings]).astype(np.int32), lengths)
    if places:
        offsets = _joined([itertools.chain.from_iterable(encoding.offsets) for encoding in encodings]).reshape(-1, 2)
        flat.starts, flat.stops = offsets[:, 0].copy(), offsets[:, 1].copy()
        flat.words = _joined([encoding.word_ids for encoding in encodings])
    return flat


def _joined(columns):
    return np.fromiter(itertools.chain.from_iterable(columns), np.int64)
