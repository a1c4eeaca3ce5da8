"""The outputs of a model for rows of any length, in batches of similar length, and their programs compiled ahead; thread-safe."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert_rebuild.data.batches import input_arrays, rows_of_batch
from keras_bert_rebuild.data.buckets import LOOK_AHEAD, Buckets
from keras_bert_rebuild.data.labelled.length_buckets import bucket_batches
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import compiled_ahead, compiles_ahead, fetched
from keras_bert_rebuild.models.batch_check import check_inputs
from keras_bert_rebuild.tasks.embedding_model import lengths_of
from keras_bert_rebuild.tasks.embedding_stream import batch_tokens_of_device
from keras_bert_rebuild.tasks.text_rows import begun, buckets_for, filled_up


def predict_rows(model, inputs, padding, *, max_len, batch_size=32, per_token=False, progress=None, lengths=None, outputs_of=None):
    """Predict rows in batches of similar length; the next batch is prepared while one is computed.

    Args:
        model: the model, with one output.
        inputs, padding: from `model_inputs`.
        max_len: maximum number of tokens in a row.
        batch_size: rows per batch.
        per_token: whether the model has an output for every token; outputs for padding are left out.
        progress: called after every batch with the number of finished rows and the total.
        lengths: lengths to pad to, such as those of a training; None for those of `buckets_for`.
        outputs_of: a function like `outputs_of_batches` of a copy of the model elsewhere; None to compute here.

    Returns:
        A list of float32 arrays, in the order of the rows.
    """
    sizes = [len(row) for row in inputs[0]]
    batches = _row_batches(sizes, max_len, batch_size, lengths)
    answers, done = [None] * len(sizes), 0
    if outputs_of is None:
        outputs_of = functools.partial(outputs_of_batches, model)
        if len(batches) > 1 and compiles_ahead(model):
            _compile_ahead(model, inputs, padding, batches)
    made = (_arrays(inputs, padding, rows, length) for _, rows, length in batches)
    for (indexes, _, _), outputs in zip(batches, outputs_of(made), strict=True):
        for i, output in zip(indexes, outputs, strict=False):
            answers[i] = output[: sizes[i]] if per_token else output
        done += len(indexes)
        if progress is not None:
            progress(done, len(sizes))
    return answers


def outputs_of_batches(model, batches):
    """Yield the output of a model for each of some batches, lists of arrays; one is prepared while another is computed."""
    running = None
    for arrays in batches:
        outputs = begun(model, arrays)
        if running is not None:
            yield fetched(running)
        running = outputs
    if running is not None:
        yield fetched(running)


def compile_predictions_ahead(task, encoded, batch_size):
    """Start compiling the predictions of such rows in threads, on JAX and an accelerator, if the task makes them.

    `predict_rows` waits for what it needs of them.

    Args:
        task: a `Task`.
        encoded: rows from its `encode`.
        batch_size: rows per batch of the predictions.
    """
    if task.predicts_encoded_rows and compiles_ahead(task.model):
        inputs, padding = task.inputs_of(encoded.windows)
        batches = _row_batches([len(row) for row in inputs[0]], task.max_len, batch_size, task.row_lengths)
        _compile_ahead(task.model, inputs, padding, batches)


def _compile_ahead(model, inputs, padding, batches):
    """Start compiling the program of each shape among batches from `_row_batches`."""
    shapes = {(len(rows), length): rows for _, rows, length in batches}
    compiled_ahead(model, [check_inputs(model, _arrays(inputs, padding, rows, length)) for (_, length), rows in shapes.items()])


def _row_batches(sizes, max_len, batch_size, lengths):
    """For each batch the indices of its rows, these filled up to a shape that others have, too, and the length to pad to."""
    lengths = lengths if lengths and lengths[-1] >= max(sizes, default=0) else buckets_for(sizes, max_len)
    # If every shape is compiled, the last of many batches is padded to a full one.
    always_full = traits.compiles_each_shape() and len(sizes) > batch_size

    def filled(indexes):
        return indexes[np.arange(batch_size) % len(indexes) if always_full else filled_up(len(indexes), batch_size)]

    return [(indexes, filled(indexes), length) for indexes, length in bucket_batches(sizes, batch_size, lengths)]


def _arrays(inputs, padding, rows, length):
    """The arrays of a batch of rows."""
    return input_arrays([[values[i] for i in rows] for values in inputs], length, padding)


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
        filled = filled_up(len(batch), rows_of_batch(tokens, length))
        arrays = input_arrays([[values[i] for i in filled] for values in inputs], length, padding)
        return begun(model, arrays), batch

    def fetch(answers):
        outputs, batch = answers
        return [finish(output, row) for output, row in zip(fetched(outputs), batch, strict=False)]

    yield from Buckets(begin, lengths_of(model, max_len), tokens, max(LOOK_AHEAD, tokens), fetch).stream(rows)
