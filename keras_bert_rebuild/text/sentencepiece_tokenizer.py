"""ALBERT's, XLNet's, XLM-RoBERTa's and DeBERTa's tokenizers for batches of texts."""

import importlib.util
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import AddedToken, normalizers

from keras_bert_rebuild.files.reading import read_bytes
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.flat_tokens import FlatTokens
from keras_bert_rebuild.text.segmented import check_unicode, rules_of
from keras_bert_rebuild.text.sentencepiece_text import FAMILIES, QUOTES, SPACE, normalized, normalized_with_offsets, piece_offsets
from keras_bert_rebuild.text.tokenizer_folder import TokenizerFolder, reads_tokenizer_files

# In the table of ids: a special token that the model itself finds in texts.
_FOUND = -1


class SentencePieceTokenizer(BatchTokenizer):
    """Splits texts into the pieces of a SentencePiece model, many at a time, as ALBERT, XLNet, XLM-RoBERTa or DeBERTa does.

    Words, for `word_ids`, are separated by spaces. Needs the sentencepiece package.

    Args:
        model: the path of a spiece.model, sentencepiece.bpe.model or spm.model, or its bytes.
        family: `"albert"`: pairs `[CLS] A [SEP] B [SEP]`, lower-cased texts without accents; `"xlm_roberta"`: pairs
            `<s> A </s></s> B </s>`, all in segment 0, unchanged texts, ids one above the model's; `"deberta_v2"`: pairs as ALBERT,
            unchanged texts, the mask after all pieces; `"xlnet"`: pairs `A <sep> B <sep> <cls>`, texts without accents.
        lower: lower-case texts; None for the default of the family.
        strip_accents: decompose characters and drop accents; None for the default of the family.
        added_tokens: additional tokens, each with its id, that are matched verbatim in a text: strings or `tokenizers.AddedToken`s,
            with their flags.
        mask_takes_space: whether white space before a written mask belongs to it; None for the default, yes except for DeBERTa.
        second_segment: segment of the second text of a pair, 0 or 1; None for that of the family. With 0 all segments are 0.
        truncation_side: the end at which a text that is too long is cut, "right" or "left".

    Raises:
        ValueError: sentencepiece is not installed, the model is not of the family, or an added token has the id of another.

    Reference: Lan et al., 2020; Conneau et al., 2020; Kudo & Richardson, 2018 (https://arxiv.org/abs/1808.06226).
    """

    def __init__(
        self,
        model: bytes | str | os.PathLike[str],
        family: str,
        lower: bool | None = None,
        strip_accents: bool | None = None,
        added_tokens: Mapping[str | AddedToken, int] | None = None,
        mask_takes_space: bool | None = None,
        second_segment: int | None = None,
        truncation_side: str = "right",
    ) -> None:
        if family not in FAMILIES:
            raise ValueError(f"family must be {' or '.join(FAMILIES)}; got {family!r}.")
        self.family = family
        self._family = FAMILIES[family]
        self.lower = self._family.lower if lower is None else bool(lower)
        self.strip_accents = self._family.strip_accents if strip_accents is None else bool(strip_accents)
        if (self.lower or self.strip_accents) and not self._family.cleans:
            raise ValueError(f"family {family!r} must not change texts; got lower {lower}, strip_accents {strip_accents}.")
        self.separators = self._family.separators
        self._set_rows(self._family.second_segment if second_segment is None else second_segment, truncation_side)
        self.cls_last = self._family.cls_last
        self._model = _load(model)
        pieces = _vocabulary(self._model, self._family)
        by_id = sorted((added_tokens or {}).items(), key=lambda item: item[1])
        added = {token if isinstance(token, str) else token.content: i for token, i in by_id}
        self.vocabulary = {**pieces, **added}
        self.added_tokens = tuple(added)
        self.tokens = {i: token for token, i in self.vocabulary.items()}
        if "" in added or {**self.vocabulary, **pieces} != self.vocabulary or len(self.tokens) < len(self.vocabulary):
            raise ValueError(f"added_tokens must be strings with unique ids; got {added}.")
        self.rules = rules_of([token for token, _ in by_id], self.vocabulary)
        names = [getattr(self._family, name) for name in ("cls", "pad", "sep", "unk", "mask")]
        missing = [name for name in names if name not in self.vocabulary]
        if missing:
            raise ValueError(f"a model of family {family!r} must have {', '.join(names)}; got one without {missing}.")
        self.cls_id, self.pad_id, self.sep_id, self.unk_id, self.mask_id = (self.vocabulary[name] for name in names)
        takes = self._family.mask_takes_space if mask_takes_space is None else mask_takes_space
        self.takes_space = (self._family.mask,) if takes else ()
        self._ids = _ids_in_texts(self._model, self.vocabulary, names)

    @classmethod
    @reads_tokenizer_files
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with spiece.model (ALBERT, XLNet), sentencepiece.bpe.model (XLM-RoBERTa) or spm.model (DeBERTa). Case
                and accents of the first two are read from tokenizer_config.json, if there is one; added tokens are read from the
                files next to the model, and so is what `row_settings` reads.
            options: arguments of the class that override the files.
        """
        folder = TokenizerFolder.of(path)
        options = {**folder.row_settings(), **options}
        file = next((family.file for family in FAMILIES.values() if folder.has(family.file)), None)
        if file is None:
            raise ValueError(f"expected a folder with spiece.model, sentencepiece.bpe.model or spm.model; {folder} is not one.")
        model, settings, arguments = _load(folder.folder / file), folder.settings, {}
        family = next(name for name, family in FAMILIES.items() if family.file == file)
        if file == "spiece.model":
            accents = settings.get("keep_accents")
            arguments = {"lower": settings.get("do_lower_case"), "strip_accents": None if accents is None else not accents}
            cls_token = FAMILIES["xlnet"].cls  # ALBERT's models have none
            family = "xlnet" if model.id_to_piece(model.piece_to_id(cls_token)) == cls_token else "albert"
        elif file == "spm.model":
            if settings.get("split_by_punct"):
                raise ValueError(f"{folder}: split_by_punct must be false, as splitting at punctuation is not supported; got true.")
            arguments = {"lower": settings.get("do_lower_case")}
        tokenizer = cls(model.serialized_model_proto(), family, **{**arguments, **options})
        return tokenizer if "added_tokens" in options else tokenizer._with_added_tokens(folder)

    def _with_added_tokens(self, folder):
        """The tokenizer with the tokens added by the files of a `TokenizerFolder`."""
        special = [self.tokens[i] for i in self.special_ids]
        vocabulary, added = folder.with_added_tokens(self.vocabulary, "Unigram", special)
        space = folder.mask_takes_space(self._family.mask)
        space = bool(self.takes_space) if space is None else space
        return self.with_options(added_tokens={token: vocabulary[token.content] for token in added}, mask_takes_space=space)

    def _arguments(self):
        return {
            "model": self.model_file,
            "family": self.family,
            "lower": self.lower,
            "strip_accents": self.strip_accents,
            "added_tokens": {rule: self.vocabulary[rule.content] for rule in self.rules.values()},
            "mask_takes_space": bool(self.takes_space),
            "second_segment": self.second_segment,
            "truncation_side": self.truncation_side,
        }

    @property
    def model_file(self) -> bytes:
        """The content of the model file."""
        return self._model.serialized_model_proto()

    @property
    def scores(self) -> dict[str, float]:
        """The log probabilities of the model's pieces."""
        return {self._model.id_to_piece(i): self._model.get_score(i) for i in range(len(self._model))}

    def _normalizer(self):
        if not self._family.cleans:
            return normalizers.NFKC()
        steps = [normalizers.Replace(mark, '"') for mark in QUOTES]
        steps += [normalizers.NFKD(), normalizers.StripAccents()] if self.strip_accents else []
        return normalizers.Sequence([*steps, *([normalizers.Lowercase()] if self.lower else [])])

    def _encode_texts(self, texts, with_offsets, are_words):
        check_unicode(texts)
        origins = [None] * len(texts)
        if self._family.cleans and with_offsets:
            rows = [normalized_with_offsets(text, self.lower, self.strip_accents) for text in texts]
            texts, origins = [text for text, _, _ in rows], [(starts, stops) for _, starts, stops in rows]
        elif self._family.cleans:
            texts = [normalized(text, self.lower, self.strip_accents) for text in texts]
        pieces = self._model.encode(texts, out_type=str) if texts else []
        if self._family.splits_digit_commas:
            pieces = [self._split_digit_commas(row) for row in pieces]
        lengths = np.array([len(row) for row in pieces], np.int64)
        ids = np.fromiter((self._ids.get(piece, self.unk_id) for row in pieces for piece in row), np.int32)
        if (ids == _FOUND).any():
            special = next(piece for row in pieces for piece in row if self._ids.get(piece) == _FOUND)
            raise ValueError(f"texts must not contain {special}, a token of this model, without special_tokens_in_text.")
        flat = FlatTokens(ids, lengths)
        if with_offsets:
            rows = [piece_offsets(self._model, *row) for row in zip(texts, pieces, origins, strict=True)]
            flat.starts, flat.stops, flat.words = (
                np.fromiter(itertools.chain.from_iterable(row[column] for row in rows), np.int64) for column in range(3)
            )
        return flat

    def _split_digit_commas(self, pieces):
        """Split pieces in which a comma follows a digit at the end; the text before the comma is tokenised again."""
        if not any(piece[-1] == "," and len(piece) > 1 and piece[-2].isdigit() for piece in pieces):
            return pieces
        split = []
        for piece in pieces:
            if piece[-1] == "," and len(piece) > 1 and piece[-2].isdigit():
                again = self._model.encode(piece[:-1].replace(SPACE, ""), out_type=str)
                if piece[0] != SPACE and again[0][0] == SPACE:
                    again = again[1:] if len(again[0]) == 1 else [again[0][1:], *again[1:]]
                split += [*again, ","]
            else:
                split.append(piece)
        return split

    def _join(self, ids):
        """The text of pieces, with spaces for space marks and around special tokens."""
        special = self.special_ids
        text = "".join(f" {self.tokens[i]} " if i in special else self.tokens[i] for i in ids)
        return " ".join(filter(None, text.replace(SPACE, " ").split(" ")))


