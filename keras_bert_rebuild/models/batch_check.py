"""The host check of one batch: the inputs of a model against its tables, and the labels of a pretraining model."""

from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.models.host_check import CLASSES, IdRule, check_ids, check_predictions
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.step_plan import StepPlan

# The layer whose table an input indexes, and what its rows are.
ID_INPUTS = {
    "Input-Token": ("Embedding-Token", "the tokens of the vocabulary"),
    "Input-Segment": ("Embedding-Segment", "the segments of the model"),
    "Input-Task": ("Embedding-Task", "the tasks of the model"),
    "Input-Masked": (None, ""),
    "Input-Mask": (None, ""),
}


def check_inputs(model: keras.Model, x: Any) -> Any:
    """The inputs, those on the host as integers; what is on a device or symbolic stays as it is.

    Args:
        model: a functional model.
        x: a dictionary by the names of its inputs, a list of them, or one array.

    Raises:
        ValueError: as `check_ids`; too few inputs, or unknown ones.
    """
    names = [tensor.name for tensor in model.inputs]
    if isinstance(x, dict):
        # If the inputs of a graph are a dictionary, its keys need not be the names.
        if not isinstance(model.input, dict) and not set(names) <= set(x):
            raise ValueError(f"expected the inputs {', '.join(names)}; got {', '.join(map(str, x))}.")
        return {name: _check_input(model, name, value) if name in names else value for name, value in x.items()}
    if isinstance(x, (list, tuple)) and len(names) > 1:
        if len(x) != len(names):
            raise ValueError(f"expected {len(names)} inputs, {', '.join(names)}; got {len(x)}.")
        return tuple(_check_input(model, name, value) for name, value in zip(names, x, strict=True))
    return _check_input(model, names[0], x) if len(names) == 1 else x


def check_labels(graph: PretrainingGraph, plan: StepPlan, x: Any, labels: dict[str, Any]) -> None:
    """Check labels that are ids; of the MLM head only those that count, not what is at other positions.

    Args:
        graph, plan: those of the model.
        x: its inputs.
        labels: by head, for heads whose labels are ids.

    Raises:
        ValueError: an id outside its table, a shape that does not fit, more positions to predict than `plan.max_predictions`.
    """
    labels = {head: concrete(label) for head, label in labels.items()}
    named = graph.named(x)
    given, padding = graph.padding_of(named)
    given, masked, mlm = concrete(given), concrete(named["Input-Masked"]), labels.get("MLM")
    if mlm is not None and given is not None and masked is not None:
        real = given != padding
        if plan.max_predictions is not None:
            check_predictions(masked, real, plan.max_predictions)
        if np.size(mlm) != masked.size:
            raise ValueError(f"labels of MLM: expected an id for every position, {masked.shape}; got shape {np.shape(mlm)}.")
        rule = IdRule("labels of MLM", graph.vocab_size, "the tokens of the vocabulary")
        check_ids(rule, np.where((masked != 0) & real, np.reshape(mlm, masked.shape), 0))
    for head, classes in CLASSES.items():
        if labels.get(head) is not None:
            check_ids(IdRule(f"labels of {head}", 2, classes), labels[head])


def concrete(values: Any) -> Any:
    """The values of a tensor or an array on the host, or None while a function is traced."""
    if not keras.ops.is_tensor(values):
        return values if values is None else np.asarray(values)
    try:
        return keras.ops.convert_to_numpy(values)
    except (TypeError, NotImplementedError, RuntimeError):  # JAX's tracers, TensorFlow's symbolic tensors, torch's fake tensors
        return None


def _check_input(model, name, value):
    if name not in ID_INPUTS or value is None or isinstance(value, keras.KerasTensor):
        return value
    if not keras.ops.is_tensor(value):
        return check_ids(_id_rule(model, name), value).astype("int32")
    on_host = concrete(value)
    if on_host is not None:
        check_ids(_id_rule(model, name), on_host)
    return value


def _id_rule(model, name):
    """The rule for an input, from the tables of the model."""
    table, rows = ID_INPUTS.get(name, (None, ""))
    layers = {layer.name: layer for layer in model.layers}
    position = layers.get("Embedding-Position")
    return IdRule(
        name,
        limit=layers[table].input_dim if table in layers else None,
        table=rows,
        max_length=position.max_length if position is not None and name != "Input-Task" else None,
    )
