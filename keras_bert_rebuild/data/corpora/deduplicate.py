"""Remove documents and passages that repeat an earlier one, exactly or nearly, from a token store."""

import functools
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.min_hash import band_shape, continuations, shingles, similarity_of, sums_of_products
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.sketches import Sketches, SketchesOfSeveral, make_sketcher, shard_arrays
from keras_bert_rebuild.data.corpora.store_files import write_shard
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.corpora.worker_pool import mapped
from keras_bert_rebuild.text.vocabulary import TOKEN_UNK


def exact_duplicates(hashes, candidates, start=0):
    """For every candidate that repeats an earlier text, the first text with the same hash.

    Hashes have 64 bits: two different texts have the same hash about once in 10¹⁹ pairs.

    Args:
        hashes: hashes of all texts, uint64 `(texts,)`.
        candidates: the indices of the texts to compare, ascending.
        start: texts with an index below this are always retained.

    Returns:
        The candidates that repeat an earlier text, ascending, and for each the index of the first such text.
    """
    _, first, which = np.unique(hashes[candidates], return_index=True, return_inverse=True)
    origin = first[which]
    repeats = np.flatnonzero((origin < np.arange(len(candidates))) & (candidates >= start))
    return candidates[repeats], candidates[origin[repeats]]


def near_duplicates(bands, candidates, similar, start=0):
    """The texts that are similar to an earlier, retained text.

    Texts are processed in order. Each is compared with the earlier retained texts that share a band with it, and retained if none
    of these is similar. So every removed text is similar to a retained one; in a chain of texts, each similar to the next, every
    second one may be retained.

    Args:
        bands: an iterable that can be iterated twice: for every band the keys of all texts, uint64 `(texts,)`.
        candidates: the indices of the texts to compare, ascending.
        similar: a function of the indices of two texts that share a band, the earlier one first: whether one repeats the other.
        start: texts with an index below this are always retained.

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
        earlier = sorted({other for band, group in of_text for other in staying[band].get(group, ())}) if text >= start else ()
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


DEDUPLICATE = ("no", "exact", "near")

# Passages of fewer words ("Yes.", a heading) are only removed with their document.
MIN_WORDS = 8

_EXAMPLE_TOKENS = 60
# Shingle sets held in memory; that of a long document may have megabytes.
_SETS = 64


@dataclass(frozen=True)
class Removed:
    """Texts that repeat other texts."""

    texts: np.ndarray
    """Their indices, ascending."""

    origins: np.ndarray
    """For each, the index of the retained text that it repeats."""


class Duplicates:
    """The repeated documents of a corpus, and the repeated passages of the other documents.

    Args:
        store: a `TokenStore` or a `MixedCorpus` of several.
        sketches: its `Sketches`.
        similarity: documents and passages whose Jaccard similarity with an earlier one is at least this are removed too; None to
            remove exact duplicates only.
        start: documents with an index below this are always retained.

    Attributes:
        found: `Removed` by `(unit, kind)`, "documents" or "passages" and "exact" or "near".
        passages_stay: whether each passage is retained, bool `(passages,)`.
    """

    def __init__(self, store, sketches, similarity=None, start=0):
        self.store, self.similarity = store, similarity
        self.passage_starts = np.asarray(store.passage_starts)
        self.document_starts = np.asarray(store.document_starts)
        self._continues = continuations(store.vocabulary)
        self.firsts = np.searchsorted(self.passage_starts, self.document_starts)
        self._start = {"documents": start, "passages": int(self.firsts[start])}
        hashes, words = sketches.hashes(), sketches.words()
        self.found = {}
        of_documents = sums_of_products(hashes, self.firsts[:-1], self.firsts[1:])
        some_words = np.add.reduceat(words, self.firsts[:-1]) >= MIN_WORDS
        staying = self._decide("documents", np.ones(len(some_words), bool), of_documents, some_words, sketches)
        inside = np.repeat(staying, np.diff(self.firsts))
        longer = words >= MIN_WORDS
        self.passages_stay = self._decide("passages", inside & longer, hashes, longer, sketches) & inside

    def _decide(self, unit, compared, hashes, some_words, sketches):
        """Record which of the compared texts are removed; returns for every text whether it is retained."""
        staying = np.ones(len(compared), bool)
        exact = Removed(*exact_duplicates(hashes, np.flatnonzero(compared), self._start[unit]))
        staying[exact.texts] = False
        self.found[unit, "exact"] = exact
        if self.similarity is not None:
            bands = sketches.document_bands if unit == "documents" else sketches.passage_bands
            sets = functools.lru_cache(_SETS)(lambda text: self._shingles(unit, text))
            near = Removed(
                *near_duplicates(
                    bands,
                    np.flatnonzero(compared & staying & some_words),
                    lambda one, other: similarity_of(sets(one), sets(other)) >= self.similarity,
                    self._start[unit],
                )
            )
            staying[near.texts] = False
            self.found[unit, "near"] = near
        return staying

    def _shingles(self, unit, text):
        """The distinct shingles of a document or a passage, ascending."""
        first, stop = (text, text + 1) if unit == "passages" else self.firsts[text : text + 2]
        starts = self.passage_starts[first : stop + 1]
        ids = self.store.ids_at(np.arange(starts[0], starts[-1]))
        return np.unique(shingles(ids, starts - starts[0], self._continues)[0])

    def begins(self):
        """Whether a document begins at a retained passage, also since the passage before it was removed, bool `(passages,)`."""
        begins = np.zeros(len(self.passages_stay), bool)
        begins[self.firsts[:-1]] = True
        return self.passages_stay & (begins | ~np.concatenate([[True], self.passages_stay[:-1]]))

    def report(self):
        """What is removed, by unit and kind: the number of texts and tokens, and the first removed and retained text."""
        units = {}
        for (unit, kind), removed in self.found.items():
            starts = self.document_starts if unit == "documents" else self.passage_starts
            entry = {"texts": len(removed.texts), "tokens": int((starts[removed.texts + 1] - starts[removed.texts]).sum())}
            if len(removed.texts):
                first = removed.texts[0], removed.origins[0]
                entry["example"] = dict(zip(("removed", "stays"), (self._text(*starts[i : i + 2]) for i in first), strict=True))
            units.setdefault(unit, {})[kind] = entry
        return units

    def _text(self, start, stop):
        tokens = [self.store.vocabulary[i] for i in self.store.ids_at(np.arange(start, min(stop, start + _EXAMPLE_TOKENS)))]
        return " ".join(tokens).replace(" ##", "") + (" ..." if stop - start > _EXAMPLE_TOKENS else "")


def make_shard_filter(tokens, output, unknown):
    """Make a function that writes a shard without the removed texts.

    Args:
        tokens: the folder of a token store.
        output: the folder to write to.
        unknown: the id of `[UNK]`.

    Returns:
        A function from `(number, stays, begins)`, where `stays` says for each passage whether it is retained and `begins` whether
        a document begins there, to the record of the shard for the index.
    """
    tokens, output = Path(tokens), Path(output)

    def write(task):
        number, stays, begins = task
        ids, passages, _ = shard_arrays(tokens, number)
        lengths = np.diff(passages)
        starts = np.concatenate([[0], np.cumsum(lengths[stays])]).astype("int64")
        arrays = {
            "ids": np.asarray(ids)[np.repeat(stays, lengths)],
            "passages": starts,
            "documents": np.unique(np.append(starts[:-1][begins[stays]], starts[-1])),
        }
        return write_shard(output, number, arrays, unknown)

    return write


def deduplicate(tokens, output, scratch, similarity, workers, apart_from=()):
    """Write the shards of a token store without duplicate documents and passages.

    Args:
        tokens: the folder of the store.
        output: the folder for the new shards, which have the numbers of the old ones.
        scratch: a folder for intermediate files; an interrupted call resumes from them.
        similarity: the Jaccard similarity from which texts are near duplicates, in [0.5, 1); None removes exact duplicates only.
        workers: number of processes.
        apart_from: folders of other stores with the same vocabulary; texts that repeat one of theirs are removed too.

    Returns:
        The records of the shards, in order, and the report as plain values.
    """
    shape = (0, 0) if similarity is None else band_shape(similarity)
    stores = [TokenStore(folder) for folder in (*apart_from, tokens)]
    sketches = SketchesOfSeveral([_sketched(store, Path(scratch) / str(i), shape, workers) for i, store in enumerate(stores)])
    own, all_of = stores[-1], MixedCorpus(stores, [1] * len(stores))
    start = len(all_of.document_starts) - len(own.document_starts)
    duplicates = Duplicates(all_of, sketches, similarity, start)
    first_own = int(duplicates.firsts[start])
    stays, begins = duplicates.passages_stay[first_own:], duplicates.begins()[first_own:]
    starts = own.passage_starts[:-1]

    def tasks():
        for number, first, count in own.shards(empty=True):
            passages = slice(*np.searchsorted(starts, [first, first + count]))
            yield number, stays[passages], begins[passages]

    unknown = own.vocabulary.index(TOKEN_UNK)
    with closing(mapped(make_shard_filter, (str(tokens), str(output), unknown), tasks(), workers)) as records:
        return sorted(records, key=lambda record: record["number"]), duplicates.report()


def _sketched(store, folder, shape, workers):
    folder.mkdir(parents=True, exist_ok=True)
    arguments = (str(store.path), str(folder), store.vocabulary, shape)
    numbers = (number for number, _, _ in store.shards())
    with closing(mapped(make_sketcher, arguments, numbers, workers)) as sketched:
        for _ in sketched:
            pass
    return Sketches(folder, store, shape)
