"""RoBERTa's tokenizer for batches of texts."""

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

from keras_bert_rebuild.text.added_tokens import checked_added_tokens, with_added_tokens
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer, check_unicode
from keras_bert_rebuild.text.flat_tokens import FlatTokens
from keras_bert_rebuild.text.json_file import json_object
from keras_bert_rebuild.text.tokenizer_damage import reads_tokenizer_files

CLS, PAD, SEP, UNK, MASK = SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class ByteLevelBPETokenizer(BatchTokenizer):
    """Cut texts into the byte pairs of RoBERTa's vocabulary, many at a time.

    A space belongs to the word behind it, so a word at the very start of a text has other tokens than inside of it. Words, for
    `word_ids`, are runs of letters, of digits or of other signs. Pairs are `<s> A </s></s> B </s>`, all of segment 0. With
    `is_pretokenized` every word has a space before it.

    Args:
        vocab: the path of a vocab.json, or a dictionary from token to id.
        merges: the path of a merges.txt, or a list of pairs of tokens, the first to be merged first.
        add_prefix_space: take texts as if a space stood before them.
        added_tokens: tokens of the vocabulary that stand for themselves wherever they are written in a text.

    Raises:
        ValueError: the files are none of RoBERTa's kind, or an added token is not in the vocabulary.

    Reference: Liu et al., 2019, section 4.4; Radford et al., 2019, section 2.2.
    """

    separators = 2
    second_segment = 0
    takes_space = (MASK,)

    def __init__(
        self,
        vocab: Mapping[str, int] | str | os.PathLike[str],
        merges: Sequence[Any] | str | os.PathLike[str],
        add_prefix_space: bool = False,
        added_tokens: Sequence[str] = (),
    ) -> None:
        self.vocabulary = _vocabulary(vocab)
        self.merges = _merges(merges)
        self.add_prefix_space = bool(add_prefix_space)
        self.added_tokens = checked_added_tokens(added_tokens, self.vocabulary)
        missing = [token for token in SPECIAL[:-1] if token not in self.vocabulary]
        if missing:
            raise ValueError(f"a byte-level vocabulary must have <s>, <pad>, </s> and <unk>; got one without {missing}.")
        unknown = next((pair for pair in self.merges if not {*pair, "".join(pair)} <= self.vocabulary.keys()), None)
        if unknown is not None:
            raise ValueError(f"merges must be of tokens of the vocabulary; got {' '.join(unknown)!r}.")
        self.tokens = {i: token for token, i in self.vocabulary.items()}
        self.cls_id, self.pad_id, self.sep_id, self.unk_id = (self.vocabulary[token] for token in SPECIAL[:-1])
        self.mask_id = self.vocabulary.get(MASK)
        self._tokenizer = Tokenizer(BPE(self.vocabulary, self.merges, unk_token=UNK))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()

    @classmethod
    @reads_tokenizer_files
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The tokenizer of a checkpoint.

        Args:
            path: a folder with vocab.json and merges.txt, or with the tokenizer.json of a byte-level BPE model. Whether texts begin
                with a space is read from tokenizer_config.json or tokenizer.json.
            options: `add_prefix_space` or `added_tokens`, to overrule the files.
        """
        path = Path(path)
        if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
            space = json_object(path / "tokenizer_config.json").get("add_prefix_space")
            vocabulary, merges = _vocabulary(path / "vocab.json"), path / "merges.txt"
        elif (path / "tokenizer.json").is_file():
            model, space = _byte_level_model(json_object(path / "tokenizer.json"), path)
            vocabulary, merges = model["vocab"], model["merges"]
        else:
            raise ValueError(f"a folder with vocab.json and merges.txt, or tokenizer.json, must be at {path}; there is none.")
        vocabulary, added = with_added_tokens(vocabulary, path, "BPE", SPECIAL)
        return cls(vocabulary, merges, **{"add_prefix_space": space, "added_tokens": added, **options})

    def __reduce__(self):
        return type(self), (self.vocabulary, self.merges, self.add_prefix_space, self.added_tokens)

    def _encode_texts(self, texts, places, are_words):
        check_unicode(texts)
        prefix = self.add_prefix_space or are_words
        spaced = [bool(prefix and text and not text.startswith(" ")) for text in texts]
        texts = [f" {text}" if space else text for text, space in zip(texts, spaced, strict=True)]
        encode = self._tokenizer.encode_batch if places else self._tokenizer.encode_batch_fast
        encodings = encode(texts, add_special_tokens=False)
        lengths = np.array([len(encoding) for encoding in encodings], np.int64)
        flat = FlatTokens(_joined([encoding.ids for encoding in encodings]).astype(np.int32), lengths)
        if places:
            offsets = _joined([itertools.chain.from_iterable(encoding.offsets) for encoding in encodings]).reshape(-1, 2)
            offsets -= np.repeat(np.array(spaced, np.int64), lengths)[:, None]
            flat.starts, flat.stops = offsets[:, 0].copy(), offsets[:, 1].copy()
            flat.words = _joined([encoding.word_ids for encoding in encodings])
        return flat

    def _join(self, ids):
        """The text of the tokens' bytes; what is no UTF-8 becomes U+FFFD."""
        return self._tokenizer.decode(ids, skip_special_tokens=False)


def _joined(columns):
    return np.fromiter(itertools.chain.from_iterable(columns), np.int64)


def _vocabulary(vocab):
    if isinstance(vocab, (str, Path)):
        if not Path(vocab).is_file():
            raise ValueError(f"a vocab.json must be at {vocab}; there is none.")
        vocab = json_object(Path(vocab))
    if not isinstance(vocab, dict):
        raise ValueError(f"vocab must be a dictionary from token to id; got {type(vocab).__name__} {str(vocab)[:40]!r}.")
    return vocab


def _merges(merges):
    """Pairs of tokens from a merges.txt, from its lines or from pairs."""
    if isinstance(merges, (str, Path)):
        if not Path(merges).is_file():
            raise ValueError(f"a merges.txt must be at {merges}; there is none.")
        lines = Path(merges).read_text(encoding="utf-8").split("\n")
        merges = [line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#version")]
    pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in merges]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise ValueError(f"every line of merges must be two tokens with a space between them; got {' '.join(wrong)!r}.")
    return pairs


def _byte_level_model(values, path):
    """The model of a tokenizer.json, and whether it puts a space before texts."""
    model, cutter = values.get("model") or {}, values.get("pre_tokenizer") or {}
    if model.get("type") != "BPE" or cutter.get("type") != "ByteLevel" or values.get("normalizer"):
        raise ValueError(
            f"a byte-level BPE tokenizer must be at {path}; tokenizer.json holds a {model.get('type')} model on "
            f"{cutter.get('type')} words, normalizer {(values.get('normalizer') or {}).get('type')}."
        )
    if not cutter.get("use_regex", True):
        raise ValueError(f"RoBERTa's words must be those of {path}; tokenizer.json cuts texts into others.")
    return model, cutter.get("add_prefix_space", False)
