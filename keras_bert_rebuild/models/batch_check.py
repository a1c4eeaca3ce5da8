"""Check a batch on the host before it goes to a device: ids against the tables of the model, and labels.

No backend reports ids outside their table.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.kernels.traits import on_host
from keras_bert_rebuild.layers import ExtractFirsts
from keras_bert_rebuild.layers.masks import most_sequences
from keras_bert_rebuild.models.named_tensors import is_packed
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.step_plan import StepPlan

# The meaning of the labels of a head.
CLASSES = {"NSP": "0 the next sentence, 1 a random one", "SOP": "0 in their order, 1 swapped"}


@dataclass(frozen=True)
class IdRule:
    """The whole numbers that an array may hold."""

    name: str
    """Name of the input or label, for the error."""

    limit: int | None = None
    """Numbers must be in [0, limit); None for no limit."""

    table: str = ""
    """What `limit` counts, for the error."""

    max_length: int | None = None
    """The maximum size of the second axis; None for no limit."""


def check_ids(rule, values):
    """Check one array of ids.

    Args:
        rule: an `IdRule`.
        values: an array or nested lists, `(batch, ...)`; floats must be whole numbers.

    Returns:
        The values as an array of integers.

    Raises:
        ValueError: an id is out of range, or the values are not whole numbers; the error says what was expected, found and where.
    """
    array = _as_array(rule, values)
    if array.dtype.kind not in "iub":
        array = _as_whole_numbers(rule, array)
    if rule.max_length is not None and array.ndim > 1 and array.shape[1] > rule.max_length:
        raise ValueError(
            f"{rule.name}: expected at most {rule.max_length} positions, the rows of the position table; got shape {array.shape}."
        )
    # Two reductions without a mask array: this runs on every batch.
    if rule.limit is not None and array.size and (array.min() < 0 or array.max() >= rule.limit):
        where = np.argwhere((array < 0) | (array >= rule.limit))[0]
        raise ValueError(
            f"{rule.name}: expected ids from 0 to {rule.limit - 1} ({rule.table}); got {array[tuple(where)]} at {_shown(where)}."
        )
    return array


def check_predictions(masked, real, max_predictions):
    """Check that no example has more positions to predict than slots.

    Args:
        masked: `(batch, length)`, nonzero where a token is to be predicted.
        real: `(batch, length)`, nonzero where there is a real token.
        max_predictions: slots per example.
    """
    counts = np.sum((masked != 0) & (real != 0), axis=1)
    if counts.size and counts.max() > max_predictions:
        row = int(counts.argmax())
        raise ValueError(
            f"Input-Masked: expected at most max_predictions={max_predictions} positions to predict per example; "
            f"got {counts[row]} at [{row}]."
        )


def _as_array(rule, values):
    if isinstance(values, str):
        raise ValueError(f"{rule.name}: expected an array of ids; got the string {values[:40]!r}.")
    if isinstance(values, (list, tuple)):
        lengths = {np.shape(row)[:1] if isinstance(row, np.ndarray) else _length(row) for row in values}
        if len(lengths) > 1:
            shown = ", ".join(str(n[0]) if n else "a single id" for n in sorted(lengths))
            raise ValueError(f"{rule.name}: expected rows of equal length; got a ragged array with rows of {shown}: pad them.")
    array = np.asarray(values)
    if array.dtype.kind not in "iubf" and array.dtype.name != "bfloat16":
        raise ValueError(f"{rule.name}: expected whole numbers; got an array of {array.dtype}.")
    return array


def _length(row):
    return (len(row),) if hasattr(row, "__len__") and not isinstance(row, (str, bytes)) else ()


def _as_whole_numbers(rule, array):
    wrong = ~np.isfinite(array) | (array != np.trunc(array))
    if wrong.any():
        where = np.argwhere(wrong)[0]
        raise ValueError(f"{rule.name}: expected whole numbers; got {array[tuple(where)]} at {_shown(where)}.")
    return array.astype("int64")


def _shown(index):
    return "[" + ", ".join(str(i) for i in index) + "]"


# The layer whose table an input indexes, and what the rows of the table are.
ID_INPUTS = {
    "Input-Token": ("Embedding-Token", "the tokens of the vocabulary"),
    "Input-Segment": ("Embedding-Segment", "the segments of the model"),
    "Input-Task": ("Embedding-Task", "the tasks of the model"),
    "Input-Masked": (None, ""),
    "Input-Mask": (None, ""),
}


def check_inputs(model: keras.Model, x: Any) -> Any:
    """Check the inputs; those on the host are returned as integers, those on a device or symbolic unchanged.

    Args:
        model: a functional model.
        x: a dictionary by the names of its inputs, a list of them, also a nested one, or one array.

    Returns:
        The inputs in the same structure.

    Raises:
        ValueError: as for `check_ids`; or inputs are missing or unknown.
    """
    names = [tensor.name for tensor in model.inputs]
    if isinstance(x, dict):
        # If the inputs of a graph are a dictionary, its keys need not be the names.
        if not isinstance(model.input, dict) and not set(names) <= set(x):
            raise ValueError(f"expected the inputs {', '.join(names)}; got {', '.join(map(str, x))}.")
        return {name: _check_input(model, name, value) if name in names else value for name, value in x.items()}
    if not isinstance(x, (list, tuple)) or not (len(names) > 1 or _is_structure(x)):
        return _check_input(model, names[0], x) if len(names) == 1 else x
    arrays: list[Any] = []
    _map_inputs(arrays.append, x)
    if len(arrays) != len(names):
        raise ValueError(f"expected {len(names)} inputs, {', '.join(names)}; got {len(arrays)}.")
    rest = iter(names)
    return _map_inputs(lambda value: _check_input(model, next(rest), value), x)


def _map_inputs(function, x):
    """The results of a function of every input, in the structure of the inputs."""
    results = [_map_inputs(function, value) if _is_structure(value) else function(value) for value in x]
    return results if isinstance(x, list) else tuple(results)


def _is_structure(x):
    """Whether this is a list of arrays of ids, and not the rows of one."""
    if not isinstance(x, (list, tuple)) or not x:
        return False
    return len(getattr(x[0], "shape", ())) > 1 or _is_structure(x[0])


def check_labels(graph: PretrainingGraph, plan: StepPlan, x: Any, labels: dict[str, Any]) -> None:
    """Check labels that are ids; for the MLM head only at positions that count.

    Args:
        graph, plan: graph and plan of the model.
        x: the inputs of the model.
        labels: labels by head, for heads whose labels are ids.

    Raises:
        ValueError: an id is outside its table, a shape is wrong, or there are more positions to predict than
            `plan.max_predictions`.
    """
    labels = {head: on_host(label) for head, label in labels.items()}
    named = graph.named(x)
    ids, padding = graph.padding_of(named)
    ids, masked, mlm = on_host(ids), on_host(named["Input-Masked"]), labels.get("MLM")
    if mlm is not None and ids is not None and masked is not None:
        real = ids != padding
        if plan.max_predictions is not None:
            check_predictions(masked, real, plan.max_predictions)
        if np.size(mlm) != masked.size:
            raise ValueError(f"labels of MLM: expected an id for every position, {masked.shape}; got shape {np.shape(mlm)}.")
        rule = IdRule("labels of MLM", graph.vocab_size, "the tokens of the vocabulary")
        check_ids(rule, np.where((masked != 0) & real, np.reshape(mlm, masked.shape), 0))
    for head, classes in CLASSES.items():
        if labels.get(head) is not None:
            values = check_ids(IdRule(f"labels of {head}", 2, classes), labels[head])
            if graph.packed and ids is not None:
                _check_label_per_sequence(head, values, (ids.shape[0], most_sequences(ids.shape[1])))


def _check_label_per_sequence(head, labels, shape):
    if labels.shape not in (shape, (*shape, 1)):
        raise ValueError(
            f"labels of {head}: expected in packed rows a label for each of {shape[1]} sequences, {shape}; "
            f"got shape {labels.shape}."
        )


def _check_input(model, name, value):
    if name not in ID_INPUTS or value is None or isinstance(value, keras.KerasTensor):
        return value
    if not keras.ops.is_tensor(value):
        return _check_packed(model, name, check_ids(_id_rule(model, name), value).astype("int32"))
    array = on_host(value)
    if array is not None:
        _check_packed(model, name, check_ids(_id_rule(model, name), array))
    return value


def check_sequences(numbers, most=None):
    """Check the sequence numbers of packed rows, `(batch, length)`: 0 at padding, else 1 + the column where the sequence begins.

    Args:
        numbers: the array.
        most: maximum number of sequences of a row; None for no limit.

    Raises:
        ValueError: a number does not belong to a sequence of its row, or a row has too many sequences.
    """
    columns = np.arange(numbers.shape[1])
    begins = np.clip(numbers - 1, 0, columns)
    wrong = (numbers < 0) | (numbers > columns + 1) | (np.take_along_axis(numbers, begins, axis=1) != numbers) & (numbers != 0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            "Input-Mask: expected in packed rows 1 + the column where the sequence of a token begins, or 0 at padding; "
            f"got {numbers[row, column]} at [{row}, {column}]."
        )
    if most is None:
        return
    counts = np.sum(numbers == columns + 1, axis=1)
    if counts.size and counts.max() > most:
        raise ValueError(
            f"Input-Mask: expected at most {most} sequences in a row of {len(columns)} tokens, for a head on sequences; "
            f"got {counts.max()} at [{counts.argmax()}]."
        )


def _check_packed(model, name, array):
    if name == "Input-Mask" and is_packed(model):
        with_heads = any(isinstance(layer, ExtractFirsts) for layer in model.layers)
        check_sequences(array, most_sequences(array.shape[1]) if with_heads else None)
    return array


def _id_rule(model, name):
    """The `IdRule` of an input, from the tables of the model."""
    table, rows = ID_INPUTS.get(name, (None, ""))
    layers = {layer.name: layer for layer in model.layers}
    position = layers.get("Embedding-Position")
    return IdRule(
        name,
        limit=layers[table].input_dim if table in layers else None,
        table=rows,
        max_length=position.max_length if position is not None and name != "Input-Task" else None,
    )
