"""Which of many texts repeat an earlier one, exactly or nearly, in memory that does not grow with the texts."""

from collections import defaultdict

import numpy as np


def exact_duplicates(hashes, candidates, given=0):
    """The first text with the same hash, for every candidate.

    Hashes have 64 bits: one of two different texts is taken for the other about once in 10¹⁹ pairs.

    Args:
        hashes: of all texts, uint64 `(texts,)`.
        candidates: the numbers of those to compare, ascending.
        given: the texts before this number all stay.

    Returns:
        The candidates that repeat an earlier one, ascending, and the number of the first such text for each.
    """
    _, first, which = np.unique(hashes[candidates], return_index=True, return_inverse=True)
    origin = first[which]
    repeats = np.flatnonzero((origin < np.arange(len(candidates))) & (candidates >= given))
    return candidates[repeats], candidates[origin[repeats]]


def near_duplicates(bands, candidates, similar, given=0):
    """The texts that are similar to an earlier one that stays.

    Texts are taken in order. One is compared with the earlier ones that share a band with it and stay; if none is similar, it
    stays. So every text that goes has a similar one that stays, and in a chain of texts, each similar to the next, every second
    one may stay.

    Args:
        bands: an iterable that can be read twice: for every band the keys of all texts, uint64 `(texts,)`.
        candidates: the numbers of those to compare, ascending.
        similar: a function of the numbers of two texts that share a band, the earlier one first: whether one repeats the other.
        given: the texts before this number all stay.

    Returns:
        The numbers of the texts that go, ascending, and for each that of the text that stays.
    """
    shared = np.zeros(len(candidates), bool)
    for keys in bands:
        shared |= _counts(keys[candidates])[0] > 1
    texts = candidates[shared]
    # Only texts that share a band with another one are remembered; most share none.
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
    """For every key how often it occurs, and a number that equal ones share."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which], which
