"""Google's tokenizer for batches of texts, and its settings."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import AddedToken
from tokenizers.normalizers import BertNormalizer

from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.piece_table import PieceTable
from keras_bert_rebuild.text.segmented import rules_of, strings
from keras_bert_rebuild.text.tokenizer_folder import TokenizerFolder, reads_tokenizer_files
from keras_bert_rebuild.text.tokenizer_json import checked_vocabulary, described_rules, is_googles, row_tokens, section
from keras_bert_rebuild.text.vocabulary import (
    GOOGLE_PAD,
    TOKEN_CLS,
    TOKEN_MASK,
    TOKEN_PAD,
    TOKEN_SEP,
    TOKEN_UNK,
    Vocabulary,
    is_cased,
    load_vocabulary,
)


@dataclass(frozen=True)
class WordPieceSettings:
    """How texts are normalised before splitting; names as in tokenizer_config.json."""

    do_lower_case: bool = True
    """Lower-case texts."""

    strip_accents: bool | None = None
    """Decompose characters and drop nonspacing marks; None to do so if texts are lower-cased."""

    tokenize_chinese_chars: bool = True
    """Make every CJK ideograph a word of its own."""

    @property
    def strips(self) -> bool:
        """Whether accents are dropped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents


class WordPieceTokenizer(BatchTokenizer):
    """Splits texts into the pieces of a vocabulary exactly as Google's BERT does, many at a time.

    A word that cannot be split completely, or with more than 200 characters, is `[UNK]`. The ids are the same on every machine.
    keras_bert's `Tokenizer` treats unknown words differently and encodes one text at a time.

    Args:
        vocabulary: a dictionary from token to id, a list of tokens, or the path of a vocab.txt.
        cased: keep case; None if and only if the vocabulary has upper-case letters.
        added_tokens: tokens of the vocabulary that are matched verbatim in a text: strings, which are matched in the normalised
            text, or `tokenizers.AddedToken`s, with their `single_word`, `lstrip`, `rstrip`, `normalized` and `special`.
        strip_accents: decompose characters and drop accents; None if case is dropped.
        tokenize_chinese_chars: make every CJK ideograph a word.
        second_segment: segment of the second text of a pair; 0 for a model with a single segment, such as a RoBERTa with WordPiece.
        mask_takes_space: whether white space before a written `[MASK]` belongs to it; None for no.
        truncation_side: the end at which a text that is too long is cut, "right" or "left".

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
        added_tokens: Sequence[str | AddedToken] = (),
        *,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        second_segment: int = 1,
        mask_takes_space: bool | None = None,
        truncation_side: str = "right",
    ) -> None:
        if isinstance(vocabulary, (str, Path)):
            vocabulary = load_vocabulary(vocabulary)
        elif not isinstance(vocabulary, dict):
            vocabulary = {token: i for i, token in enumerate(vocabulary)}
        self._set_rows(second_segment, truncation_side)
        self.vocabulary = vocabulary
        self.rules = rules_of(added_tokens, vocabulary)
        self.added_tokens = tuple(self.rules)
        if cased is None:
            cased = is_cased(vocabulary if isinstance(vocabulary, Vocabulary) else set(vocabulary).difference(self.added_tokens))
        self.settings = WordPieceSettings(not bool(cased), strip_accents, bool(tokenize_chinese_chars))
        self.takes_space = (TOKEN_MASK,) if mask_takes_space else ()
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
            path: a folder with vocab.txt, or with the tokenizer.json of a WordPiece model, or the path of a vocab.txt. The handling
                of case, accents and CJK characters is read from tokenizer_config.json or tokenizer.json, and added tokens from the
                files next to it. If none of them specifies case, a vocabulary with upper-case letters keeps it, with a warning.
            options: arguments of the class that override the files.

        Raises:
            ValueError: there are no such files, they are damaged, or the rules are not Google's; `load_tokenizer` reads others.
        """
        folder = TokenizerFolder.of(path)
        where = folder.pipeline_path
        vocabulary = folder.path if folder.path.is_file() else folder.path / "vocab.txt"
        pipeline = _googles_pipeline(folder)
        if vocabulary.is_file():
            tokens = load_vocabulary(vocabulary)
        elif pipeline:
            tokens = checked_vocabulary(section(pipeline, "model", where), where)
        elif folder.pipeline:
            raise ValueError(
                f"expected a WordPiece tokenizer at {folder}; its tokenizer.json has one of type {folder.model_type!r}."
            )
        else:
            raise ValueError(f"expected a vocab.txt, or a folder with one, at {folder}; it does not exist.")
        tokens, added = folder.with_added_tokens(tokens)
        row = row_tokens(pipeline, where)
        arguments = {
            "cased": None,
            **_cleaning(folder, pipeline),
            "second_segment": 1 if row is None else row.second_segment,
            **{name: value for name, value in folder.row_settings(pipeline).items() if value is not None},
            "mask_takes_space": folder.mask_takes_space(TOKEN_MASK),
            "added_tokens": added,
            **options,
        }
        if arguments["cased"] is None and is_cased(set(tokens).difference(token.content for token in added)):
            warnings.warn(
                f"the files at {folder.folder} do not say whether the tokenizer is cased; since the vocabulary has upper-case "
                "letters, case and accents are retained (set cased=True or False to choose).",
                stacklevel=3,
            )
        return cls(tokens, **arguments)

    @property
    def pieces(self) -> dict[str, int]:
        """The tokens that words are split into: the vocabulary without the added tokens at its end, which are not part of the
        model's vocabulary."""
        last = max((i for token, i in self.vocabulary.items() if token not in self.rules), default=-1)
        return {token: i for token, i in self.vocabulary.items() if i <= last or token not in self.rules}

    @property
    def cased(self) -> bool:
        """Whether case is retained."""
        return not self.settings.do_lower_case

    def _arguments(self):
        return {
            "vocabulary": self.vocabulary,
            "cased": self.cased,
            "added_tokens": tuple(self.rules.values()),
            "strip_accents": self.settings.strip_accents,
            "tokenize_chinese_chars": self.settings.tokenize_chinese_chars,
            "second_segment": self.second_segment,
            "mask_takes_space": bool(self.takes_space),
            "truncation_side": self.truncation_side,
        }

    def add_tokens(self, tokens: Sequence[str]) -> Self:
        """A copy with additional tokens, which get the next ids.

        A word that Google's algorithm does not split becomes a regular piece, as does a piece with `##`. Any other token (`C++`,
        `<date>`) is matched verbatim in texts. `vocabulary_surgery.add_tokens` adds the rows to a model.

        Args:
            tokens: strings; known ones are ignored.

        Raises:
            ValueError: no text can have a token: nothing of it is left after normalisation, or texts have another form of the rest
                of a word, such as `##ing` instead of `##ING` in an uncased vocabulary.
        """
        new = [token for token in dict.fromkeys(strings("tokens", tokens)) if token not in self.vocabulary]
        never = [token for token in new if not self._may_occur(token)]
        if never:
            raise ValueError(f"tokens must be able to occur in normalised texts; got {', '.join(map(ascii, never))}.")
        following = max(self.vocabulary.values()) + 1
        vocabulary = {**self.vocabulary, **{token: following + i for i, token in enumerate(new)}}
        table = PieceTable({**self.pieces, **{token: vocabulary[token] for token in new}}, self.unk_id, self.settings)
        words = [token for token in new if not token.startswith("##")]
        literal = [token for token in words if table.encode([token], False).ids.tolist() != [vocabulary[token]]]
        return self.with_options(vocabulary=vocabulary, added_tokens=(*self.rules.values(), *literal))

    def _may_occur(self, token):
        """Whether texts can have a new token."""
        if not token.startswith("##"):
            return bool(self._normalizer().normalize_str(token))
        return PieceTable({"a": 1, token: 2}, 0, self.settings).encode([f"a{token[2:]}"], False).ids.tolist() == [1, 2]

    def _encode_texts(self, texts, with_offsets, are_words):
        if self._table is None:
            self._table = PieceTable(self.pieces, self.unk_id, self.settings)
        return self._table.encode(texts, with_offsets)

    def _normalizer(self):
        cleaned = self.settings
        return BertNormalizer(True, cleaned.tokenize_chinese_chars, cleaned.strip_accents, cleaned.do_lower_case)

    def _join(self, ids):
        """The text of pieces, with a space between words."""
        return " ".join(self.tokens[i] for i in ids).replace(" ##", "")


