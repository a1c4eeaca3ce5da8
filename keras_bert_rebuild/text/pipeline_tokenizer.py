"""A tokenizer.json with rules that this library does not implement, run by the package tokenizers."""

import json
import os
import secrets
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer

from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.flat_tokens import flat_encodings, trim_spaces
from keras_bert_rebuild.text.segmented import check_unicode
from keras_bert_rebuild.text.tokenizer_folder import IN_NORMALIZER, TokenizerFolder, reads_tokenizer_files
from keras_bert_rebuild.text.tokenizer_json import (
    SPECIAL_NAMES,
    OneSentence,
    RowTokens,
    added_token,
    check_growth,
    check_ids,
    cut_side,
    flags_of,
    model_type,
    objects,
    row_tokens,
    section,
)

# A space in byte-level tokens.
SPACE = "Ġ"

# The usual special tokens of BERT and RoBERTa.
USUAL = {
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
}


def pipeline_of(folder, file):
    """A tokenizer.json with the overrides of the settings next to it; an empty dictionary if it does not exist.

    Args:
        folder: a `TokenizerFolder`.
        file: the path of the tokenizer.json in it.

    Raises:
        ValueError: a file is damaged, or two files contradict each other.
    """
    values = dict(folder.json(file.name))
    if not values:
        return {}
    normalizer, splitter = section(values, "normalizer", file), section(values, "pre_tokenizer", file)
    if normalizer.get("type") == "BertNormalizer":
        changes = folder.cleaning_settings(normalizer)
        values["normalizer"] = {**normalizer, **{IN_NORMALIZER[setting]: value for setting, value in changes.items()}}
    space = folder.settings.get("add_prefix_space")
    if splitter.get("type") == "ByteLevel" and isinstance(space, bool) and not folder.is_generic:
        values["pre_tokenizer"] = {**splitter, "add_prefix_space": space}
    vocabulary, added = folder.with_added_tokens(model_vocabulary(values, file), model_type(values, file), ())
    values["added_tokens"] = [{"id": vocabulary[token.content], **flags_of(token)} for token in added]
    return values


def model_vocabulary(values, path):
    """The vocabulary of the model, token to id, in any of the formats."""
    vocabulary = section(values, "model", path).get("vocab")
    if not vocabulary:
        raise ValueError(f"{path} has a {model_type(values, path)} model without a vocabulary.")
    if isinstance(vocabulary, list) and all(
        isinstance(piece, list) and piece and isinstance(piece[0], str) for piece in vocabulary
    ):
        return {piece[0]: i for i, piece in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict) or any(type(i) is not int or i < 0 for i in vocabulary.values()):
        raise ValueError(
            f"the vocabulary in {path} must be an object from token to id, or a list of pieces; got {vocabulary!r:.60}."
        )
    return vocabulary


def special_tokens_of(pipeline, row, vocabulary, named, where):
    """The special tokens by `SPECIAL_NAMES`; the mask is optional.

    Args:
        pipeline: the content of a tokenizer.json.
        row: its `RowTokens`, or None.
        vocabulary: token to id.
        named: tokens that override the file.
        where: the file, for errors.

    Raises:
        ValueError: one of them is not in the vocabulary.
    """
    model = section(pipeline, "model", where)
    unknown = model.get("unk_token")
    if isinstance(model.get("vocab"), list) and isinstance(model.get("unk_id"), int) and model["unk_id"] < len(model["vocab"]):
        unknown = model["vocab"][model["unk_id"]][0]
    candidates = {"unk": unknown, **named, **({} if row is None else {"cls": row.cls, "sep": row.sep})}
    # Added tokens in the file take precedence over pieces of the same spelling.
    listed = {token.get("content") for token in objects(pipeline, "added_tokens", where)}
    usual = {name: [token for token in tokens if token in vocabulary] for name, tokens in USUAL.items()}
    special = {
        name: candidates.get(name) or next(iter([*(token for token in tokens if token in listed), *tokens, None]))
        for name, tokens in usual.items()
    }
    missing = [name for name in SPECIAL_NAMES[:-1] if special[name] not in vocabulary]
    if missing:
        raise ValueError(f"{where} must have tokens for cls, sep, pad and unk; got one without {', '.join(missing)}.")
    return {name: token for name, token in special.items() if token in vocabulary}


