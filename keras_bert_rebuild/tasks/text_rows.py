"""Given examples and texts of any length as rows for a model, in windows if a text is too long, and the outputs for the rows.

Rows are computed in batches of similar length; this is thread-safe.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import ENOUGH, MOST, SHORT_TEXTS, candidates, chosen_lengths, few_lengths, lengths_up_to
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import dispatched, fetched
from keras_bert_rebuild.models.batch_check import check_inputs

# The default maximum: memory for attention grows with the square of the length, so more positions must be requested by `max_len`.
LONGEST = 512


@dataclass
class Windows:
    """Rows of tokens, lists with an array for each row; the windows of a text are consecutive."""

    ids: list
    """Token ids, special tokens included."""

    segments: list
    """0 for the first text, 1 for the second (0 for RoBERTa)."""

    examples: np.ndarray
    """The index of the text or pair of every row `(rows,)`."""

    sides: list
    """0 for a token of the first text, 1 for one of the second, -1 for a special token."""

    best: list
    """Whether no other window has more context around this token, so that every token of a split text counts once."""

    offsets: list
    """Offsets of a token's first character and of the one after its last, in its own text, `(length, 2)`."""

    word_ids: list
    """Index of a token's word in its own text, from 0; -1 at special tokens."""


@dataclass
class Encoded:
    """Examples as rows for a model."""

    windows: Windows
    """The rows; a long text has several."""

    targets: Any = None
    """The target of every row; None if an example has no label."""

    @property
    def examples(self) -> npt.NDArray[Any]:
        """The index of the example of every row `(rows,)`."""
        return self.windows.examples

    def __len__(self) -> int:
        return len(self.windows.ids)


