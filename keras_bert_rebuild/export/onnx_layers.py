"""ONNX nodes for every class of layer. How layers are connected is read from the graph of the model."""

import functools
import inspect
import re

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.export.onnx_attention import (
    disentangled_attention,
    distance_embedding,
    relative_attention,
    relative_embedding,
    segment_difference,
    self_attention,
)
from keras_bert_rebuild.export.onnx_graph import Value, activate, check_is_float, dense, token_offsets
from keras_bert_rebuild.export.onnx_pooling import (
    average,
    extract,
    first_features,
    greatest,
    position_average,
    residual_dense,
    root_average,
    vocabulary_pooling,
    without_leading_tokens,
)
from keras_bert_rebuild.layers.position_embedding import speeds
from keras_bert_rebuild.models.vocabulary_pooling import VocabularyPooling

# Settings that do not affect outputs, and settings for which only one value, not the default, is supported.
OF_TRAINING = re.compile(
    r"name|trainable|dtype|seed|noise_shape|stop_gradient|(lora|quantization)_\w+|(\w+_)?(initializer|regularizer|constraint)"
    r"|(attention_)?dropout|(dropout_)?rate"
)
ONLY = {"rms_scaling": False, "data_format": "channels_last", "mode": "add"}


def nodes_of(graph, layer, inputs):
    """Append the computation of a layer.

    Args:
        graph: an `OnnxGraph`.
        layer: a layer, or the operation of `x + y`.
        inputs: its input `Value`s.

    Returns:
        Its output `Value`s.

    Raises:
        ValueError: its class is not in `LAYERS`, or a setting that is not supported differs from the default.
    """
    kind = type(layer)
    write, read = LAYERS.get(kind if isinstance(layer, keras.Layer) else kind.__name__, (None, ""))
    if write is None:
        names = dict.fromkeys(key if isinstance(key, str) else key.__name__ for key in LAYERS)
        raise ValueError(f"a layer to export to ONNX must be one of {', '.join(names)}; {layer.name} is a {kind.__name__}.")
    signatures = [inspect.signature(part.__init__).parameters for part in reversed(kind.__mro__)]
    defaults = {name: parameter.default for signature in signatures for name, parameter in signature.items()} | ONLY
    for name, value in layer.get_config().items() if isinstance(layer, keras.Layer) else ():
        default = defaults.get(name)
        if name not in read.split() and not OF_TRAINING.fullmatch(name) and value not in (default, [default], (default,)):
            raise ValueError(f"{layer.name}: {name} must be {default!r} to be exported to ONNX; got {value!r:.80}.")
    return write(graph, layer, inputs)


def _dense(graph, layer, inputs):
    return [Value(dense(graph, layer, inputs[0].name), inputs[0].mask)]


def _add(graph, layer, inputs):
    masks = dict.fromkeys(value.mask for value in inputs if value.mask is not None)
    return [Value(_plus(graph, layer, inputs)[0].name, _joined(graph, "And", masks))]


def _add_of_keras(graph, layer, inputs):
    return [Value(_plus(graph, layer, inputs)[0].name, _any_mask(graph, inputs))]


def _plus(graph, layer, inputs):
    return [Value(_joined(graph, "Add", [value.name for value in inputs]), None)]


def _layer_normalization(graph, layer, inputs):
    weights = [graph.weight(layer.gamma), *([graph.weight(layer.beta)] if layer.center else [])]
    name = graph.node("LayerNormalization", inputs[0].name, *weights, axis=-1, epsilon=float(layer.epsilon))
    return [Value(name, inputs[0].mask)]


def _rms_normalization(graph, layer, inputs):
    x = inputs[0].name
    squares = graph.node("ReduceMean", graph.node("Mul", x, x), graph.scalars(-1), keepdims=1)
    root = graph.node("Sqrt", graph.node("Add", squares, graph.constant(float(layer.epsilon))))
    mask = inputs[0].mask if layer.supports_masking else None  # Keras's own layer drops the mask
    return [Value(graph.node("Mul", graph.node("Div", x, root), graph.weight(layer.scale)), mask)]


