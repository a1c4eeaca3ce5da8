"""Rebuild a model with other sizes, keeping its weights where they still fit."""

from collections.abc import Callable
from typing import Any

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model, dtype_scope
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.models.named_tensors import settings_of_inputs


def check_can_be_rebuilt(model: keras.Model, reason: str) -> None:
    """Refuse a model without a config, or whose weights are integers.

    Args:
        model: the model.
        reason: why it must not be quantised, and what to do instead.

    Raises:
        ValueError: it is such a model.
    """
    if not isinstance(getattr(model, "config", None), BertConfig):
        raise ValueError("the model must have a config, from which it is rebuilt; a model assembled by hand has none.")
    if any(getattr(layer, "quantization_mode", None) for layer in model.layers):
        raise ValueError(f"the model must not be quantised yet, {reason}.")


def rebuilt(model: keras.Model, config: BertConfig, value_of: Callable[[str, Any], Any]) -> BertModel:
    """A copy of a model with another config; heads, inputs, dtype and trainable flags stay the same.

    Args:
        model: from `get_model`, `build_model` or `from_pretrained`; it is not changed.
        config: the config of the new model, whose weights have the same names.
        value_of: a function from a path and the old model's variable to the new value: an array on the host, and a copy, since
            training one of two models that share a JAX buffer deletes it.

    Raises:
        ValueError: the weights of the model are not those that its config describes.
    """
    heads = heads_of(model)
    with dtype_scope(model.get_layer("Embedding-Token").dtype_policy):
        new = build_model(config, heads, output_layer_num=1 if heads else _output_blocks(model), **settings_of_inputs(model))
    old = {variable.path: variable for variable in model.weights}
    different = sorted(old.keys() ^ {variable.path for variable in new.weights})
    if different:
        raise ValueError(f"the model must have exactly the weights that its config describes; it differs in {different}.")
    for layer in new.layers:
        layer.trainable = model.get_layer(layer.name).trainable
    for variable in new.weights:
        source = old[variable.path]
        variable.assign(value_of(source.path, source))
        variable.trainable = source.trainable  # nested layers may be frozen separately
    return new


def _output_blocks(model):
    """The indices of the blocks that a model without heads outputs, as `output_layer_num`, read from its graph."""
    graph = model.get_config()
    outputs = [keras.tree.flatten(graph["output_layers"])]
    for layer in graph["layers"]:
        if layer["name"] == "Encoder-Output":
            outputs = [tensor["config"]["keras_history"] for tensor in layer["inbound_nodes"][0]["args"][0]]
    layers_of_block = {}
    for i, block in enumerate(EncoderView(model).blocks):
        if block.last is not None:
            layers_of_block.setdefault(block.last.name, []).append(i)
    # If layers share a block, the index of the call tells them apart; `output_layer_num` lists the last output first.
    return [layers_of_block[name][call] for name, call, _ in reversed(outputs)]
