"""A model as an ONNX file, converted from its graph on every backend, with only the package onnx."""

import keras

from keras_bert_rebuild.export.onnx_graph import OnnxGraph, Value
from keras_bert_rebuild.export.onnx_layers import nodes_of
from keras_bert_rebuild.export.runtimes import LEFT_OUT, input_names, output_names
from keras_bert_rebuild.tasks.embedding_model import for_any_length

# The maximum size of a protobuf file is 2 GB; larger weights go into a second file.
MOST_BYTES = 1_900_000_000


def onnx_model(model):
    """The `onnx.ModelProto` of a model, for batches of any size and length.

    Keras's own `model.export(format="onnx")` needs TensorFlow and tf2onnx, or torch, takes a minute, and names neither free
    dimensions nor outputs.

    Args:
        model: a functional model of this library's layers.

    Raises:
        ValueError: as `nodes_of`; a layer is called with further arguments; or the package onnx is missing.
    """
    model = for_any_length(model)
    names = input_names(model)
    graph = OnnxGraph(names.values())
    values, kept = {}, []

    def write(layer, *args, **kwargs):
        outputs = layer(*args, **kwargs)
        kept.append(outputs)  # keep tensors alive, since ids of freed tensors are reused
        inputs = [values.get(id(tensor)) for tensor in keras.tree.flatten(args)]
        extra = [name for name, value in kwargs.items() if isinstance(value, keras.KerasTensor)]
        if extra or None in inputs:
            got = ", ".join(extra) or "a constant"
            raise ValueError(f"{layer.name}: a layer to export to ONNX must be called with its inputs only; got {got}.")
        results = nodes_of(graph, layer, inputs)
        values.update({id(tensor): value for tensor, value in zip(keras.tree.flatten(outputs), results, strict=True)})
        return outputs

    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=tensor.name) for tensor in model.inputs]
    values.update({id(tensor): Value(names.get(tensor.name, LEFT_OUT), None) for tensor in inputs})
    arranged = keras.tree.pack_sequence_as(model.input, inputs)
    walked = keras.models.clone_model(model, input_tensors=arranged, clone_function=lambda layer: layer, call_function=write)
    outputs = {name: values[id(tensor)].name for name, tensor in zip(output_names(model), walked.outputs, strict=True)}
    free = ("batch", "length")
    shapes = [[size or free[axis] for axis, size in enumerate(tensor.shape)] for tensor in walked.outputs]
    return graph.model(outputs, shapes)


def write_onnx(model, path):
    """Write a model as an ONNX file; weights beyond 2 GB go into a second file with the suffix `.data` appended."""
    proto = onnx_model(model)
    import onnx

    if proto.ByteSize() < MOST_BYTES:
        onnx.save_model(proto, path)
    else:
        onnx.save_model(proto, path, save_as_external_data=True, location=f"{path.name}.data")