def settings_beside(vocabulary):
    """The arguments of a `WordPieceTokenizer` for case, accents and CJK characters from the files next to a vocab.txt.

    Args:
        vocabulary: a `Path`; a file of another name has no such files.

    Raises:
        ValueError: the files are damaged, or the rules in tokenizer.json are not Google's.
    """
    if vocabulary.name != "vocab.txt":
        return {}
    folder = TokenizerFolder(vocabulary)
    return _cleaning(folder, _googles_pipeline(folder))


def _googles_pipeline(folder):
    """The tokenizer.json of a folder if its model is WordPiece, else an empty dictionary; a ValueError if it has other rules."""
    if folder.model_type != "WordPiece":
        return {}
    if not is_googles(folder.pipeline, folder.pipeline_path):
        rules = described_rules(folder.pipeline, folder.pipeline_path)
        raise ValueError(f"a WordPieceTokenizer must have the rules of Google's BERT; {rules}: use load_tokenizer.")
    return folder.pipeline


def _cleaning(folder, pipeline):
    """What the files of a folder say of case, accents and CJK characters, as arguments of a `WordPieceTokenizer`."""
    settings = folder.cleaning_settings(section(pipeline, "normalizer", folder.pipeline_path))
    lower = settings.pop("do_lower_case", None)
    return settings if lower is None else {"cased": not lower, **settings}
