"""Google's tokenizer for batches of texts."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

from keras_bert_rebuild.text import encoding as rows_of
from keras_bert_rebuild.text.flat_tokens import concatenate
from keras_bert_rebuild.text.piece_table import PieceTable
from keras_bert_rebuild.text.segmented import LiteralTokens, encode_words
from keras_bert_rebuild.text.tokens import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary
from keras_bert_rebuild.text.windows import has_max_context, window_rows

# Texts that go through at once, so that what is computed on the way stays small.
SLICE = 1024


class WordPieceTokenizer:
    """Cut texts into the pieces of a vocabulary exactly as Google's BERT does, many at a time.

    A word that does not come out whole, or has more than 200 characters, is one `[UNK]`. The ids are the same on every machine.
    keras_bert's `Tokenizer` differs in unknown words and goes one text at a time.

    Args:
        vocabulary: a dictionary from token to id, a list of tokens, or the path of a vocab.txt.
        cased: keep case and accents; None: as the vocabulary has upper-case letters or not.
        added_tokens: tokens that stand for themselves wherever they are written in a text.
        fast: cut new words with tensorflow-text; None: where it is installed and TensorFlow is running already.

    Raises:
        ValueError: `[UNK]`, `[CLS]`, `[SEP]` or padding (`[PAD]` or the empty token) is not in the vocabulary.

    Example:

    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "!"])
    >>> tokenizer.encode_batch(["Unaffable!", "Why"], return_offsets=True).ids.tolist()
    [[2, 5, 6, 7, 8, 3], [2, 1, 3, 0, 0, 0]]

    Reference: Devlin et al., 2019, section 3; `tokenization.py` of google-research/bert.
    """

    def __init__(self, vocabulary, cased=None, added_tokens=(), fast=None):
        if isinstance(vocabulary, (str, Path)):
            vocabulary = load_vocabulary(vocabulary)
        elif not isinstance(vocabulary, dict):
            vocabulary = {token: i for i, token in enumerate(vocabulary)}
        self.vocabulary = vocabulary
        self.cased = is_cased(vocabulary) if cased is None else bool(cased)
        self.added_tokens = tuple(added_tokens)
        self._fast = fast
        self.tokens = {i: token for token, i in vocabulary.items()}
        pad = GOOGLE_PAD if GOOGLE_PAD in vocabulary else TOKEN_PAD
        ids = {token: vocabulary.get(token) for token in (pad, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP)}
        missing = [token or GOOGLE_PAD for token, i in ids.items() if i is None]
        if missing:
            raise ValueError(f"a vocabulary must have [PAD], [UNK], [CLS] and [SEP]; got one without {missing}.")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = ids.values()
        self.mask_id = vocabulary.get(TOKEN_MASK)
        self.special_ids = {i for i in (*ids.values(), self.mask_id) if i is not None}
        self._tables = {}

    @classmethod
    def from_pretrained(cls, path, **options):
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with vocab.txt, or with the tokenizer.json of a WordPiece model, or the path of a vocab.txt. Whether case
                is kept is read from tokenizer_config.json where there is one.
            options: `added_tokens`, `fast`, or `cased` to overrule the file.
        """
        path = Path(path)
        folder = path if path.is_dir() else path.parent
        vocabulary = path if path.is_file() else folder / "vocab.txt"
        settings = folder / "tokenizer_config.json"
        if "cased" not in options and settings.is_file():
            lower = json.loads(settings.read_text(encoding="utf-8")).get("do_lower_case")
            options["cased"] = None if lower is None else not lower
        if vocabulary.is_file():
            return cls(vocabulary, **options)
        if (folder / "tokenizer.json").is_file():
            model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")).get("model", {})
            if model.get("type") == "WordPiece":
                return cls(model["vocab"], **options)
            raise ValueError(f"a WordPiece tokenizer must be at {path}; tokenizer.json holds one of type {model.get('type')!r}.")
        raise ValueError(f"a vocab.txt, or a folder with one, must be at {path}; there is none.")

    def __reduce__(self):
        return type(self), (self.vocabulary, self.cased, self.added_tokens, self._fast)

    def __len__(self):
        return len(self.vocabulary)

    def encode_batch(
        self,
        texts,
        pairs=None,
        *,
        max_len=None,
        truncation="longest_first",
        pad_to="longest",
        return_offsets=False,
        is_pretokenized=False,
        special_tokens_in_text=False,
        stride=None,
    ):
        """Encode texts or pairs of texts.

        Args:
            texts: a list of strings; with `is_pretokenized` a list of lists of words.
            pairs: the second text of every pair, or None.
            max_len: tokens of a row at the most, special ones included; longer ones are cut.
            truncation: `longest_first` (Google's: from the end of the longer one, token by token), `only_first`, `only_second`.
            pad_to: `"longest"` row of the batch, a length, a list of lengths of which the least that holds all rows is taken, or
                None for lists of rows of their own lengths.
            return_offsets: give `offsets` and `word_ids`, too.
            is_pretokenized: texts are lists of words; `word_ids` then counts these and offsets are inside a word.
            special_tokens_in_text: `[MASK]`, `[SEP]` and the others written in a text are these tokens; else they are text, as is
                right for text by strangers.
            stride: instead of cutting, go over the long text (the first, or with pairs the one that `truncation` names) in windows
                that share so many tokens.

        Returns:
            An `Encoding`.

        Raises:
            ValueError: an argument does not fit, in one sentence.
        """
        self._check(texts, pairs, max_len, truncation, stride)
        places = return_offsets or is_pretokenized
        sides = [self._encode(side, places, is_pretokenized, special_tokens_in_text) for side in (texts, pairs) if side is not None]
        lengths = np.stack([side.lengths for side in sides], axis=1)
        room = None if max_len is None else max_len - 1 - len(sides)
        side = 1 if pairs is not None and truncation == "only_second" else 0
        if stride is None:
            rows = rows_of.whole_rows(lengths, room, truncation)
        else:
            left = np.full(len(lengths), room) if pairs is None else rows_of.remaining_room(lengths, room, side)
            rows = window_rows(lengths, left, side, stride)
        encoding = rows_of.assemble(sides, rows, (self.cls_id, self.sep_id, self.pad_id), pad_to, stride is not None)
        if stride is not None:
            encoding.max_context = _at_tokens(encoding, side, has_max_context(rows, side))
        return rows_of.without_padding(encoding) if pad_to is None else encoding

    def encode_flat(self, texts):
        """The ids of texts without special tokens, one text behind the other.

        Returns:
            Ids `(tokens,)`, int32, and how many every text has `(texts,)`, int64.
        """
        flat = self._encode(_list("texts", texts), False, False, False)
        return flat.ids, flat.lengths

    def tokenize(self, text):
        """The tokens of a text, without special ones, as strings."""
        return [self.tokens[i] for i in self.encode_flat([text])[0].tolist()]

    def decode(self, ids, skip_special_tokens=True):
        """A text for ids: pieces joined to words, a space between words.

        Args:
            ids: ids of one row.
            skip_special_tokens: leave out `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]` and `[UNK]`.

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        ids = np.asarray(ids).tolist()
        unknown = next((i for i in ids if i not in self.tokens), None)
        if unknown is not None:
            raise ValueError(f"ids must be in the vocabulary of {len(self)} tokens; got {unknown}.")
        kept = (self.tokens[i] for i in ids if not (skip_special_tokens and i in self.special_ids))
        return " ".join(kept).replace(" ##", "")

    def add_tokens(self, tokens):
        """A tokenizer that knows more tokens; they get the next ids.

        A word that Google's algorithm leaves whole becomes a piece like the others. Any other token (`C++`, `<date>`) stands for
        itself wherever it is written in a text. `vocabulary_surgery.add_tokens` gives a model the rows for them.

        Args:
            tokens: strings; those that are known already change nothing.
        """
        new = [token for token in dict.fromkeys(_texts("tokens", tokens)) if token not in self.vocabulary]
        following = max(self.vocabulary.values()) + 1
        vocabulary = {**self.vocabulary, **{token: following + i for i, token in enumerate(new)}}
        table = PieceTable(vocabulary, self.unk_id, self.cased, offsets=False)
        literal = [token for token in new if table.encode([token]).ids.tolist() != [vocabulary[token]]]
        return type(self)(vocabulary, self.cased, (*self.added_tokens, *literal), self._fast)

    def _encode(self, texts, places, is_pretokenized, special_tokens_in_text):
        if is_pretokenized:
            return encode_words(texts, lambda words: self._encode(words, places, False, special_tokens_in_text))
        texts = _texts("texts", texts)
        written = (*self.added_tokens, *((self.tokens[i] for i in sorted(self.special_ids)) if special_tokens_in_text else ()))
        literals = LiteralTokens({token: self.vocabulary[token] for token in written if token})
        slices = (texts[i : i + SLICE] for i in range(0, max(len(texts), 1), SLICE))
        return concatenate(literals.encode(part, self._table(places).encode) for part in slices)

    def _table(self, places):
        if places not in self._tables:
            self._tables[places] = PieceTable(self.vocabulary, self.unk_id, self.cased, places, self._tensorflow())
        return self._tables[places]

    def _tensorflow(self):
        """The way through tensorflow-text for much new text, or None."""
        running = self._fast or (self._fast is None and "tensorflow" in sys.modules)
        installed = running and importlib.util.find_spec("tensorflow_text") is not None
        if self._fast and not installed:
            raise ValueError("fast=True needs tensorflow-text, which is not installed here: pip install tensorflow-text.")
        if not installed:
            return None
        from keras_bert_rebuild.text.tensorflow_pieces import TensorFlowPieces

        # Ids that no token has, after a repeated line, are given to tokens that no text can have.
        tokens = [self.tokens.get(i) or f" {i}" for i in range(max(self.tokens) + 1)]
        slow = PieceTable(self.vocabulary, self.unk_id, self.cased, offsets=True)
        return TensorFlowPieces(tokens, self.unk_id, self.cased, slow.encode)

    @staticmethod
    def _check(texts, pairs, max_len, truncation, stride):
        _list("texts", texts)
        if pairs is not None and len(_list("pairs", pairs)) != len(texts):
            raise ValueError(f"pairs must have a text for each of the {len(texts)} texts; got {len(pairs)}.")
        special = 2 if pairs is None else 3
        if max_len is not None and max_len < special:
            kind = "one text" if pairs is None else "a pair"
            raise ValueError(f"max_len must be at least {special} for {kind}, to hold [CLS] and [SEP]; got {max_len}.")
        if truncation not in rows_of.TRUNCATIONS or (pairs is None and truncation == "only_second"):
            raise ValueError(f"truncation must be {' or '.join(rows_of.TRUNCATIONS)}, the last with pairs; got {truncation!r}.")
        if stride is not None and (max_len is None or stride < 0 or (pairs is not None and truncation == "longest_first")):
            raise ValueError(
                "stride must be 0 or more tokens and needs max_len, and with pairs a truncation that names the text to cut into "
                f"windows; got stride {stride}, max_len {max_len}, truncation {truncation!r}."
            )


def _at_tokens(encoding, side, values):
    """Values of the tokens of one side, at their places in the rows; False elsewhere."""
    placed = np.zeros(encoding.ids.shape, bool)
    placed[(encoding.positions >= 0) & (encoding.segments == side)] = np.concatenate(values) if values else []
    return placed


def _list(name, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise ValueError(f"{name} must be a list of texts; got {type(value).__name__} {str(value)[:40]!r}.")
    return value


def _texts(name, values):
    values = list(_list(name, values))
    wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise ValueError(f"{name} must be strings; number {wrong} is {type(values[wrong]).__name__} {str(values[wrong])[:40]!r}.")
    return values
