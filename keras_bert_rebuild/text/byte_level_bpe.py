"""RoBERTa's tokenizer for batches of texts."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

from keras_bert_rebuild.files.reading import json_object, read_text
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.flat_tokens import flat_encodings
from keras_bert_rebuild.text.segmented import check_unicode, rules_of
from keras_bert_rebuild.text.tokenizer_folder import TokenizerFolder, reads_tokenizer_files
from keras_bert_rebuild.text.tokenizer_json import (
    OneSentence,
    checked_vocabulary,
    described_rules,
    is_robertas,
    model_type,
    section,
)

CLS, PAD, SEP, UNK, MASK = SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class ByteLevelBPETokenizer(BatchTokenizer):
    """Splits texts into the byte-level BPE tokens of RoBERTa's vocabulary, many texts at a time.

    A space belongs to the word after it, so a word at the start of a text has other tokens than elsewhere. Words, for `word_ids`,
    are sequences of letters, of digits or of other characters. Pairs are `<s> A </s></s> B </s>`, all in segment 0. With
    `is_pretokenized`, every word is preceded by a space.

    Args:
        vocab: the path of a vocab.json, or a dictionary from token to id.
        merges: the path of a merges.txt, or a list of token pairs in merge order.
        add_prefix_space: encode texts as if they began with a space.
        added_tokens: tokens of the vocabulary that are matched verbatim in a text: strings or `tokenizers.AddedToken`s, with their
            `single_word`, `lstrip`, `rstrip` and `special`.
        mask_takes_space: whether white space before a written `<mask>` belongs to it; None for yes.
        truncation_side: the end at which a text that is too long is cut, "right" or "left".

    Raises:
        ValueError: the files are not those of a RoBERTa tokenizer, or an added token is not in the vocabulary.

    Reference: Liu et al., 2019, section 4.4; Radford et al., 2019, section 2.2.
    """

    separators = 2
    second_segment = 0

    def __init__(
        self,
        vocab: Mapping[str, int] | str | os.PathLike[str],
        merges: Sequence[Any] | str | os.PathLike[str],
        add_prefix_space: bool = False,
        added_tokens: Sequence[str | AddedToken] = (),
        mask_takes_space: bool | None = None,
        truncation_side: str = "right",
    ) -> None:
        self._set_rows(type(self).second_segment, truncation_side)
        self.vocabulary = _vocabulary(vocab)
        self.merges = _merges(merges)
        self.add_prefix_space = bool(add_prefix_space)
        self.rules = rules_of(added_tokens, self.vocabulary)
        self.added_tokens = tuple(self.rules)
        self.takes_space = (MASK,) if mask_takes_space is None or mask_takes_space else ()
        missing = [token for token in SPECIAL[:-1] if token not in self.vocabulary]
        if missing:
            raise ValueError(f"a byte-level vocabulary must have <s>, <pad>, </s> and <unk>; got one without {missing}.")
        unknown = next((pair for pair in self.merges if not {*pair, "".join(pair)} <= self.vocabulary.keys()), None)
        if unknown is not None:
            raise ValueError(f"merges must consist of tokens of the vocabulary; got {' '.join(unknown)!r}.")
        self.tokens = {i: token for token, i in self.vocabulary.items()}
        self.cls_id, self.pad_id, self.sep_id, self.unk_id = (self.vocabulary[token] for token in SPECIAL[:-1])
        self.mask_id = self.vocabulary.get(MASK)
        with OneSentence("a byte-level vocabulary"):
            self._tokenizer = Tokenizer(BPE(self.vocabulary, self.merges, unk_token=UNK))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()

    @classmethod
    @reads_tokenizer_files
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with vocab.json and merges.txt, or with the tokenizer.json of a byte-level BPE model. `add_prefix_space`
                is read from tokenizer_config.json, or else from tokenizer.json.
            options: arguments of the class that override the files.
        """
        folder = TokenizerFolder.of(path)
        pipeline, where = folder.pipeline, folder.pipeline_path
        if folder.model_type == "BPE" and not is_robertas(pipeline, where):
            raise ValueError(
                f"a ByteLevelBPETokenizer must have RoBERTa's rules; {described_rules(pipeline, where)}: use load_tokenizer."
            )
        if folder.has("vocab.json", "merges.txt"):
            vocabulary, merges = folder.json("vocab.json"), folder.folder / "merges.txt"
        elif pipeline:
            vocabulary, merges = _model(pipeline, where)
        else:
            raise ValueError(f"expected a folder with vocab.json and merges.txt, or tokenizer.json; {folder} is not one.")
        space = folder.settings.get("add_prefix_space")
        if space is None:
            space = section(pipeline, "pre_tokenizer", where).get("add_prefix_space", False)
        if not isinstance(space, bool):
            raise ValueError(f"add_prefix_space at {folder} must be true or false; got {space!r:.40}.")
        vocabulary, added = folder.with_added_tokens(vocabulary, "BPE", SPECIAL)
        arguments = {
            "add_prefix_space": space,
            "added_tokens": added,
            "mask_takes_space": folder.mask_takes_space(MASK),
            "truncation_side": folder.row_settings()["truncation_side"],
        }
        return cls(vocabulary, merges, **{**arguments, **options})

    def _arguments(self):
        return {
            "vocab": self.vocabulary,
            "merges": self.merges,
            "add_prefix_space": self.add_prefix_space,
            "added_tokens": tuple(self.rules.values()),
            "mask_takes_space": bool(self.takes_space),
            "truncation_side": self.truncation_side,
        }

    def _encode_texts(self, texts, with_offsets, are_words):
        check_unicode(texts)
        prefix = self.add_prefix_space or are_words
        spaced = [bool(prefix and text and not text.startswith(" ")) for text in texts]
        texts = [f" {text}" if space else text for text, space in zip(texts, spaced, strict=True)]
        encode = self._tokenizer.encode_batch if with_offsets else self._tokenizer.encode_batch_fast
        with OneSentence("a byte-level vocabulary"):
            encodings = encode(texts, add_special_tokens=False)
        flat = flat_encodings(encodings, with_offsets)
        if with_offsets:
            before = np.repeat(np.array(spaced, np.int64), flat.lengths)
            flat.starts, flat.stops = flat.starts - before, flat.stops - before
        return flat

    def _join(self, ids):
        """The text of the tokens' bytes, with U+FFFD for invalid UTF-8."""
        with OneSentence("a byte-level vocabulary"):
            return self._tokenizer.decode(ids, skip_special_tokens=False)