def _load(model):
    if importlib.util.find_spec("sentencepiece") is None:
        raise ValueError("this tokenizer needs sentencepiece, which is not installed: pip install sentencepiece.")
    import sentencepiece

    if not isinstance(model, bytes):
        if not Path(model).is_file():
            raise ValueError(f"expected a SentencePiece model at {model}; it does not exist.")
        model = read_bytes(model, "vocabulary_bytes")
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(f"a SentencePiece model must be a file of that format; reading it failed: {error}.") from error
    if any(map(processor.is_byte, range(len(processor)))):
        raise ValueError("a SentencePiece model must have no byte pieces, like those of the supported families; this one has some.")
    return processor


def _vocabulary(model, family):
    pieces = [model.id_to_piece(i) for i in range(len(model))]
    first = tuple(pieces[: len(family.replaced)])
    if first != family.replaced:
        raise ValueError(f"the first pieces of the model must be {', '.join(family.replaced)}; got {', '.join(first)}.")
    last = [token for token in family.last if token not in pieces]
    return {token: i for i, token in enumerate((*family.front, *pieces[len(family.replaced) :], *last))}


def _ids_in_texts(model, vocabulary, special):
    """Piece to id, without pieces that cannot occur in texts, where their names are text."""
    ids = {}
    for i in range(len(model)):
        piece = model.id_to_piece(i)
        if not (model.is_control(i) or model.is_unknown(i) or model.is_unused(i)):
            ids[piece] = _FOUND if piece in special else vocabulary[piece]
    return ids
