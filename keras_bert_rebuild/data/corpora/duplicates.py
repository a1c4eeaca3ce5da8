"""Texts that repeat an earlier one, exactly or nearly, found in memory that does not grow with the length of the texts."""

from collections import defaultdict

import numpy as np


def exact_duplicates(hashes, candidates, given=0):
    """For every candidate that repeats an earlier text, the first text with the same hash.

    Hashes have 64 bits: two different texts have the same hash about once in 10¹⁹ pairs.

    Args:
        hashes: hashes of all texts, uint64 `(texts,)`.
        candidates: the indices of the texts to compare, ascending.
        given: texts with an index below this are always retained.

    Returns:
        The candidates that repeat an earlier text, ascending, and for each the index of the first such text.
    """
    _, first, which = np.unique(hashes[candidates], return_index=True, return_inverse=True)
    origin = first[which]
    repeats = np.flatnonzero((origin < np.arange(len(candidates))) & (candidates >= given))
    return candidates[repeats], candidates[origin[repeats]]


def near_duplicates(bands, candidates, similar, given=0):
    """The texts that are similar to an earlier, retained text.

    Texts are processed in order. Each is compared with the earlier retained texts that share a band with it, and retained if none
    of these is similar. So every removed text is similar to a retained one; in a chain of texts, each similar to the next, every
    second one may be retained.

    Args:
        bands: an iterable that can be iterated twice: for every band the keys of all texts, uint64 `(texts,)`.
        candidates: the indices of the texts to compare, ascending.
        similar: a function of the indices of two texts that share a band, the earlier one first: whether one repeats the other.
        given: texts with an index below this are always retained.

    Returns:
        The indices of the removed texts, ascending, and for each the index of the retained text.
    """
    shared = np.zeros(len(candidates), bool)
    for keys in bands:
        shared |= _counts(keys[candidates])[0] > 1
    texts = candidates[shared]
    # Only texts that share a band with another text are stored; most share none.
    groups = []
    for keys in bands:
        counts, group = _counts(keys[texts])
        groups.append(np.where(counts > 1, group, -1))
    groups = np.stack(groups, axis=1) if groups else np.zeros((len(texts), 0), "int64")
    staying, gone, origins = [defaultdict(list) for _ in range(groups.shape[1])], [], []
    for text, row in zip(texts.tolist(), groups.tolist(), strict=True):
        of_text = [(band, group) for band, group in enumerate(row) if group >= 0]
        earlier = sorted({other for band, group in of_text for other in staying[band].get(group, ())}) if text >= given else ()
        origin = next((other for other in earlier if similar(other, text)), None)
        if origin is None:
            for band, group in of_text:
                staying[band][group].append(text)
        else:
            gone.append(text)
            origins.append(origin)
    return np.array(gone, "int64"), np.array(origins, "int64")


def _counts(keys):
    """For every key its number of occurrences, and an index that equal keys share."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which], which
