"""Google's tokenizer for batches of texts."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from keras_bert_rebuild.text.added_tokens import checked_added_tokens, with_added_tokens
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer, strings
from keras_bert_rebuild.text.json_file import json_object
from keras_bert_rebuild.text.piece_table import PieceTable
from keras_bert_rebuild.text.tokenizer_damage import reads_tokenizer_files
from keras_bert_rebuild.text.tokens import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary


class WordPieceTokenizer(BatchTokenizer):
    """Cut texts into the pieces of a vocabulary exactly as Google's BERT does, many at a time.

    A word that does not come out whole, or has more than 200 characters, is one `[UNK]`. The ids are the same on every machine.
    keras_bert's `Tokenizer` differs in unknown words and goes one text at a time.

    Args:
        vocabulary: a dictionary from token to id, a list of tokens, or the path of a vocab.txt.
        cased: keep case and accents; None: as the vocabulary has upper-case letters or not.
        added_tokens: tokens of the vocabulary that stand for themselves wherever they are written in a text, in any case where case
            is not kept.
        fast: cut new words with tensorflow-text; None: where it is installed and TensorFlow is running already.

    Raises:
        ValueError: `[UNK]`, `[CLS]`, `[SEP]`, padding (`[PAD]` or the empty token) or an added token is not in the vocabulary.

    Example:

    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "!"])
    >>> tokenizer.encode_batch(["Unaffable!", "Why"], return_offsets=True, pad_to="longest").ids.tolist()
    [[2, 5, 6, 7, 8, 3], [2, 1, 3, 0, 0, 0]]

    Reference: Devlin et al., 2019, section 3; `tokenization.py` of google-research/bert.
    """

    def __init__(
        self,
        vocabulary: dict[str, int] | Sequence[str] | str | Path,
        cased: bool | None = None,
        added_tokens: Sequence[str] = (),
        fast: bool | None = None,
    ) -> None:
        if isinstance(vocabulary, (str, Path)):
            vocabulary = load_vocabulary(vocabulary)
        elif not isinstance(vocabulary, dict):
            vocabulary = {token: i for i, token in enumerate(vocabulary)}
        self.vocabulary = vocabulary
        self.cased = is_cased(set(vocabulary).difference(added_tokens)) if cased is None else bool(cased)
        self.added_tokens = checked_added_tokens(added_tokens, vocabulary)
        self._fast = fast
        self.tokens = {i: token for token, i in vocabulary.items()}
        pad = GOOGLE_PAD if GOOGLE_PAD in vocabulary else TOKEN_PAD
        ids = {token: vocabulary.get(token) for token in (pad, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP)}
        missing = [token or GOOGLE_PAD for token, i in ids.items() if i is None]
        if missing:
            raise ValueError(f"a vocabulary must have [PAD], [UNK], [CLS] and [SEP]; got one without {missing}.")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (vocabulary[token] for token in ids)
        self.mask_id = vocabulary.get(TOKEN_MASK)
        self._table = None

    @classmethod
    @reads_tokenizer_files
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with vocab.txt, or with the tokenizer.json of a WordPiece model, or the path of a vocab.txt. Whether case
                is kept is read from tokenizer_config.json where there is one, and tokens that were added from the files beside it.
            options: `fast`, or `added_tokens` and `cased` to overrule the files.
        """
        path = Path(path)
        folder, vocabulary = (path.parent, path) if path.is_file() else (path, path / "vocab.txt")
        if "cased" not in options:
            lower = json_object(folder / "tokenizer_config.json").get("do_lower_case")
            options["cased"] = None if lower is None else not lower
        if vocabulary.is_file():
            tokens = load_vocabulary(vocabulary)
        elif (folder / "tokenizer.json").is_file():
            model = json_object(folder / "tokenizer.json").get("model") or {}
            if (kind := model.get("type")) != "WordPiece":
                raise ValueError(f"a WordPiece tokenizer must be at {path}; tokenizer.json holds one of type {kind!r}.")
            tokens = model["vocab"]
        else:
            raise ValueError(f"a vocab.txt, or a folder with one, must be at {path}; there is none.")
        tokens, added = with_added_tokens(tokens, folder)
        return cls(tokens, **{"added_tokens": added, **options})

    @property
    def any_case(self) -> bool:
        """Whether the case that added tokens are written in does not matter, as that of other words."""
        return not self.cased

    def __reduce__(self):
        return type(self), (self.vocabulary, self.cased, self.added_tokens, self._fast)

    def add_tokens(self, tokens: Sequence[str]) -> Self:
        """A tokenizer that knows more tokens; they get the next ids.

        A word that Google's algorithm leaves whole becomes a piece like the others, and so does a piece with `##`. Any other token
        (`C++`, `<date>`) stands for itself wherever it is written in a text. `vocabulary_surgery.add_tokens` gives a model the rows
        for them.

        Args:
            tokens: strings; those that are known already change nothing.
        """
        new = [token for token in dict.fromkeys(strings("tokens", tokens)) if token not in self.vocabulary]
        following = max(self.vocabulary.values()) + 1
        vocabulary = {**self.vocabulary, **{token: following + i for i, token in enumerate(new)}}
        table = PieceTable(vocabulary, self.unk_id, self.cased)
        words = [token for token in new if not token.startswith("##")]
        literal = [token for token in words if table.encode([token], False).ids.tolist() != [vocabulary[token]]]
        return type(self)(vocabulary, self.cased, (*self.added_tokens, *literal), self._fast)

    def _encode_texts(self, texts, places, are_words):
        if self._table is None:
            self._table = PieceTable(self.vocabulary, self.unk_id, self.cased, self._tensorflow())
        return self._table.encode(texts, places)

    def _join(self, ids):
        """Pieces joined to words, a space between words."""
        return " ".join(self.tokens[i] for i in ids).replace(" ##", "")

    def _tensorflow(self):
        """The way through tensorflow-text for many new words, or None."""
        if not (self._fast or (self._fast is None and "tensorflow" in sys.modules)):
            return None
        from keras_bert_rebuild.text.tensorflow_pieces import TensorFlowPieces
        from keras_bert_rebuild.text.tensorflow_wordpiece import is_available

        if not is_available():
            if self._fast:
                raise ValueError("fast=True needs tensorflow-text of TensorFlow's own version, which is not installed here.")
            return None

        # Ids that no token has, after a repeated line, are given to tokens that no text can have.
        tokens = [self.tokens.get(i) or f" {i}" for i in range(max(self.tokens) + 1)]
        return TensorFlowPieces(tokens, self.unk_id)
