"""Find the encoder inside any model."""

import re
from collections.abc import Iterator
from typing import Any

import keras

from keras_bert_rebuild.layers import MultiHeadSelfAttention
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.encoder import TOKEN
from keras_bert_rebuild.models.encoder_blocks import RELATIVE
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.named_tensors import is_packed

ATTENTION = "Encoder-{}-MultiHeadSelfAttention"


def find_encoder(model: keras.Model) -> EncoderView:
    """The encoder of a model: in the model itself, or in the one nested model that has attention layers.

    Its blocks are those in the graph, which may end before the last block of the config, or have no config.

    Args:
        model: a model of this library with any heads, or any model that contains one as a layer.

    Raises:
        ValueError: there is no encoder, there are several, or there are other layers between the blocks.
    """
    hosts = [part for part in models_in(model) if any(isinstance(layer, MultiHeadSelfAttention) for layer in part.layers)]
    if len(hosts) != 1:
        raise ValueError(f"model must have one encoder with MultiHeadSelfAttention layers; {_name(model)} has {len(hosts)}.")
    host = hosts[0]
    if is_packed(host):
        raise ValueError(f"model must take one sequence per row; {_name(model)} was built with packed=True: save it and load it.")
    read_by = connections(host)
    numbers = sorted(int(match[1]) for name in read_by if (match := re.fullmatch(ATTENTION.format(r"(\d+)"), name)))
    if not numbers:
        names = [layer.name for layer in host.layers if isinstance(layer, MultiHeadSelfAttention)]
        raise ValueError(f"attention layers must be called {ATTENTION.format('1')} and so on; got {', '.join(names)}.")
    if TOKEN not in read_by:
        raise ValueError(f"the encoder must have the layers {TOKEN}; {TOKEN} is missing.")
    runs = [n for n in numbers for _ in _sequences(read_by[ATTENTION.format(n)])]
    encoder = EncoderView(host, runs, BertModel)
    _check_connections(read_by, encoder)
    return encoder


def models_in(model: keras.Model) -> list[keras.Model]:
    """A model and all models nested in it, each once."""
    models = [model]
    for part in models:
        models += [layer for layer in part.layers if isinstance(layer, keras.Model) and layer not in models]
    return models


def connections(model: keras.Model) -> dict[str, tuple[str, ...]]:
    """By the name of each layer the tensors that it reads, as `layer[node][tensor]`, in the order of its calls.

    Args:
        model: a functional model.

    Raises:
        ValueError: the model has no graph, as subclassed and sequential models do not.
    """
    config = model.get_config()
    if "input_layers" not in config:
        raise ValueError(f"a summary with connections needs a functional model; got a {type(model).__name__}, which has no graph.")
    return {layer["name"]: tuple(_origins(layer["inbound_nodes"])) for layer in config["layers"]}


def _origins(nodes: Any) -> Iterator[str]:
    """The input tensors of all calls of a layer, from the config of the model, in order."""
    if isinstance(nodes, dict):
        if nodes.get("class_name") == "__keras_tensor__":
            layer, node, tensor = nodes["config"]["keras_history"]
            yield f"{layer}[{node}][{tensor}]"
            return
        nodes = nodes.values()
    if not isinstance(nodes, (str, bytes)) and hasattr(nodes, "__iter__"):
        for node in nodes:
            yield from _origins(node)


def _check_connections(read_by, encoder):
    """Refuse blocks that read anything but the previous block: running them one by one must equal the graph."""
    ends = {block.last.name for block in encoder.blocks if block.last is not None}
    for number, block in zip(encoder.numbers, encoder.blocks, strict=True):
        before, skipped = ends, number == encoder.numbers[0]
        for half in block.halves:
            name = block.first_of(half).name
            for origin in _sequences(read_by[name])[skipped:]:
                if origin not in before:
                    raise ValueError(f"{name} must read the previous block, as in the models of this library; it reads {origin}.")
            after = half.add if block.order == "pre" else half.norm
            before, skipped = {after.name} if after is not None else set(), 0


def _sequences(tensors):
    """The layers whose outputs a layer reads, without the values that all blocks read."""
    origins = [tensor.split("[")[0] for tensor in tensors]
    return [origin for origin in origins if not origin.startswith(RELATIVE)]


def _name(model):
    return f"{model.name} ({type(model).__name__})"
