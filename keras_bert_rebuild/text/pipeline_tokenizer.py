"""A tokenizer.json with rules that this library does not implement, run by the package tokenizers."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer

from keras_bert_rebuild.files.json_text import json_object
from keras_bert_rebuild.text.added_tokens import added_token
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer, check_unicode
from keras_bert_rebuild.text.flat_tokens import flat_encodings
from keras_bert_rebuild.text.pipeline_settings import (
    SPECIAL_NAMES,
    named_special_tokens,
    pipeline_of,
    special_tokens_of,
    with_hidden_tokens,
)
from keras_bert_rebuild.text.tokenizer_damage import reads_tokenizer_files
from keras_bert_rebuild.text.tokenizer_json import RowTokens, objects, row_tokens


class PipelineTokenizer(BatchTokenizer):
    """Splits texts by a tokenizer.json, many at a time, whatever normalizers, pre-tokenizers and model it names.

    Ids, offsets and words are those of the package tokenizers. Special tokens in a text are text unless `special_tokens_in_text` is
    set, as for every tokenizer here. Several times slower than `WordPieceTokenizer`.

    Args:
        pipeline: the content of a tokenizer.json, a dictionary, or its path. Its truncation and padding are ignored.
        special_tokens: the tokens for `cls`, `sep`, `pad`, `unk` and `mask`; by default those of the file, or those of BERT and
            RoBERTa.
        second_segment: segment of the second text of a pair; None for that of the file.

    Raises:
        ValueError: tokenizers cannot run it, a special token is missing, or its rows are not a token, a text and a token.
    """

    def __init__(
        self,
        pipeline: Mapping[str, Any] | str | os.PathLike[str],
        special_tokens: Mapping[str, str] | None = None,
        second_segment: int | None = None,
    ) -> None:
        is_given = isinstance(pipeline, Mapping)
        where = "the pipeline" if is_given else str(pipeline)
        values: Any = pipeline if is_given else pipeline_of(Path(where))
        self.pipeline = {**values, "truncation": None, "padding": None}
        self._full = _tokenizer(self.pipeline, where)
        self.vocabulary = self._full.get_vocab(with_added_tokens=True)
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
        self.second_segment = row.second_segment if second_segment is None else int(second_segment)
        special = set(self.special_tokens.values())
        rules = [added_token(each, where) for each in objects(self.pipeline, "added_tokens", where)]
        self.takes_space = tuple(rule.content for rule in rules if rule.content in special and rule.lstrip)
        self.rules = {rule.content: rule for rule in rules if rule.content not in special}
        self.added_tokens = tuple(self.rules)
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
        path = Path(path)
        folder = path if path.is_dir() else path.parent
        pipeline = pipeline_of(folder / "tokenizer.json")
        if not pipeline:
            raise ValueError(f"expected a folder with tokenizer.json at {path}; it does not exist.")
        arguments = {"special_tokens": named_special_tokens(folder)}
        if json_object(folder / "config.json").get("type_vocab_size") == 1:
            arguments["second_segment"] = 0
        return cls(pipeline, **{**arguments, **options})

    def __reduce__(self):
        return type(self), (self.pipeline, self.special_tokens, self.second_segment)

    def with_options(self, **options: Any) -> Self:
        """The tokenizer with some arguments of the constructor changed, such as `second_segment=0`."""
        return type(self)(
            self.pipeline, **{"special_tokens": self.special_tokens, "second_segment": self.second_segment, **options}
        )

    def _encode_written(self, texts, with_offsets, are_words, special_tokens_in_text):
        check_unicode(texts)
        tokenizer, real_ids = (self._full, None) if special_tokens_in_text else self._without_special()
        encode = tokenizer.encode_batch if with_offsets else tokenizer.encode_batch_fast
        flat = flat_encodings(encode(texts, add_special_tokens=False), with_offsets)
        if real_ids is not None:
            flat.ids = real_ids[flat.ids]
        return flat

    def _encode_texts(self, texts, with_offsets, are_words):
        return self._encode_written(texts, with_offsets, are_words, False)

    def _join(self, ids):
        """The tokens, decoded by the decoder of the pipeline."""
        return self._full.decode(ids, skip_special_tokens=False)

    def _without_special(self):
        """The tokenizer for which special tokens are text, and a map from its ids to the real ones."""
        if self._plain is None:
            special = set(self.special_tokens.values())
            plain = _tokenizer(with_hidden_tokens(self.pipeline, special, self._where), self._where)
            # Added tokens after a removed special one have lower ids.
            real = np.arange(max(plain.get_vocab(with_added_tokens=True).values()) + 1, dtype=np.int32)
            for content in self.added_tokens:
                real[plain.token_to_id(content)] = self.vocabulary[content]
            self._plain = plain, real
        return self._plain


def _tokenizer(pipeline, where):
    try:
        return Tokenizer.from_str(json.dumps(pipeline))
    except Exception as error:  # the package raises nothing narrower
        raise ValueError(f"{where} must be a tokenizer.json that the package tokenizers runs: {error}.") from None
