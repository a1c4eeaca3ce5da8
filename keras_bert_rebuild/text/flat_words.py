"""The words of many texts, one behind the other, found by NumPy over code points."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.text.google_normalization import CONTEXT, normalised, spaced_in_context

# In place of the size of a form: not asked for yet, and depending on the neighbours.
_UNSEEN, _IN_CONTEXT = 255, 254

_SPACE = ord(" ")


@dataclass
class FlatWords:
    """Words as Google's `BasicTokenizer` has them; the last two are None unless places were asked for."""

    characters: np.ndarray
    """The code points of all words and of spaces between them, uint32."""

    begins: np.ndarray
    """Where every word begins among the characters `(words,)`."""

    stops: np.ndarray
    """The place behind its last character `(words,)`."""

    lengths: np.ndarray
    """Words of every text `(texts,)`, int64."""

    origins: np.ndarray | None = None
    """Where in all texts, a space before each, every character came from `(characters,)`."""

    texts: np.ndarray | None = None
    """Where in all texts, a space before each, every text begins `(texts,)`."""

    def strings(self, words):
        """Some words, by their indexes, as strings."""
        line = self.characters.tobytes().decode("utf-32-le", "surrogatepass")
        return [line[begin:stop] for begin, stop in zip(self.begins[words].tolist(), self.stops[words].tolist(), strict=True)]


class WordSplitter:
    """Normalise texts and split them into words.

    What a character becomes is looked up once, with spaces around it if it is a word of its own. The few whose form depends on
    their neighbours are looked at with all that stands between two spaces.

    Args:
        settings: `WordPieceSettings`.
    """

    def __init__(self, settings):
        self._settings = settings
        self._sizes = np.full(0x110000, _UNSEEN, np.uint8)
        self._first = np.zeros(0x110000, np.int32)
        # White space is the first form, and no other character has it.
        self._forms = np.array([_SPACE], np.uint32)

    def __call__(self, texts, places):
        """The words of texts, a `FlatWords`.

        Args:
            texts: a list of strings.
            places: say where the characters of words came from.
        """
        line = f" {' '.join(texts)} "
        codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        spaces = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
        first, sizes, forms, found = self._looked_up(line, codes)
        behind = np.cumsum(sizes)
        source = np.repeat(first + sizes - behind, sizes)
        source += np.arange(len(source))
        characters = forms.take(source)
        is_space = characters == _SPACE
        # A space is the first character and the last one.
        begins, stops = (np.flatnonzero(is_space[1:] != is_space[:-1]) + 1).reshape(-1, 2).T
        before = np.searchsorted(begins, behind[spaces])
        flat = FlatWords(characters, begins, stops, np.diff(before, prepend=0))
        if places:
            flat.texts = np.append(0, spaces)[:-1] + 1
            flat.origins = np.repeat(np.arange(len(codes)), sizes)
            for begin, origins in found:
                flat.origins[behind[begin] - len(origins) : behind[begin]] = np.add(origins, begin)
        return flat

    def _looked_up(self, line, codes):
        """Where among forms every character's begins, how long it is, the forms, and what depends on neighbours."""
        sizes = self._sizes.take(codes)
        if sizes.max() == _UNSEEN:
            unseen = codes[sizes == _UNSEEN]
            are_unseen = np.zeros(unseen.max() + 1, bool)
            are_unseen[unseen] = True
            self._learn(np.flatnonzero(are_unseen).tolist())
            sizes = self._sizes.take(codes)
        first = self._first.take(codes)
        if sizes.max() == _IN_CONTEXT:
            return self._in_context(line, first, sizes)
        return first, sizes.astype(np.int64), self._forms, []

    def _learn(self, codes):
        learned = []
        for code in codes:
            form = normalised(chr(code), self._settings)
            self._sizes[code] = _IN_CONTEXT if form == CONTEXT else len(form)
            if form != " ":
                self._first[code] = len(self._forms) + len(learned)
                learned += map(ord, form)
        self._forms = np.append(self._forms, np.array(learned, np.uint32))

    def _in_context(self, line, first, sizes):
        """The same, where what stands between two spaces has a form together; it is given to the first character."""
        white = np.flatnonzero((sizes == 1) & (first == 0))
        depending = np.unique(np.searchsorted(white, np.flatnonzero(sizes == _IN_CONTEXT)))
        sizes, learned, found = sizes.astype(np.int64), [], []
        for begin, end in zip((white[depending - 1] + 1).tolist(), white[depending].tolist(), strict=True):
            form, origins = spaced_in_context(line[begin:end], self._settings)
            first[begin] = len(self._forms) + len(learned)
            sizes[begin:end] = 0
            sizes[begin] = len(form)
            learned += map(ord, form)
            found.append((begin, origins))
        return first, sizes, np.append(self._forms, np.array(learned, np.uint32)), found
