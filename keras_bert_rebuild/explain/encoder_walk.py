"""Run the encoder inside any model block by block, to get intermediate values."""

import re
from collections import namedtuple

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.encoder_blocks import HALVES, RELATIVE, Context, block_of, input_of, run_block, shared_with
from keras_bert_rebuild.models.named_inputs import ids_of, is_packed, real_tokens

# The encoder of a model: the functional model that directly contains its layers, the graph of that model up to the first block, its
# layers by name, the number of every block in execution order (a shared block once per run), and whether blocks are pre-norm
# ("pre") or post-norm ("post").
Encoder = namedtuple("Encoder", ["host", "embedding", "layers", "blocks", "order"])

ATTENTION = "Encoder-{}-MultiHeadSelfAttention"
NEEDED = ("Embedding-Token",)


def find_encoder(model):
    """The encoder of a model: the model itself, or the one nested model that has attention layers.

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
    layers = {layer.name: layer for layer in host.layers}
    rows = {row.name: row for row in summary_rows(host)}
    numbers = sorted(int(found[1]) for name in rows if (found := re.fullmatch(ATTENTION.format(r"(\d+)"), name)))
    if not numbers:
        names = [layer.name for layer in host.layers if isinstance(layer, MultiHeadSelfAttention)]
        raise ValueError(f"attention layers must be called {ATTENTION.format('1')} and so on; got {', '.join(names)}.")
    missing = [name for name in NEEDED if name not in rows]
    if missing:
        raise ValueError(f"the encoder must have the layers {', '.join(NEEDED)}; {', '.join(missing)} is missing.")
    order = _order(host)
    _check_connections(rows, numbers, order)
    needed = [tensor for tensor in host.inputs if tensor.name != "Input-Masked"]
    first = block_of(layers, numbers[0], order)
    embedding = BertModel(bare_if_one(needed), bare_if_one([input_of(first), *shared_with(first)]))
    blocks = [n for n in numbers for _ in _sequences(rows[ATTENTION.format(n)])]
    return Encoder(host, embedding, layers, blocks, order)


def encoder_inputs(encoder, inputs):
    """The inputs of the embedding as a dictionary of arrays `(batch, length)`.

    Args:
        encoder: from `find_encoder`.
        inputs: inputs of the model: a dictionary by name, a list in order, or one array; `Input-Masked` may be left out.

    Raises:
        ValueError: an input is missing or is not such an array.
    """
    names = [tensor.name for tensor in encoder.embedding.inputs]
    all_names = [tensor.name for tensor in encoder.host.inputs]
    if not isinstance(inputs, dict):
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        given = names if len(values) == len(names) else all_names
        if len(values) != len(given):
            raise ValueError(f"expected {len(names)} inputs, {', '.join(names)}; got {len(values)}.")
        inputs = dict(zip(given, values, strict=True))
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(f"expected the inputs {', '.join(names)}; {', '.join(missing)} is missing.")
    return {name: _array(name, inputs[name]) for name in names}


def embed(encoder, inputs):
    """The input of the first block, `(batch, length, hidden)`, the mask, `(batch, length)`, False at padding, and a tuple of the
    values that all blocks read.

    Args:
        encoder: from `find_encoder`.
        inputs: from `encoder_inputs`.

    Raises:
        ValueError: an id is outside its table, or a row is too long.
    """
    outputs = encoder.embedding(bare_if_one(list(inputs.values())), training=False)
    x, *shared = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    mask = real_tokens(encoder.layers, ids_of(encoder.embedding, inputs))
    return x, ops.ones(x.shape[:2], "bool") if mask is None else mask, tuple(shared)


def run_encoder_block(encoder, number, x, mask, shared):
    """The output of a block in inference mode, computed by the layers of the model."""
    # Without gradients: torch would save the activations of every block for a backward pass.
    block = block_of(encoder.layers, number, encoder.order)
    return ops.stop_gradient(run_block(block, x, Context(mask=mask, training=False, shared=shared)))


def read_by_attention(encoder, number, x):
    """What attention reads in a block with input `x`: pre-norm blocks apply the norm first."""
    half = block_of(encoder.layers, number, encoder.order).halves[0]
    return half.norm(x) if encoder.order == "pre" and half.norm is not None else x


def heads_present(encoder):
    """For every block, in execution order, the indices of its heads; if some were pruned, by their indices before pruning.

    Args:
        encoder: from `find_encoder`.
    """
    config = getattr(encoder.host, "config", None)
    if config is None:
        return [tuple(range(encoder.layers[ATTENTION.format(number)].head_num)) for number in encoder.blocks]
    present = {block.number: block.attention.present for block in config.encoder().blocks}
    return [present[number] for number in encoder.blocks]


def longest_text(encoder):
    """Maximum number of tokens of a text: the rows of the position table, or the maximum in the config."""
    of_table = getattr(encoder.layers.get("Embedding-Position"), "max_length", None)
    return encoder.host.config.max_length if of_table is None else of_table


def models_in(model):
    """A model and all models nested in it, each once."""
    found = [model]
    for part in found:
        found += [layer for layer in part.layers if isinstance(layer, keras.Model) and layer not in found]
    return found


def _array(name, values):
    try:
        array = np.asarray(ops.convert_to_numpy(values) if ops.is_tensor(values) else values)
    except ValueError:  # lists of several lengths
        raise ValueError(f"{name} must be an array (batch, length); got rows of different lengths.") from None
    if array.ndim != 2:
        raise ValueError(f"{name} must be an array (batch, length); got shape {array.shape}.")
    return array


def _order(host):
    """Whether blocks are pre-norm or post-norm, from the config; post-norm without a config."""
    config = getattr(host, "config", None)
    return config.encoder().blocks[0].order if config is not None else "post"


def _check_connections(rows, numbers, order):
    """Refuse blocks that read anything but the previous block: running them one by one must equal the graph."""
    for n in numbers:
        attention, feed_forward = (f"Encoder-{n}-{half}" for half in HALVES)
        if order == "post":
            expected = ((attention, r"Encoder-\d+-(FeedForward|Convolution)-Norm"), (feed_forward, f"{attention}-Norm"))
        else:
            first = f"{attention}-Norm" if f"{attention}-Norm" in rows else attention
            expected = ((first, r"Encoder-\d+-FeedForward-Add"), (f"{feed_forward}-Norm", f"{attention}-Add"))
        for name, before in expected:
            origins = [] if name not in rows else _sequences(rows[name])
            for origin in origins[n == numbers[0] and attention in name :]:
                if not re.fullmatch(before, origin):
                    raise ValueError(f"{name} must read the previous block, as in the models of this library; it reads {origin}.")


def _sequences(row):
    """The layers whose outputs a layer reads, without the values that all blocks read."""
    origins = [origin.split("[")[0] for origin in row.connected_to]
    return [origin for origin in origins if not origin.startswith(RELATIVE)]


def _name(model):
    return f"{model.name} ({type(model).__name__})"
