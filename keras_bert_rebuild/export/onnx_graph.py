"""An ONNX graph under construction: nodes in order, every weight once."""

from collections import namedtuple

import keras
import numpy as np

from keras_bert_rebuild.export.runtimes import needed_package
from keras_bert_rebuild.layers.activations import gelu, gelu_erf, quick_gelu

# The first opset with an operator for gelu.
OPSET = 20

# Added to the scores of padding: its exponential is 0 in every precision that runtimes use.
OF_PADDING = -3e4

# A tensor of the graph: its name, and the name of its mask `(batch, length)`, True at tokens, or None.
Value = namedtuple("Value", ["name", "mask"])


class OnnxGraph:
    """Collects the nodes and weights of an ONNX model.

    Args:
        inputs: names of the inputs, int64 ids `(batch, length)`.
    """

    def __init__(self, inputs):
        self.onnx = needed_package("onnx", "onnx")
        self.inputs = list(inputs)
        self.nodes = []
        self.weights = {}
        self._made = {}

    def node(self, operator, *inputs, **attributes):
        """Append a node and return the name of its output; the same arguments again return the existing node."""
        key = (operator, inputs, tuple(sorted((name, str(value)) for name, value in attributes.items())))
        if key not in self._made:
            name = f"{operator}_{len(self.nodes)}"
            self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name, **attributes))
            self._made[key] = name
        return self._made[key]

    def weight(self, variable):
        """The name (path) of a variable's value in float32."""
        if variable.path not in self.weights:
            self.weights[variable.path] = keras.ops.convert_to_numpy(variable.value).astype(np.float32)
        return variable.path

    def constant(self, value, dtype="float32"):
        """The name of a small constant."""
        array = np.asarray(value, dtype)
        name = f"{dtype}_{'_'.join(map(str, array.shape))}_{array.ravel().tolist()}"
        self.weights.setdefault(name, array)
        return name

    def scalars(self, *values):
        """The name of a constant list of integers."""
        return self.constant(values, "int64")

    def model(self, outputs, shapes):
        """The `onnx.ModelProto`.

        Args:
            outputs: exported name to the value, in order.
            shapes: the shape of every output, with names for free dimensions.
        """
        helper, numpy_helper, types = self.onnx.helper, self.onnx.numpy_helper, self.onnx.TensorProto
        nodes = [*self.nodes, *(helper.make_node("Identity", [value], [name], name) for name, value in outputs.items())]
        graph = helper.make_graph(
            nodes,
            "bert",
            [helper.make_tensor_value_info(name, types.INT64, ["batch", "length"]) for name in self.inputs],
            [helper.make_tensor_value_info(name, types.FLOAT, shape) for name, shape in zip(outputs, shapes, strict=True)],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        opset = helper.make_opsetid("", OPSET)
        # The oldest format that has the operators, to support older runtimes.
        version = helper.find_min_ir_version_for([opset])
        return helper.make_model(graph, producer_name="keras_bert_rebuild", opset_imports=[opset], ir_version=version)


def _quick_gelu(graph, x):
    scaled = graph.node("Mul", x, graph.constant(1.702))
    return graph.node("Mul", x, graph.node("Sigmoid", scaled))


def _one(operator, **attributes):
    return lambda graph, x: graph.node(operator, x, **attributes)


# Activation function to a function that appends its nodes.
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
    """Append an activation and return the name of its output.

    Raises:
        ValueError: the activation is not supported.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"{layer.name}: an activation to export must be one of {_names()}; got {activation!r}.")
    return ACTIVATIONS[activation](graph, x)


def _names():
    return ", ".join(function.__name__ for function in ACTIVATIONS if function is not None)


def check_is_float(layer):
    """Refuse a layer with quantised weights."""
    if layer.quantization_mode is not None:
        raise ValueError(f"{layer.name}: weights must be floats, exported before quantisation; got {layer.quantization_mode}.")


def dense(graph, layer, x):
    """inputs · kernel + bias, and the activation."""
    check_is_float(layer)
    x = graph.node("MatMul", x, graph.weight(layer.kernel) if hasattr(layer.kernel, "path") else _merged(graph, layer))
    if layer.use_bias:
        x = graph.node("Add", x, graph.weight(layer.bias))
    x = activate(graph, layer, layer.activation, x)
    return activate(graph, layer, getattr(layer, "output_activation", None), x)


def _merged(graph, layer):
    """The kernel of a layer with LoRA, merged by Keras."""
    name = f"{layer.path}/kernel"
    graph.weights.setdefault(name, keras.ops.convert_to_numpy(layer.kernel).astype("float32"))
    return name


def padding_bias(graph, mask):
    """The padding mask as a term added to the scores, `(batch, 1, 1, keys)`."""
    bias = graph.node("Where", mask, graph.constant(0.0), graph.constant(OF_PADDING))
    return graph.node("Unsqueeze", bias, graph.scalars(1, 2))


def token_offsets(graph, x):
    """The indices 0, 1, 2, ... of the tokens of `x`, int64 `(length,)`."""
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    return graph.node("Range", graph.constant(0, "int64"), length, graph.constant(1, "int64"))