def _feed_forward(graph, layer, inputs):
    x = dense(graph, layer.intermediate_dense, inputs[0].name)
    if layer.gated:
        x = graph.node("Mul", activate(graph, layer, layer.activation, dense(graph, layer.gate_dense, inputs[0].name)), x)
    else:
        x = activate(graph, layer, layer.activation, x)
    return [Value(dense(graph, layer.output_dense, x), inputs[0].mask)]


def _to_length_one(graph, layer, inputs):
    length = graph.node("ReduceL2", inputs[0].name, graph.scalars(-1), keepdims=1)
    return [Value(graph.node("Div", inputs[0].name, graph.node("Max", length, graph.constant(1e-12))), inputs[0].mask)]


def _concatenate(graph, layer, inputs):
    return [Value(graph.node("Concat", *(value.name for value in inputs), axis=-1), _any_mask(graph, inputs))]


def _similarity(graph, layer, inputs):
    x = graph.node("MatMul", inputs[0].name, graph.node("Transpose", inputs[1].name, perm=(1, 0)))
    if layer.use_bias:
        x = graph.node("Add", x, graph.weight(layer.bias))
    return [Value(graph.node("Softmax", x, axis=-1), inputs[0].mask)]


def _activation(graph, layer, inputs):
    return [Value(activate(graph, layer, layer.activation, inputs[0].name), inputs[0].mask)]


def _first(graph, layer, inputs):
    return [inputs[0]]


def _token_embedding(graph, layer, inputs):
    """The nodes of a `TokenEmbedding`: the vectors, with the padding mask, and the table."""
    check_is_float(layer)
    ids, *explicit = (value.name for value in inputs)
    table = graph.weight(layer.embeddings)
    mask = None
    if explicit or layer.mask_zero:
        compared, zero = (explicit[0], 0) if explicit else (ids, layer.pad_id)
        mask = graph.node("Not", graph.node("Equal", compared, graph.constant(zero, "int64")))
    return [Value(graph.node("Gather", table, ids), mask), Value(table, None)]


def _embedding(graph, layer, inputs):
    """The nodes of an `Embedding`."""
    check_is_float(layer)
    return [Value(graph.node("Gather", graph.weight(layer.embeddings), inputs[0].name), None)]


def _position_embedding(graph, layer, inputs):
    """The nodes of a `PositionEmbedding`, which adds the first rows of its table."""
    x, mask = inputs[0]
    length = graph.node("Shape", x, start=1, end=2)
    stop = graph.node("Add", length, graph.scalars(layer.offset))
    rows = graph.node("Slice", graph.weight(layer.embeddings), graph.scalars(layer.offset), stop, graph.scalars(0))
    return [Value(graph.node("Add", x, rows), mask)]


def _sinusoids(graph, layer, inputs):
    """The nodes of a `TrigPosEmbedding`."""
    x, mask = inputs[0]
    width = layer.output.shape[-1]
    offsets = graph.node("Unsqueeze", graph.node("Cast", token_offsets(graph, x), to=1), graph.scalars(-1))  # 1: float32
    angles = graph.node("Mul", offsets, graph.constant(speeds(width).tolist()))
    even = graph.constant([float(channel % 2 == 0) for channel in range(width)])
    odd = graph.constant([float(channel % 2) for channel in range(width)])
    sines, cosines = graph.node("Mul", graph.node("Sin", angles), even), graph.node("Mul", graph.node("Cos", angles), odd)
    return [Value(graph.node("Add", x, graph.node("Add", sines, cosines)), mask)]


def _scale(graph, layer, inputs):
    """The nodes of a `Rescaling`."""
    scaled = graph.node("Mul", inputs[0].name, graph.constant(float(layer.scale)))
    return [Value(graph.node("Add", scaled, graph.constant(float(layer.offset))) if layer.offset else scaled, inputs[0].mask)]