def with_hidden_tokens(pipeline, special, where):
    """The pipeline with its special tokens renamed so that they cannot occur in texts, where they are then text.

    Args:
        pipeline: the content of a tokenizer.json.
        special: the special tokens.
        where: the file, for errors.
    """
    model = section(pipeline, "model", where)
    names = {token: f"{token}{secrets.token_hex(16)}" for token in special}
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary = {names.get(token, token): i for token, i in vocabulary.items()}
    else:
        vocabulary = [[names.get(piece, piece), *score] for piece, *score in vocabulary]
    hidden = {**model, "vocab": vocabulary}
    if model.get("unk_token") in names:
        hidden["unk_token"] = names[model["unk_token"]]
    return {
        **pipeline,
        "model": hidden,
        "added_tokens": [token for token in pipeline.get("added_tokens") or [] if token["content"] not in special],
    }


def without_trimming(processor):
    """A post-processor that leaves spaces in the offsets of byte-level tokens.

    The package tokenizers counts them in the token, and so removes the first letter of a word if the pre-tokenizer has put a space
    before it that is not in the text. `trim_spaces` compares with the text.

    Args:
        processor: the post-processor of a tokenizer.json, or None.
    """
    if not isinstance(processor, dict):
        return processor
    if processor.get("type") == "Sequence":
        return {**processor, "processors": [without_trimming(each) for each in processor.get("processors") or []]}
    return {**processor, "trim_offsets": False} if processor.get("type") in ("ByteLevel", "RobertaProcessing") else processor


