"""Many stretches of text cut into pieces at once by tensorflow-text."""

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, concatenate, restarted
from keras_bert_rebuild.text.google_normalization import CONTEXT, CharacterTable
from keras_bert_rebuild.text.tensorflow_wordpiece import TensorFlowWordPiece

# Stretches of one line: a string costs as much as some fifty characters.
STRETCHES = 32

_UNSEEN, _IN_CONTEXT = 255, 254


class TensorFlowPieces:
    """From stretches of text without spaces to their tokens.

    tensorflow-text says where in the normalised text a token stands. How many bytes a character becomes is known, and leads
    back to the text; where it does not, the slow way is taken.

    Args:
        tokens: the vocabulary in the order of the ids.
        unknown_id: the id of `[UNK]`.
        cased: keep case and accents.
        slow: from a list of texts to their `FlatTokens`.
    """

    def __init__(self, tokens, unknown_id, cased, slow):
        import tensorflow as tf

        exact = TensorFlowWordPiece(tokens, tokens[unknown_id], cased)
        self._constant = tf.constant
        self._encode = tf.function(exact.with_offsets, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._slow = slow
        self._characters = CharacterTable(cased)
        self._sizes = np.full(0x110000, _UNSEEN, np.uint8)
        self._continues = np.array([token.startswith("##") for token in tokens])

    def __call__(self, stretches):
        """The tokens of stretches, a `FlatTokens`; None if one of them is not Unicode text."""
        lines = [" ".join(stretches[i : i + STRETCHES]) for i in range(0, len(stretches), STRETCHES)]
        try:
            strings = [line.encode() for line in lines]
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        flat = self._of_lines(lines, strings)
        # Every line and every stretch has a space behind it, which the lengths count.
        sizes = np.fromiter(map(len, stretches), np.int64, len(stretches)) + 1
        lengths = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
        places = flat.starts + np.repeat(np.cumsum(lengths) - lengths, flat.lengths)
        owners = np.repeat(np.arange(len(stretches)), sizes)[places]
        per_stretch = np.bincount(owners, minlength=len(stretches)).astype(np.int64)
        first = np.cumsum(per_stretch) - per_stretch
        shift = (np.cumsum(sizes) - sizes)[owners] - (places - flat.starts)
        words = flat.words - np.repeat(np.append(flat.words, 0)[first], per_stretch)
        return FlatTokens(flat.ids, per_stretch, flat.starts - shift, flat.stops - shift, words)

    def _of_lines(self, lines, strings):
        ids, starts, stops, sizes = self._encode(self._constant(strings))
        flat = FlatTokens(ids.flat_values.numpy(), ids.row_lengths().numpy())
        followed, origins, before = self._origins(lines, sizes.numpy())
        mine = np.repeat(followed, flat.lengths)
        # Where a line cannot be followed any place will do.
        before = np.repeat(before, flat.lengths)
        flat.starts = origins[np.where(mine, before + starts.flat_values.numpy(), 0)]
        flat.stops = origins[np.where(mine, before + stops.flat_values.numpy() - 1, 0)] + 1
        words = np.cumsum(~self._continues[flat.ids])
        flat.words = words - np.repeat(np.append(0, words)[flat.first], flat.lengths) - 1
        if followed.all():
            return flat
        slow = self._slow([line for line, fine in zip(lines, followed, strict=True) if not fine])
        order = np.concatenate([np.flatnonzero(followed), np.flatnonzero(~followed)])
        return concatenate([flat.take(np.flatnonzero(followed)), slow]).take(np.argsort(order))

    def _origins(self, lines, sizes):
        """For every byte of the normalised lines the character of its line that it came from.

        Returns:
            Which lines that holds for `(lines,)`; the characters `(bytes,)`; where among them every line begins `(lines,)`.
        """
        codes = np.frombuffer("".join(lines).encode("utf-32-le"), np.uint32)
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        each = self._sizes[codes]
        if (each == _UNSEEN).any():
            for code in np.unique(codes[each == _UNSEEN]).tolist():
                self._sizes[code] = self._size(code)
            each = self._sizes[codes]
        behind = np.append(0, np.cumsum(each, dtype=np.int64))
        first = np.cumsum(lengths) - lengths
        total = behind[first + lengths] - behind[first]
        context = np.append(0, np.cumsum(each == _IN_CONTEXT))
        followed = (total == sizes) & (context[first + lengths] == context[first])
        numbers = restarted(np.ones(len(codes), np.int64), first, lengths)
        return followed, np.append(np.repeat(numbers, each), 0), behind[first]

    def _size(self, code):
        """The bytes that a character becomes."""
        normalised = self._characters[code]
        return _IN_CONTEXT if normalised == CONTEXT else len((normalised.replace(" ", "") or normalised[:1]).encode())