def encode_windows(tokenizer, texts, pairs=None, *, max_len, stride, side=None, shortest=None, truncate=False, **options):
    """Encode texts or pairs of texts, as overlapping windows if they are too long for the model.

    In a pair, one text is split into windows and every row contains the whole other text. If that leaves less than half of the
    positions to the windows, the other text is truncated, on the `truncation_side` of the tokenizer.

    Args:
        tokenizer: a `BatchTokenizer`.
        texts: a list of texts, or with `is_pretokenized=True` a list of lists of words.
        pairs: the second texts, or None.
        max_len: maximum number of tokens in a row, special ones included.
        stride: number of tokens that consecutive windows share.
        side: the text of a pair that is split into windows, 0 or 1; None for the longer one of each pair.
        shortest: maximum number of tokens of the other text, even if there is room for more; None for half of the positions.
        truncate: truncate to `max_len` instead; pairs as the package tokenizers does.
        **options: `is_pretokenized` and `special_tokens_in_text`, as for `encode_batch`.

    Returns:
        `Windows`.
    """
    texts, pairs = list(texts), None if pairs is None else list(pairs)
    options["return_offsets"] = True
    if truncate:
        truncation = "longest_first" if pairs is None else "halves"
        cut = tokenizer.encode_batch(texts, pairs, max_len=max_len, truncation=truncation, **options)
        return _in_order(tokenizer, [(cut, np.arange(len(cut.ids)), np.arange(len(cut.ids)))])
    cut_off = np.zeros((2, len(texts)), "int64")  # characters of the other text of a pair that are cut off before it
    if pairs is not None and shortest is not None:
        second_texts = pairs if side == 0 else texts
        short = shortened(tokenizer, second_texts, shortest)
        cut_off[1 - side] = _cut_off(tokenizer, second_texts, short)
        second_texts[:] = short
    whole = tokenizer.encode_batch(texts, pairs, **options)
    lengths = np.array([len(row) for row in whole.ids], "int64")
    parts = [(whole, np.flatnonzero(lengths <= max_len), np.flatnonzero(lengths <= max_len))]
    for cut, rows in _long_ones(tokenizer, whole, lengths > max_len, side, pairs is not None):
        if not len(rows):
            continue
        long = [[texts[i] for i in rows]] if pairs is None else [[texts[i] for i in rows], [pairs[i] for i in rows]]
        if pairs is not None:
            special = int(np.sum(_sides(tokenizer, whole.ids[rows[0]], whole.word_ids[rows[0]]) < 0))
            short = shortened(tokenizer, long[1 - cut], (max_len - special) // 2)
            cut_off[1 - cut, rows] += _cut_off(tokenizer, long[1 - cut], short)
            long[1 - cut] = short
        truncation = ("only_first", "only_second")[cut]
        encoding = tokenizer.encode_batch(*long, max_len=max_len, truncation=truncation, stride=stride, **options)
        parts.append((encoding, np.arange(len(encoding.ids)), np.asarray(rows)[encoding.texts]))
    windows = _in_order(tokenizer, parts)
    for row, example in enumerate(windows.examples) if cut_off.any() else ():
        before = np.where(windows.sides[row] < 0, 0, cut_off[windows.sides[row], example])
        windows.offsets[row] = windows.offsets[row] + before[:, None]
    return windows


def _cut_off(tokenizer, texts, short):
    """The number of characters that are cut off before every text."""
    is_left = tokenizer.truncation_side == "left"
    return [len(text) - len(rest) if is_left else 0 for text, rest in zip(texts, short, strict=True)]


def shortened(tokenizer, texts, limit, keep_end=None):
    """Texts truncated to at most `limit` tokens, at the start of a word, or of a token if that leaves nothing.

    Args:
        tokenizer: a `BatchTokenizer`.
        texts: a list of texts.
        limit: maximum number of tokens.
        keep_end: remove the beginning instead of the end; None for what the tokenizer does.
    """
    keep_end = tokenizer.truncation_side == "left" if keep_end is None else keep_end
    encoding = tokenizer.encode_batch(texts, return_offsets=True)
    short = list(texts)
    for i, words in enumerate(encoding.word_ids):
        content = np.flatnonzero(words >= 0)
        if len(content) <= limit:
            continue
        words, starts = words[content], encoding.offsets[i][content, 0]
        begins = np.flatnonzero(np.diff(words, prepend=-1))
        cut = len(content) - limit if keep_end else limit
        at_word = begins[begins >= cut][:1] if keep_end else begins[(begins <= cut) & (begins > 0)][-1:]
        cut = starts[at_word[0] if len(at_word) else cut]
        short[i] = texts[i][cut:] if keep_end else texts[i][:cut].rstrip()  # RoBERTa has a token for a space at the end
    return short


def row_length(model, max_len, shortest=8):
    """`max_len`; for None the maximum of the model, at most `LONGEST`. A ValueError if it is above the maximum."""
    longest = model.config.max_length
    length = min(longest, LONGEST) if max_len is None else int(max_len)
    if not shortest <= length <= longest:
        raise ValueError(f"max_len must be from {shortest} to {longest}, the positions of the model; got {length}.")
    return length


def softmax(logits):
    """The probabilities of logits `(classes,)`."""
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def weighted_mean(rows, windows):
    """One output per example: the mean over its windows, weighted by their numbers of tokens, `(examples, ...)`."""
    return mean_of_windows(np.stack(rows), [len(ids) for ids in windows.ids], windows.examples)


def mean_of_windows(rows, sizes, examples):
    """One output per example: the mean over its windows, weighted by their numbers of tokens, `(examples, ...)`, float64.

    Args:
        rows: the outputs of the windows `(rows, ...)`; the windows of an example are consecutive.
        sizes: the number of tokens of every window `(rows,)`.
        examples: the index of the example of every window `(rows,)`.
    """
    weights, rows = np.asarray(sizes, "float64"), rows.astype("float64")
    starts = np.flatnonzero(np.diff(examples, prepend=-1))
    shape = (-1, *[1] * (rows.ndim - 1))
    return np.add.reduceat(rows * weights.reshape(shape), starts) / np.add.reduceat(weights, starts).reshape(shape)


def _long_ones(tokenizer, whole, long, side, are_pairs):
    """The side to split into windows, and the indices of the texts or pairs."""
    rows = np.flatnonzero(long)
    if not are_pairs or side is not None:
        return [(side or 0, rows)]
    sides = [_sides(tokenizer, whole.ids[i], whole.word_ids[i]) for i in rows]
    second = np.array([np.sum(row == 1) > np.sum(row == 0) for row in sides], bool)
    return [(0, rows[~second]), (1, rows[second])]


def _sides(tokenizer, ids, word_ids):
    after_separator = np.cumsum((ids == tokenizer.sep_id) & (word_ids < 0)) > 0
    return np.where(word_ids < 0, -1, after_separator)


def _in_order(tokenizer, parts):
    """Rows of several encodings in the order of their texts."""
    rows = [(examples[k], encoding, row) for encoding, rows, examples in parts for k, row in enumerate(rows)]
    rows.sort(key=lambda row: row[0])  # stable, so that windows keep their order
    windows = Windows([], [], np.array([example for example, _, _ in rows], "int64"), [], [], [], [])
    for _, encoding, row in rows:
        ids, words = encoding.ids[row], encoding.word_ids[row]
        windows.ids.append(ids)
        windows.segments.append(encoding.segments[row])
        windows.offsets.append(encoding.offsets[row])
        windows.word_ids.append(words)
        windows.sides.append(_sides(tokenizer, ids, words))
        windows.best.append(words >= 0 if encoding.max_context is None else np.asarray(encoding.max_context[row]))
    return windows


def predicted(model, inputs):
    """The output of a model for a batch as a float32 NumPy array, or a structure of several.

    Args:
        model: a Keras model.
        inputs: the inputs of the batch.
    """
    return fetched(begun(model, inputs))


def begun(model, inputs, variables=None):
    """The output of a model for a checked batch, still on the device: see `dispatched`."""
    return dispatched(model, check_inputs(model, inputs) if isinstance(model, keras.Model) else inputs, variables)


def filled_up(count, max_rows=None):
    """The indices of the rows of a batch, repeated up to a power of two, to limit the number of shapes to compile.

    Args:
        count: number of rows.
        max_rows: rows of a full batch, which limits the power of two; None for no limit.

    Example:

    >>> filled_up(5).tolist(), filled_up(5, max_rows=6).tolist()
    ([0, 1, 2, 3, 4, 0, 1, 2], [0, 1, 2, 3, 4, 0])
    """
    power = 1 << (count - 1).bit_length()
    return np.arange(power if max_rows is None or count > max_rows else min(power, max_rows)) % count


def buckets_for(sizes, max_len, most=MOST, price=0):
    """The lengths that rows are padded to.

    On JAX, which compiles a program for every length, these are a few lengths chosen for these rows: see `chosen_lengths`.

    Args:
        sizes: number of tokens of every row; empty if unknown.
        max_len: maximum number of tokens in a row.
        most, price: as for `chosen_lengths`, on JAX; with a price there are no rows but these.
    """
    if not traits.compiles_each_shape():
        return lengths_up_to(max_len, SHORT_TEXTS)
    if len(sizes) < ENOUGH and not price:
        return few_lengths(max_len)
    longest = min(length for length in candidates(max_len) if length >= max(sizes))
    return chosen_lengths(sizes, longest, most, price)


def example_list(examples: Any, name: str = "examples") -> list[Any]:
    """A list of at least one example; else a ValueError."""
    if isinstance(examples, (str, bytes)) or not hasattr(examples, "__iter__"):
        raise ValueError(f"{name} must be a list; got {type(examples).__name__} {str(examples)[:40]!r}.")
    examples = list(examples)
    if not examples:
        raise ValueError(f"{name} must be a list of at least one item; got an empty list.")
    return examples


def paired_lists(firsts, seconds):
    """First and second texts as lists of the same length, at least one; else a ValueError."""
    firsts, seconds = example_list(firsts, "firsts"), example_list(seconds, "seconds")
    if len(firsts) != len(seconds):
        raise ValueError(f"expected as many second texts as first ones, {len(firsts)}; got {len(seconds)}.")
    return firsts, seconds


def example_name(example, number):
    """The name of an example in errors: its file and line, or its index."""
    return getattr(example, "where", "") or f"example {number}"
