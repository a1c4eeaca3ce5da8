"""ONNX nodes for relative attention, its sinusoids of distances and its segments."""

from keras_bert_rebuild.export.onnx_disentangled import shifted
from keras_bert_rebuild.export.onnx_graph import Value, dense, of_padding
from keras_bert_rebuild.layers.position_embedding import speeds


def distance_embedding(graph, layer, inputs):
    """The nodes of a `DistanceEmbedding`."""
    length, steps = _length_and_steps(graph, inputs[0].name)
    distances = graph.node("Sub", length, steps)
    if layer.reach is not None:
        distances = graph.node("Clip", distances, graph.constant(-layer.reach, "int64"), graph.constant(layer.reach, "int64"))
    column = graph.node("Unsqueeze", graph.node("Cast", distances, to=1), graph.scalars(-1))  # 1: float32
    angles = graph.node("Mul", column, graph.constant(speeds(layer.output.shape[-1])[::2].tolist()))
    return [Value(graph.node("Concat", graph.node("Sin", angles), graph.node("Cos", angles), axis=-1), None)]


def segment_difference(graph, layer, inputs):
    """The nodes of a `SegmentDifference`."""
    rows, columns = (graph.node("Unsqueeze", inputs[0].name, graph.scalars(axis)) for axis in (2, 1))
    return [Value(graph.node("Not", graph.node("Equal", rows, columns)), None)]


def relative_attention(graph, layer, inputs):
    """The nodes of a `RelativeSelfAttention`."""
    (x, mask), (table, _), (differ, _) = inputs
    count, width = layer.head_num, layer.query_dense.units // layer.head_num

    def heads(projection):
        split = graph.node("Reshape", dense(graph, projection, x), graph.scalars(0, 0, count, width))
        return graph.node("Transpose", split, perm=(0, 2, 1, 3))

    def of_heads(variable, rows):
        split = graph.node("Reshape", graph.weight(variable), graph.scalars(rows, count, width))
        return graph.node("Transpose", split, perm=(1, 0, 2))  # (H, rows, K)

    def product(bias, keys, order):
        biased = graph.node("Add", query, of_heads(bias, 1))
        return graph.node("MatMul", biased, graph.node("Transpose", keys, perm=order))

    query, key = heads(layer.query_dense), heads(layer.key_dense)
    length, _ = _length_and_steps(graph, x)
    scores = product(layer.content_bias, key, (0, 1, 3, 2))  # (B, H, L, S)
    rows = graph.node("Reshape", dense(graph, layer.position_key_dense, table), graph.scalars(-1, count, width))
    distances = graph.node("Transpose", rows, perm=(1, 0, 2))
    scores = graph.node("Add", scores, shifted(graph, product(layer.position_bias, distances, (0, 2, 1)), length, count))
    segments = product(layer.segment_bias, of_heads(layer.segment_embeddings, 2), (0, 2, 1))  # (B, H, L, 2)
    same, other = (graph.node("Slice", segments, graph.scalars(i), graph.scalars(i + 1), graph.scalars(3)) for i in range(2))
    added = graph.node("Where", graph.node("Unsqueeze", differ, graph.scalars(1)), other, same)
    scores = graph.node("Div", graph.node("Add", scores, added), graph.constant(layer.divisor(width)))
    if mask is not None:
        scores = graph.node("Add", scores, of_padding(graph, mask))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), heads(layer.value_dense))
    joined = graph.node("Reshape", graph.node("Transpose", mixed, perm=(0, 2, 1, 3)), graph.scalars(0, 0, layer.query_dense.units))
    return [Value(dense(graph, layer.output_dense, joined), mask)]


def _length_and_steps(graph, x):
    """The length L of a sequence, and 0 to 2 · L − 1."""
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    both = graph.node("Mul", length, graph.constant(2, "int64"))
    return length, graph.node("Range", graph.constant(0, "int64"), both, graph.constant(1, "int64"))
