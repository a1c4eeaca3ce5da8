"""The summary of a functional model as rows, or printed without truncation."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras

from keras_bert_rebuild.models.find_encoder import connections

COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Connected to")


@dataclass(frozen=True)
class SummaryRow:
    """One layer of a model."""

    name: str
    """Its name."""

    type: str
    """Its class."""

    output_shape: str
    """The shape of its output, or a list of shapes if it has several."""

    params: int
    """Its parameters."""

    connected_to: tuple
    """Its inputs as `layer[node][tensor]`."""


def summary_rows(model: keras.Model) -> list[SummaryRow]:
    """The layers of a functional model, in the order of `model.summary()`.

    Args:
        model: a functional model.

    Returns:
        A list of `SummaryRow`.

    Raises:
        ValueError: the model has no graph, as subclassed and sequential models do not.
    """
    read_by = connections(model)
    return [
        SummaryRow(layer.name, type(layer).__name__, _shape(layer), layer.count_params(), read_by[layer.name])
        for layer in model.layers
    ]


def print_summary(model: keras.Model, print_fn: Callable[[str], object] = print) -> None:
    """Print the four columns of Keras 2's summary, each as wide as its longest entry.

    Args:
        model: a functional model.
        print_fn: called with every line.

    Raises:
        ValueError: as `summary_rows`.
    """
    table = [COLUMNS]
    for row in summary_rows(model):
        first, *rest = row.connected_to or ("",)
        table.append((f"{row.name} ({row.type})", row.output_shape, f"{row.params:,}", first))
        table += [("", "", "", connection) for connection in rest]
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    line_length = sum(widths) + 2 * (len(widths) - 1)
    print_fn(f'Model: "{model.name}"')
    print_fn("_" * line_length)
    for number, line in enumerate(table):
        if number == 1:
            print_fn("=" * line_length)
        elif number > 1 and line[0]:
            print_fn("_" * line_length)
        print_fn("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    print_fn("=" * line_length)
    trainable = sum(math.prod(variable.shape) for variable in model.trainable_weights)
    total = model.count_params()
    print_fn(f"Total params: {total:,}")
    print_fn(f"Trainable params: {trainable:,}")
    print_fn(f"Non-trainable params: {total - trainable:,}")


def _shape(layer):
    outputs = layer.output
    if isinstance(outputs, (list, tuple)) and len(outputs) > 1:
        return "[" + ", ".join(str(tuple(tensor.shape)) for tensor in outputs) + "]"
    return str(tuple(keras.tree.flatten(outputs)[0].shape))