class PipelineTokenizer(BatchTokenizer):
    """Splits texts by a tokenizer.json, many at a time, with any normalizers, pre-tokenizers and model.

    Ids and words are those of the package tokenizers, and so are offsets, but for a letter that it removes from words with
    byte-level tokens. As for every tokenizer here, written special tokens are text unless `special_tokens_in_text` is set. Several
    times slower than `WordPieceTokenizer`.

    Args:
        pipeline: the content of a tokenizer.json, a dictionary, or its path. Of its truncation only the side is read, and
            its padding is ignored.
        special_tokens: the tokens for `cls`, `sep`, `pad`, `unk` and `mask`; by default those of the file, or of BERT and RoBERTa.
        second_segment: segment of the second text of a pair; None for the segment in the file.
        truncation_side: the end at which a text that is too long is cut, "right" or "left"; None for that in the file.

    Raises:
        ValueError: tokenizers cannot run it, a special token is missing, or its rows are not `token text token`.
    """

    def __init__(
        self,
        pipeline: Mapping[str, Any] | str | os.PathLike[str],
        special_tokens: Mapping[str, str] | None = None,
        second_segment: int | None = None,
        truncation_side: str | None = None,
    ) -> None:
        values: Any = pipeline
        where = "the pipeline"
        if not isinstance(pipeline, Mapping):
            folder = TokenizerFolder.of(pipeline)
            file = folder.pipeline_path if folder.path.is_dir() else folder.path
            values, where = pipeline_of(folder, file), str(file)
        self.pipeline = {**values, "truncation": None, "padding": None}
        self._full = _tokenizer(self.pipeline, where)
        self.vocabulary = self._full.get_vocab(with_added_tokens=True)
        check_ids(self.vocabulary, where)
        for token in objects(self.pipeline, "added_tokens", where):
            if self.vocabulary.get(token.get("content")) != token.get("id"):
                raise ValueError(f"added tokens in {where} must have the ids after those of the model; got {token!r:.80}.")
        self.tokens = {i: token for token, i in self.vocabulary.items()}
        row = row_tokens(self.pipeline, where)
        self.special_tokens = special_tokens_of(self.pipeline, row, self.vocabulary, special_tokens or {}, where)
        ids = {name: self.vocabulary[token] for name, token in self.special_tokens.items()}
        self.cls_id, self.sep_id, self.pad_id, self.unk_id = (ids[name] for name in SPECIAL_NAMES[:-1])
        self.mask_id = ids.get("mask")
        row = row or RowTokens("", "", *((2, 0) if self.special_tokens["cls"] == "<s>" else (1, 1)))
        self.separators, self.cls_last = row.separators, row.cls_last
        side = cut_side(values, where) if truncation_side is None else truncation_side
        self._set_rows(row.second_segment if second_segment is None else second_segment, side)
        special = set(self.special_tokens.values())
        rules = [added_token(each, where) for each in objects(self.pipeline, "added_tokens", where)]
        self.takes_space = tuple(rule.content for rule in rules if rule.content in special and rule.lstrip)
        self.rules = {rule.content: rule for rule in rules if rule.content not in special}
        self.added_tokens = tuple(self.rules)
        self._trims = without_trimming(self.pipeline.get("post_processor")) != self.pipeline.get("post_processor")
        self._where, self._plain = where, None

    @classmethod
    @reads_tokenizer_files
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with tokenizer.json, or its path. Special tokens, added tokens, and case and accents of a
                `BertNormalizer` are read from the settings next to it.
            options: arguments of the class that override the files.
        """
        folder = TokenizerFolder.of(path)
        if not folder.pipeline:
            raise ValueError(f"expected a folder with tokenizer.json at {folder}; it does not exist.")
        folder = folder if folder.path.is_dir() else TokenizerFolder(folder.folder)
        return cls(folder, **{"special_tokens": folder.special_tokens(), **folder.row_settings(), **options})

    def _arguments(self):
        return {
            "pipeline": self.pipeline,
            "special_tokens": self.special_tokens,
            "second_segment": self.second_segment,
            "truncation_side": self.truncation_side,
        }

    def _encode_written(self, texts, with_offsets, are_words, special_tokens_in_text):
        check_unicode(texts)
        tokenizer, real_ids = (self._full, None) if special_tokens_in_text else self._without_special()
        encode = tokenizer.encode_batch if with_offsets else tokenizer.encode_batch_fast
        with OneSentence(self._where):
            encodings = encode(texts, add_special_tokens=False)
        flat = flat_encodings(encodings, with_offsets)
        if real_ids is not None:
            flat.ids = real_ids[flat.ids]
        if with_offsets and self._trims:
            tokens, which = np.unique(flat.ids, return_inverse=True)
            before, after = np.array([_spaces(self.tokens[i]) for i in tokens.tolist()], np.int64).reshape(-1, 2).T
            trim_spaces(flat, texts, before[which], after[which], self._is_space)
        return flat

    def _is_space(self, char):
        """Whether a character of a text becomes a space."""
        normalizer = self._full.normalizer
        with OneSentence(self._where):
            return char == " " or (normalizer is not None and normalizer.normalize_str(f"x{char}x").endswith("x x"))

    def _encode_texts(self, texts, with_offsets, are_words):
        return self._encode_written(texts, with_offsets, are_words, False)

    def _join(self, ids):
        """The text of tokens, by the decoder of the pipeline."""
        with OneSentence(self._where):
            return self._full.decode(ids, skip_special_tokens=False)

    def _without_special(self):
        """The tokenizer in which special tokens are text, and a map from its ids to the real ones."""
        if self._plain is None:
            special = set(self.special_tokens.values())
            plain = _tokenizer(with_hidden_tokens(self.pipeline, special, self._where), self._where)
            # Removing a special token lowers the ids of added tokens after it.
            real = np.arange(max(plain.get_vocab(with_added_tokens=True).values()) + 1, dtype=np.int32)
            for content in self.added_tokens:
                real[plain.token_to_id(content)] = self.vocabulary[content]
            self._plain = plain, real
        return self._plain


def _spaces(token):
    """The number of spaces at the beginning and at the end of a byte-level token; -1 and 0 for spaces alone."""
    inside = token.strip(SPACE)
    return (len(token) - len(token.lstrip(SPACE)), len(token) - len(token.rstrip(SPACE))) if inside else (-1, 0)


def _tokenizer(pipeline, where):
    pipeline = {**pipeline, "post_processor": without_trimming(pipeline.get("post_processor"))}
    check_growth(pipeline, where)
    with OneSentence(where):
        return Tokenizer.from_str(json.dumps(pipeline))
