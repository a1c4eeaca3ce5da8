"""Activations as nodes of an ONNX graph."""

import keras

from keras_bert_rebuild.layers.activations import gelu, gelu_erf, quick_gelu


def _quick_gelu(graph, x):
    scaled = graph.node("Mul", x, graph.constant(1.702))
    return graph.node("Mul", x, graph.node("Sigmoid", scaled))


def _one(operator, **attributes):
    return lambda graph, x: graph.node(operator, x, **attributes)


# Function, what makes its nodes.
ACTIVATIONS = {
    gelu: _one("Gelu", approximate="tanh"),
    gelu_erf: _one("Gelu", approximate="none"),
    quick_gelu: _quick_gelu,
    keras.activations.gelu: _one("Gelu", approximate="none"),
    keras.activations.linear: lambda graph, x: x,
    keras.activations.relu: _one("Relu"),
    keras.activations.sigmoid: _one("Sigmoid"),
    keras.activations.silu: lambda graph, x: graph.node("Mul", x, graph.node("Sigmoid", x)),
    keras.activations.softmax: _one("Softmax", axis=-1),
    keras.activations.softplus: _one("Softplus"),
    keras.activations.tanh: _one("Tanh"),
    None: lambda graph, x: x,
}


def activate(graph, layer, activation, x):
    """Append an activation; the name of its output.

    Raises:
        ValueError: ONNX has no nodes for it here.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"{layer.name}: an activation to export must be one of {_names()}; got {activation!r}.")
    return ACTIVATIONS[activation](graph, x)


def _names():
    return ", ".join(function.__name__ for function in ACTIVATIONS if function is not None)
