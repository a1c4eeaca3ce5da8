"""ONNX nodes for embeddings, positions and scaling."""

from keras_bert_rebuild.export.onnx_graph import Value, check_is_float
from keras_bert_rebuild.layers.position_embedding import speeds


def token_embedding(graph, layer, inputs):
    """The nodes of a `TokenEmbedding`: the vectors, with the padding mask, and the table."""
    check_is_float(layer)
    ids, *explicit = (value.name for value in inputs)
    table = graph.weight(layer.embeddings)
    mask = None
    if explicit or layer.mask_zero:
        compared, zero = (explicit[0], 0) if explicit else (ids, layer.pad_id)
        mask = graph.node("Not", graph.node("Equal", compared, graph.constant(zero, "int64")))
    return [Value(graph.node("Gather", table, ids), mask), Value(table, None)]


def embedding(graph, layer, inputs):
    """The nodes of an `Embedding`."""
    check_is_float(layer)
    return [Value(graph.node("Gather", graph.weight(layer.embeddings), inputs[0].name), None)]


def position_embedding(graph, layer, inputs):
    """The nodes of a `PositionEmbedding`, which adds the first rows of its table."""
    x, mask = inputs[0]
    length = graph.node("Shape", x, start=1, end=2)
    stop = graph.node("Add", length, graph.scalars(layer.offset))
    rows = graph.node("Slice", graph.weight(layer.embeddings), graph.scalars(layer.offset), stop, graph.scalars(0))
    return [Value(graph.node("Add", x, rows), mask)]


def sinusoids(graph, layer, inputs):
    """The nodes of a `TrigPosEmbedding`."""
    x, mask = inputs[0]
    width = layer.output.shape[-1]
    offsets = graph.node("Unsqueeze", graph.node("Cast", token_offsets(graph, x), to=1), graph.scalars(-1))  # 1: float32
    angles = graph.node("Mul", offsets, graph.constant(speeds(width).tolist()))
    even = graph.constant([float(channel % 2 == 0) for channel in range(width)])
    odd = graph.constant([float(channel % 2) for channel in range(width)])
    sines, cosines = graph.node("Mul", graph.node("Sin", angles), even), graph.node("Mul", graph.node("Cos", angles), odd)
    return [Value(graph.node("Add", x, graph.node("Add", sines, cosines)), mask)]


def scale(graph, layer, inputs):
    """The nodes of a `Rescaling`."""
    scaled = graph.node("Mul", inputs[0].name, graph.constant(float(layer.scale)))
    return [Value(graph.node("Add", scaled, graph.constant(float(layer.offset))) if layer.offset else scaled, inputs[0].mask)]


def token_offsets(graph, x):
    """The indices 0, 1, 2, ... of the tokens of `x`, int64 `(length,)`."""
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    return graph.node("Range", graph.constant(0, "int64"), length, graph.constant(1, "int64"))
