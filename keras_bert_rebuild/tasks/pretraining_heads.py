"""What the heads of pretraining answer: the words for `[MASK]`, and whether a text follows another."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import input_arrays, least_length, model_inputs
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.tasks.embedding_model import longest_row
from keras_bert_rebuild.tasks.model_of_task import task_tokenizer
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.tasks.text_rows import (
    LONGEST,
    Windows,
    buckets_for,
    encode_windows,
    example_list,
    paired_lists,
    predicted,
    row_length,
    shortened,
)
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def fill_mask(
    model: keras.Model,
    token_dict: dict[str, int] | BatchTokenizer,
    text: str | Sequence[str],
    top_k: int = 5,
    cased: bool = False,
    batch_size: int = 8,
) -> list[Any]:
    """Predict the masked tokens of texts.

    A text that is too long for the model is split into windows; each `[MASK]` is predicted in the window with the most context.

    Args:
        model: from `get_model(training=True)`, or from `from_pretrained` with an MLM head.
        token_dict: the model's vocabulary, a dictionary from token to id; or its tokenizer, from `load_tokenizer`.
        text: a text with the tokenizer's mask, such as `[MASK]`, in place of one or more tokens; or a list of such texts.
        top_k: number of predictions for each mask.
        cased: with a vocabulary, retain case and accents.
        batch_size: rows per batch.

    Returns:
        For every mask, in order, a list of `(token, probability)`, the most probable first; for a list of texts a list of these.

    Raises:
        ValueError: the model has no MLM head, a text is not a string or has no mask, or a number is below 1.
    """
    tokenizer = token_dict if isinstance(token_dict, BatchTokenizer) else WordPieceTokenizer(token_dict, cased=cased)
    if "MLM" not in (names := list(model.output_names)):
        raise ValueError(f"the model must have an MLM head; its outputs are {', '.join(names)}.")
    for name, value in (("top_k", top_k), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}.")
    texts = [text] if isinstance(text, str) else example_list(text, "text")
    mask = tokenizer.tokens.get(tokenizer.mask_id)
    for one in texts:
        if not isinstance(one, str) or mask is None or mask not in one:
            raise ValueError(f"text must be a string with at least one {mask or '[MASK]'}; got {one!r:.80}.")
    answers = _answers(model, tokenizer, texts, top_k, batch_size)
    return answers[0] if isinstance(text, str) else answers


def _answers(model, tokenizer, texts, top_k, batch_size):
    fixed = model.inputs[0].shape[1]
    longest = fixed or min(longest_row(model), LONGEST)
    windows = encode_windows(
        tokenizer, texts, max_len=longest, stride=longest // 4 if longest > 8 else 0, special_tokens_in_text=True
    )
    masks = [(ids == tokenizer.mask_id) & best for ids, best in zip(windows.ids, windows.best, strict=True)]
    rows = [row for row in range(len(masks)) if masks[row].any()]
    columns = windows.ids, windows.segments, masks
    names = [tensor.name for tensor in model.inputs]
    answers = [[] for _ in texts]
    for first in range(0, len(rows), batch_size):
        batch = rows[first : first + batch_size]
        ids, segments, masked = ([column[row] for row in batch] for column in columns)
        length = fixed or least_length(buckets_for((), longest), max(map(len, ids)))
        inputs, padding = model_inputs(names, ids, segments, tokenizer.pad_id, masked)
        outputs = predicted(model, input_arrays(inputs, length, padding))
        outputs = outputs[model.output_names.index("MLM")] if isinstance(outputs, (list, tuple)) else outputs
        for i, row in enumerate(batch):
            for probabilities in np.asarray(outputs[i])[np.flatnonzero(masks[row])]:
                best = np.argsort(-probabilities, kind="stable")[:top_k].tolist()
                answers[windows.examples[row]].append([(tokenizer.tokens.get(k), float(probabilities[k])) for k in best])
    return answers


class NextSentence:
    """The probability that one text is followed by another.

    If a pair is too long for the model, the beginning of the first text and the end of the second are cut off, so that the
    adjoining parts remain. Each text gets half of the positions, or those that the other leaves.

    Args:
        model: a path as for `from_pretrained`, or a model, with the head "nsp".
        tokenizer: as for `task_tokenizer`.
        max_len: maximum number of tokens in a row; None for the maximum of the model, at most 512.

    Raises:
        ValueError: the model has no such head, or fewer positions than `max_len`.

    Reference: Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """

    kind = "next_sentence"

    def __init__(self, model: str | os.PathLike[str] | keras.Model, tokenizer: Any = None, *, max_len: int | None = None) -> None:
        model = from_pretrained(model, heads=("nsp",)) if isinstance(model, (str, os.PathLike)) else model
        if heads_of(model) != ("nsp",):
            raise ValueError(f"the model must have the head nsp and no other; it has {', '.join(heads_of(model)) or 'none'}.")
        self.model = model
        self.tokenizer, _ = task_tokenizer(model, tokenizer)
        self.max_len = row_length(model, max_len)

    def __call__(self, firsts: Sequence[str], seconds: Sequence[str], batch_size: int = 32) -> npt.NDArray[Any]:
        """Score pairs.

        Args:
            firsts: a list of texts.
            seconds: for each of them, the text that may come next.
            batch_size: rows per batch.

        Returns:
            The probability that the second text follows the first, `(pairs,)`.

        Raises:
            ValueError: not a list, an empty list, or a different number of first and second texts.
        """
        firsts, seconds = paired_lists(firsts, seconds)
        encoding = self._encoding(firsts, seconds)
        inputs, padding = model_inputs(
            [tensor.name for tensor in self.model.inputs], encoding.ids, encoding.segments, self.tokenizer.pad_id
        )
        return np.stack(predict_rows(self.model, inputs, padding, max_len=self.max_len, batch_size=batch_size))[:, 0]

    def windows(self, first: str, second: str) -> tuple[Windows, tuple[int, int]]:
        """The row of one pair, and for each text minus the number of characters that are cut off before it.

        Args:
            first, second: the texts.
        """
        firsts, seconds = self._cut([first], [second])
        windows = encode_windows(self.tokenizer, firsts, seconds, max_len=self.max_len, stride=0, truncate=True)
        return windows, (len(firsts[0]) - len(first), 0)

    def _encoding(self, firsts, seconds):
        return self.tokenizer.encode_batch(*self._cut(firsts, seconds), max_len=self.max_len)

    def _cut(self, firsts, seconds):
        """The texts; pairs that are too long are truncated."""
        encoding = self.tokenizer.encode_batch(firsts, seconds)
        long = [i for i, ids in enumerate(encoding.ids) if len(ids) > self.max_len]
        if not long:
            return firsts, seconds
        firsts, seconds = list(firsts), list(seconds)
        room = self.max_len - len(self.tokenizer.encode_batch([""], [""]).ids[0])
        of_first, of_second = (self.tokenizer.encode_flat([texts[i] for i in long])[1] for texts in (firsts, seconds))
        for i, a, b in zip(long, of_first, of_second, strict=True):
            firsts[i] = shortened(self.tokenizer, [firsts[i]], max(room - int(b), room - room // 2), keep_end=True)[0]
            left = room - int(min(a, max(room - int(b), room - room // 2)))
            seconds[i] = shortened(self.tokenizer, [seconds[i]], left, keep_end=False)[0]
        return firsts, seconds
