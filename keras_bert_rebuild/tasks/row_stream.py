"""The output of a model for the rows of a stream of texts, in order, as fast as the model allows."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras_bert_rebuild.data.batches import input_arrays, rows_of_batch
from keras_bert_rebuild.data.buckets import LOOK_AHEAD, Buckets
from keras_bert_rebuild.kernels.asynchronous import fetched
from keras_bert_rebuild.tasks.embedding_model import lengths_of
from keras_bert_rebuild.tasks.embedding_stream import TEXTS_PER_CALL, batch_tokens_of_device, check_strings
from keras_bert_rebuild.tasks.text_rows import begun, filled_up


def row_stream(
    model: Any,
    rows: Iterable[Any],
    inputs_of: Callable[[list[Any]], tuple[Any, Any]],
    finish: Callable[[Any, Any], Any],
    max_len: int,
    batch_tokens: int | None = None,
) -> Iterator[Any]:
    """Yield the result of a model for every row, in order and in constant memory.

    Args:
        model: the model, with one output.
        rows: tuples whose first item is an array of token ids; they may be endless.
        inputs_of: a function from rows to the inputs of the model and their padding, as `model_inputs` returns them.
        finish: a function from the output of a row, on the host, and the row to the result, an object with `nbytes`.
        max_len: maximum number of tokens in a row.
        batch_tokens: tokens per batch, including padding; None for a number that is fast on the device.
    """
    tokens = batch_tokens or batch_tokens_of_device()

    def begin(batch, length):
        inputs, padding = inputs_of(batch)
        chosen = filled_up(len(batch), rows_of_batch(tokens, length))
        arrays = input_arrays([[values[i] for i in chosen] for values in inputs], length, padding)
        return begun(model, arrays), batch

    def fetch(answers):
        outputs, batch = answers
        return [finish(output, row) for output, row in zip(fetched(outputs), batch, strict=False)]

    yield from Buckets(begin, lengths_of(model, max_len), tokens, max(LOOK_AHEAD, tokens), fetch).stream(rows)


def texts_of_stream(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts of a stream in lists, each to be tokenised at once.

    Raises:
        ValueError: a string instead of a list of texts, or an item that is not a string.
    """
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"texts must be a list of texts; got the string {texts[:40]!r}: put it into a list.")
    texts = iter(texts)
    for first in itertools.count(step=TEXTS_PER_CALL):
        part = list(itertools.islice(texts, TEXTS_PER_CALL))
        if not part:
            return
        check_strings(part, first)
        yield part