def _vocabulary(vocab):
    if isinstance(vocab, (str, Path)):
        if not Path(vocab).is_file():
            raise ValueError(f"expected a vocab.json at {vocab}; it does not exist.")
        vocab = json_object(Path(vocab))
    if not isinstance(vocab, dict):
        raise ValueError(f"vocab must be a dictionary from token to id; got {type(vocab).__name__} {str(vocab)[:40]!r}.")
    return vocab


def _merges(merges):
    """Token pairs from a merges.txt, its lines, or pairs."""
    if isinstance(merges, (str, Path)):
        if not Path(merges).is_file():
            raise ValueError(f"expected a merges.txt at {merges}; it does not exist.")
        lines = read_text(merges, "vocabulary_bytes").split("\n")
        merges = [line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#version")]
    pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in merges]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise ValueError(f"every line of merges must be two tokens separated by a space; got {' '.join(wrong)!r}.")
    return pairs


def _model(values, path):
    """The vocabulary and merges of a tokenizer.json."""
    model = section(values, "model", path)
    if model_type(values, path) != "BPE":
        raise ValueError(f"expected a byte-level BPE tokenizer; {path} has a {model_type(values, path)} model.")
    merges = model.get("merges")
    if not isinstance(merges, list) or not all(isinstance(pair, (str, list)) for pair in merges):
        raise ValueError(f"the merges in {path} must be a list of pairs of tokens; got {merges!r:.60}.")
    return checked_vocabulary(model, path), merges
