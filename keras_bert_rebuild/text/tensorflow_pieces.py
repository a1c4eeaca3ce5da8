"""Many words split into pieces at once by tensorflow-text."""

import numpy as np

from keras_bert_rebuild.text.longest_match import MAX_WORD_CHARACTERS
from keras_bert_rebuild.text.tensorflow_wordpiece import MAX_WORD_BYTES


class TensorFlowPieces:
    """Splits words into their pieces.

    Args:
        tokens: the vocabulary in the order of the ids.
        unknown_id: the id of `[UNK]`.
    """

    def __init__(self, tokens, unknown_id):
        import tensorflow as tf
        import tensorflow_text

        tokenizer = tensorflow_text.FastWordpieceTokenizer(
            tokens,
            unknown_token=tokens[unknown_id],
            max_bytes_per_word=MAX_WORD_BYTES,
            no_pretokenization=True,
            support_detokenization=False,
        )

        def split(words):
            ids, _, stops = tokenizer.tokenize_with_offsets(words)
            return ids.flat_values, stops.flat_values, ids.row_lengths()

        # The graph retains the vocabulary; outside it, every call copies it.
        graph = tf.function(split, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._constant, self._cut = tf.constant, graph.get_concrete_function()
        self._unknown_id = unknown_id

    def __call__(self, words):
        """The ids of the pieces of words, their stops in the word, and the number of pieces of each word.

        Returns:
            Three arrays `(pieces,)`, `(pieces,)` and `(words,)`; None if one of the words is not Unicode text.
        """
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        try:
            strings = [word.encode() for word in words]
        except UnicodeEncodeError:  # a lone surrogate
            return None
        for i in np.flatnonzero(sizes > MAX_WORD_CHARACTERS).tolist():
            strings[i] = b"a" * (MAX_WORD_BYTES + 1)
        ids, stops, counts = (each.numpy() for each in self._cut(self._constant(strings)))
        # tensorflow-text counts bytes; the first byte of a character is not of the form 10xxxxxx.
        begins_character = (np.frombuffer(b"".join(strings), np.uint8) & 0xC0) != 0x80
        before = np.append(0, np.cumsum(begins_character))
        byte_sizes = np.fromiter(map(len, strings), np.int64, len(strings))
        begins = np.repeat(np.cumsum(byte_sizes) - byte_sizes, counts)
        stops = before[begins + stops] - before[begins]
        return ids, np.where(ids == self._unknown_id, np.repeat(sizes, counts), stops), counts
