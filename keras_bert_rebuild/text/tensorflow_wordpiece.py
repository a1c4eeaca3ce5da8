"""Google's WordPiece with tensorflow-text, in the graph of models and `tf.data` pipelines with text."""

from keras_bert_rebuild.text.normalization import CJK_BLOCKS
from keras_bert_rebuild.text.piece_table import MAX_WORD_CHARACTERS

# Characters that `BasicTokenizer` drops, except tab and line ends, in RE2 syntax.
DROPPED = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}\p{Cf}]"

# Category Z except the space: replacing the space as well takes three times as long.
SPACES = r"[\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]"

# Maximum number of bytes of a character.
MAX_WORD_BYTES = 4 * MAX_WORD_CHARACTERS

# A cheap test: a text without such a span has no word that is too long.
LONG_SPAN = rf"(?s).*[^ \t\n\r]{{{MAX_WORD_CHARACTERS + 1}}}.*"

# Punctuation as in `is_punctuation`, and CJK characters, for a character class.
PUNCTUATION = r"\p{P}$+<=>^`|~"
CJK = "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in CJK_BLOCKS)


def is_available():
    """Whether tensorflow-text can be imported; its version must match TensorFlow's."""
    try:
        import tensorflow as tf
    except ImportError:
        return False
    try:
        import tensorflow_text  # noqa: F401
    except (ImportError, tf.errors.NotFoundError):
        return False
    return True


class TensorFlowWordPiece:
    """Encodes strings with the operations of tensorflow-text.

    A model that takes text, as TensorFlow Serving runs it, has no Python: what a `PieceTable` computes must be operations of its
    graph. The ids are those of `WordPieceTokenizer`, except for characters that one of both Unicode versions lacks.

    Args:
        tokens: the vocabulary, in the order of the ids.
        unknown_token: `[UNK]`.
        settings: `WordPieceSettings`.
    """

    def __init__(self, tokens, unknown_token, settings):
        import tensorflow_text

        self._text = tensorflow_text
        self._settings = settings
        self._word_end = f"([{PUNCTUATION}{CJK if settings.tokenize_chinese_chars else ''}])"
        self._tokenizer = tensorflow_text.FastWordpieceTokenizer(
            _storable(tokens),
            unknown_token=unknown_token,
            max_bytes_per_word=MAX_WORD_BYTES,
            support_detokenization=False,
            # tensorflow-text makes words of CJK characters; if they are treated as letters, words are split here.
            no_pretokenization=not settings.tokenize_chinese_chars,
        )

    def normalise(self, texts):
        """Texts as `BasicTokenizer` has them before splitting at punctuation, `(texts,)`."""
        import tensorflow as tf

        texts = tf.strings.regex_replace(texts, DROPPED, "")
        texts = tf.strings.regex_replace(texts, SPACES, " ")
        if self._settings.do_lower_case:
            texts = tf.strings.lower(texts, encoding="utf-8")
        if self._settings.strips:
            texts = self._text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        is_long = tf.strings.regex_full_match(texts, LONG_SPAN)
        return tf.cond(tf.reduce_any(is_long), lambda: self._without_long_words(texts, is_long), lambda: texts)

    def __call__(self, texts):
        """Ids `(texts, tokens)`, a ragged int32 tensor, without special tokens.

        Args:
            texts: a string tensor `(texts,)` in UTF-8.
        """
        import tensorflow as tf

        texts = self.normalise(texts)
        if self._settings.tokenize_chinese_chars:
            return tf.cast(self._tokenizer.tokenize(texts), tf.int32)
        return tf.cast(self._tokenizer.tokenize(self._words(texts)).merge_dims(1, 2), tf.int32)

    def _words(self, texts):
        """The words of normalised texts `(texts, words)`, ragged."""
        import tensorflow as tf

        return tf.strings.split(tf.strings.regex_replace(texts, self._word_end, r" \1 "))

    def _without_long_words(self, texts, is_long):
        """Replace words too long for Google's algorithm by one that is too long for tensorflow-text's, where `is_long`."""
        import tensorflow as tf

        rows = tf.where(is_long)
        words = self._words(tf.gather_nd(texts, rows))
        lengths = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
        replaced = tf.where(lengths > MAX_WORD_CHARACTERS, "a" * (MAX_WORD_BYTES + 1), words.flat_values)
        joined = tf.strings.reduce_join(words.with_flat_values(replaced), axis=-1, separator=" ")
        return tf.tensor_scatter_nd_update(texts, rows, joined)


def _storable(tokens):
    """The tokens, but for those with a null character: normalisation removes it from texts, and tensorflow-text cannot store it."""
    return [f" {i}" if "\0" in token else token for i, token in enumerate(tokens)]
