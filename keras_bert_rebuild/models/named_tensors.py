"""The inputs and the outputs of a model by name, and which tokens are not padding."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one


def named_inputs(model: keras.Model, inputs: Any) -> dict[str, Any]:
    """The inputs of a model by their names, unchanged.

    Args:
        model: the model.
        inputs: a dictionary by name, or as many arrays as the model has inputs, in order, also nested.
    """
    if isinstance(inputs, dict):
        return inputs
    return {tensor.name: value for tensor, value in zip(model.inputs, keras.tree.flatten(inputs), strict=True)}


def ids_of(model: keras.Model, inputs: Any) -> dict[str, Any]:
    """The inputs of a model by name, as int32 tensors, without other items of a dictionary.

    Args:
        model, inputs: as for `named_inputs`.
    """
    named = named_inputs(model, inputs)
    return {tensor.name: ops.cast(ops.convert_to_tensor(named[tensor.name]), "int32") for tensor in model.inputs}


def token_mask(layers: Mapping[str, Any], ids: Mapping[str, Any]) -> Any:
    """The mask of the embedding: False at padding, or for packed rows the numbers of sequences, `(batch, length)`.

    None for a model without padding.

    Args:
        layers: the layers of the model by name.
        ids: the result of `ids_of`.
    """
    tokens = [ids[name] for name in ("Input-Token", "Input-Mask") if name in ids]
    return layers["Embedding-Token"].compute_mask(tokens if len(tokens) > 1 else tokens[0])[0]


def is_packed(model: keras.Model) -> bool:
    """Whether the rows of a model hold several sequences, that is, it was built with `packed=True`."""
    return any(layer.name == "Embedding-Token" and getattr(layer, "packed", False) for layer in model.layers)


def settings_of_inputs(model: keras.Model) -> dict[str, Any]:
    """The arguments of `build_model` that give another model the same inputs: length, mask input, and packing.

    Args:
        model: a model from `build_model`.
    """
    masked = any(tensor.name == "Input-Mask" for tensor in model.inputs)
    return {"seq_len": model.inputs[0].shape[1], "padding_mask": masked, "packed": is_packed(model)}


def by_head(heads: Sequence[str], values: Any, strict: bool = True) -> dict[str, Any]:
    """A value for every output, from a dictionary, a list, or one value for all outputs; None for an output without one.

    Args:
        heads: the names of the outputs.
        values: the values.
        strict: whether values must fit; Keras reports those that do not, later.

    Raises:
        ValueError: with `strict`, a dictionary has none of the names, or a list another length.
    """
    if isinstance(values, dict):
        if strict and values and not set(heads) & set(values):
            raise ValueError(f"expected values by the names of the outputs, {', '.join(heads)}; got {', '.join(map(str, values))}.")
        return {head: values.get(head) for head in heads}
    values = values if isinstance(values, (list, tuple)) else [values] * len(heads)
    if strict and len(values) != len(heads):
        raise ValueError(f"expected one value for each of the outputs {', '.join(heads)}; got {len(values)}.")
    return dict(itertools.islice(itertools.zip_longest(heads, values), len(heads)))


def in_order(heads: Sequence[str], values: Mapping[str, Any]) -> Any:
    """The values in the order of the outputs; for a single output the value itself, not a list."""
    return bare_if_one([values[head] for head in heads])