def _masked_convolution(graph, layer, inputs):
    """The nodes of a `MaskedConv1D` that preserves the length.

    Raises:
        ValueError: its padding is not "same", or its width is even.
    """
    if layer.padding != "same" or layer.kernel_size[0] % 2 == 0:
        raise ValueError(
            f"{layer.name}: a convolution must have padding 'same' and an odd width to be exported to ONNX; got padding "
            f"{layer.padding!r} and width {layer.kernel_size[0]}."
        )
    x, mask = inputs[0]
    if mask is not None:
        x = graph.node("Mul", x, graph.node("Unsqueeze", graph.node("Cast", mask, to=1), graph.scalars(-1)))  # 1: float32
    kernel = graph.node("Transpose", graph.weight(layer.kernel), perm=(2, 1, 0))  # (size, in, out) → (out, in, size)
    half = layer.kernel_size[0] // 2
    bias = [graph.weight(layer.bias)] if layer.use_bias else []
    y = graph.node("Conv", graph.node("Transpose", x, perm=(0, 2, 1)), kernel, *bias, pads=[half, half])
    return [Value(activate(graph, layer, layer.activation, graph.node("Transpose", y, perm=(0, 2, 1))), mask)]


# Class of a layer to a function from graph, layer and input values to output values, and the settings it supports. The operation of
# `x + y`, whose class is private, is listed by name.
LAYERS = {
    "Add": (_plus, ""),
    keras.layers.Activation: (_activation, "activation"),
    keras.layers.Add: (_add_of_keras, ""),
    keras.layers.Concatenate: (_concatenate, ""),
    keras.layers.Dense: (_dense, "units activation use_bias"),
    keras.layers.Dropout: (_first, ""),
    keras.layers.Embedding: (_embedding, "input_dim output_dim"),
    keras.layers.GlobalAveragePooling1D: (average, ""),
    keras.layers.LayerNormalization: (_layer_normalization, "epsilon center"),
    keras.layers.Rescaling: (_scale, "scale offset"),
    keras.layers.RMSNormalization: (_rms_normalization, "epsilon"),
    keras.layers.UnitNormalization: (_to_length_one, ""),
    layers.Add: (_add, ""),
    layers.Dense: (_dense, "units activation use_bias"),
    layers.DisentangledSelfAttention: (
        disentangled_attention,
        "head_num activation use_bias buckets reach terms share_keys position_dropout",
    ),
    layers.DistanceEmbedding: (distance_embedding, "reach"),
    layers.Dropout: (_first, ""),
    layers.Embedding: (_embedding, "input_dim output_dim"),
    layers.EmbeddingSimilarity: (_similarity, "use_bias"),
    layers.Extract: (extract, "index skip_padding"),
    layers.FirstFeatures: (first_features, "width"),
    layers.FeedForward: (_feed_forward, "units activation use_bias gated use_output_bias"),
    layers.LayerNormalization: (_layer_normalization, "epsilon center"),
    layers.Masked: (_first, ""),
    layers.MaskedConv1D: (_masked_convolution, "filters kernel_size padding activation use_bias"),
    layers.MaskedGlobalMaxPool1D: (greatest, ""),
    layers.MaskedPositionPool1D: (position_average, "first"),
    layers.MaskedSquareRootPool1D: (root_average, ""),
    layers.MultiHeadSelfAttention: (self_attention, "head_num activation use_bias rotary_theta window rotary_factor"),
    layers.RMSNormalization: (_rms_normalization, "epsilon"),
    layers.PositionEmbedding: (_position_embedding, "input_dim output_dim mask_zero offset"),
    layers.QueryEmbedding: (_first, ""),
    layers.RelativeEmbedding: (relative_embedding, "input_dim output_dim"),
    layers.RelativeSelfAttention: (relative_attention, "head_num activation use_bias"),
    layers.ResidualDense: (residual_dense, "units activation use_bias"),
    layers.SegmentDifference: (segment_difference, ""),
    layers.TokenEmbedding: (_token_embedding, "input_dim output_dim mask_zero pad_id"),
    layers.TrigPosEmbedding: (_sinusoids, ""),
    VocabularyPooling: (vocabulary_pooling, "pooling activation"),
    layers.WithoutLeadingTokens: (without_leading_tokens, "count"),
}


def _joined(graph, operator, names):
    """names[0] operator names[1] operator ...; None if there are no names."""
    return functools.reduce(lambda one, other: graph.node(operator, one, other), names) if names else None


def _any_mask(graph, inputs):
    """The mask of a merged value, as Keras combines it: the logical or; no mask if an input has none."""
    masks = dict.fromkeys(value.mask for value in inputs)
    return None if None in masks else _joined(graph, "Or", masks)
