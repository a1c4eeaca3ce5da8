"""ONNX nodes for attention: plain with rotary positions and windows, disentangled, and relative."""

from keras_bert_rebuild.export.onnx_graph import OF_PADDING, Value, dense, padding_bias, token_offsets
from keras_bert_rebuild.layers.disentangled_self_attention import rows_of_distances
from keras_bert_rebuild.layers.position_embedding import speeds


def self_attention(graph, layer, inputs):
    """The nodes of a `MultiHeadSelfAttention`."""
    x, mask = inputs[0]
    width = layer.query_dense.units // layer.head_num
    heads = _heads_of(graph, layer, x)
    query, key = heads(layer.query_dense), heads(layer.key_dense)
    if layer.rotary_theta is not None:
        turned = _angles(graph, layer, x, width)
        query, key = _turned(graph, query, turned, width), _turned(graph, key, turned, width)
    query = graph.node("Mul", query, graph.constant(width**-0.5))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 1, 3, 2)))  # (B, H, L, S)
    if layer.window is not None:
        scores = graph.node("Add", scores, _of_window(graph, layer, x))
    return _attended(graph, layer, heads, scores, mask)


def _angles(graph, layer, x, width):
    """Cosines and sines of rotary positions, `(length, width)`."""
    speeds = [float(layer.rotary_theta) ** -(2 * i / width) / layer.rotary_factor for i in range(width // 2)] * 2
    offsets = graph.node("Unsqueeze", graph.node("Cast", token_offsets(graph, x), to=1), graph.scalars(-1))  # 1: float32
    angles = graph.node("Mul", offsets, graph.constant(speeds))
    return graph.node("Cos", angles), graph.node("Sin", angles)


def _turned(graph, x, angles, width):
    """Heads `(batch, heads, length, width)` rotated; pairs are the two halves of a head."""
    half = graph.scalars(width // 2)
    first = graph.node("Slice", x, graph.scalars(0), half, graph.scalars(-1))
    second = graph.node("Slice", x, half, graph.scalars(width), graph.scalars(-1))
    swapped = graph.node("Concat", graph.node("Neg", second), first, axis=-1)
    cosines, sines = angles
    return graph.node("Add", graph.node("Mul", x, cosines), graph.node("Mul", swapped, sines))


def _of_window(graph, layer, x):
    """The window as a term added to the scores, `(queries, keys)`."""
    offsets = token_offsets(graph, x)
    ahead = graph.node("Sub", offsets, graph.node("Unsqueeze", offsets, graph.scalars(-1)))
    outside = graph.node("Greater", graph.node("Abs", ahead), graph.constant(layer.window, "int64"))
    return graph.node("Where", outside, graph.constant(OF_PADDING), graph.constant(0.0))


def relative_embedding(graph, layer, inputs):
    """The nodes of a `RelativeEmbedding`."""
    return [Value(graph.weight(layer.embeddings), None)]


def disentangled_attention(graph, layer, inputs):
    """The nodes of a `DisentangledSelfAttention`."""
    (x, mask), (table, _) = inputs
    width = layer.query_dense.units // layer.head_num
    heads = _heads_of(graph, layer, x)
    divisor = graph.constant(layer.divisor(width))
    query, key = heads(layer.query_dense), heads(layer.key_dense)
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    both = graph.node("Mul", length, graph.constant(2, "int64"))
    steps = graph.node("Range", graph.constant(0, "int64"), both, graph.constant(1, "int64"))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 1, 3, 2)))  # (B, H, L, S)

    def term(name, own, content, distances):
        projection = getattr(layer, f"{own if own in layer.position_names else name}_dense")
        rows = _rows(graph, layer, dense(graph, projection, table), width, distances)
        return _shifted(graph, graph.node("MatMul", content, rows), length, layer.head_num)

    if "c2p" in layer.terms:
        scores = graph.node("Add", scores, term("key", "position_key", query, graph.node("Sub", length, steps)))
    if "p2c" in layer.terms:
        added = term("query", "position_query", key, graph.node("Sub", steps, length))
        scores = graph.node("Add", scores, graph.node("Transpose", added, perm=(0, 1, 3, 2)))
    scores = graph.node("Div", scores, divisor)
    return _attended(graph, layer, heads, scores, mask)


def _rows(graph, layer, projected, width, distances):
    """The projected rows of distances, `(heads, head width, distances)`."""
    reach = graph.constant(layer.reach, "int64")
    clipped = graph.node("Clip", distances, graph.constant(-layer.reach, "int64"), reach)
    row_of = graph.constant(rows_of_distances(layer.buckets, layer.reach).tolist(), "int64")
    rows = graph.node("Gather", projected, graph.node("Gather", row_of, graph.node("Add", clipped, reach)), axis=0)
    split = graph.node("Reshape", rows, graph.scalars(0, layer.head_num, width))
    return graph.node("Transpose", split, perm=(1, 2, 0))


def _shifted(graph, scores, length, heads):
    """Relative shift: output (i, j) is column L − i + j of row i, `(batch, heads, L, 2 · L)` to `(batch, heads, L, L)`."""
    one = graph.node("Unsqueeze", length, graph.scalars(0))
    flat = graph.node("Reshape", scores, graph.scalars(0, heads, -1))
    rest = graph.node("Slice", flat, one, graph.scalars(1 << 62), graph.scalars(2))
    columns = graph.node("Sub", graph.node("Mul", one, graph.scalars(2)), graph.scalars(1))
    shape = graph.node("Concat", graph.scalars(0, heads, -1), columns, axis=0)
    return graph.node("Slice", graph.node("Reshape", rest, shape), graph.scalars(0), one, graph.scalars(3))


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

    def by_head(variable, rows):
        split = graph.node("Reshape", graph.weight(variable), graph.scalars(rows, count, width))
        return graph.node("Transpose", split, perm=(1, 0, 2))  # (H, rows, K)

    def product(bias, keys, order):
        biased = graph.node("Add", query, by_head(bias, 1))
        return graph.node("MatMul", biased, graph.node("Transpose", keys, perm=order))

    query, key = heads(layer.query_dense), heads(layer.key_dense)
    length, _ = _length_and_steps(graph, x)
    scores = product(layer.content_bias, key, (0, 1, 3, 2))  # (B, H, L, S)
    rows = graph.node("Reshape", dense(graph, layer.position_key_dense, table), graph.scalars(-1, count, width))
    distances = graph.node("Transpose", rows, perm=(1, 0, 2))
    scores = graph.node("Add", scores, _shifted(graph, product(layer.position_bias, distances, (0, 2, 1)), length, count))
    segments = product(layer.segment_bias, by_head(layer.segment_embeddings, 2), (0, 2, 1))  # (B, H, L, 2)
    same, other = (graph.node("Slice", segments, graph.scalars(i), graph.scalars(i + 1), graph.scalars(3)) for i in range(2))
    added = graph.node("Where", graph.node("Unsqueeze", differ, graph.scalars(1)), other, same)
    scores = graph.node("Div", graph.node("Add", scores, added), graph.constant(layer.divisor(width)))
    return _attended(graph, layer, heads, scores, mask)


def _length_and_steps(graph, x):
    """The length L of a sequence, and 0 to 2 · L − 1."""
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    both = graph.node("Mul", length, graph.constant(2, "int64"))
    return length, graph.node("Range", graph.constant(0, "int64"), both, graph.constant(1, "int64"))


def _heads_of(graph, layer, x):
    """A function from a projection of `x` to its heads, `(batch, heads, length, width)`."""
    split = graph.scalars(0, 0, layer.head_num, layer.query_dense.units // layer.head_num)
    return lambda projection: graph.node("Transpose", graph.node("Reshape", dense(graph, projection, x), split), perm=(0, 2, 1, 3))


def _attended(graph, layer, heads, scores, mask):
    """The output of attention from its scores: the mixed values of visible keys, projected.

    Args:
        graph: an `OnnxGraph`.
        layer: the layer.
        heads: a function from a projection to its heads.
        scores: the scores, `(batch, heads, queries, keys)`.
        mask: the padding mask, or None.
    """
    if mask is not None:
        scores = graph.node("Add", scores, padding_bias(graph, mask))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), heads(layer.value_dense))
    joined = graph.node("Reshape", graph.node("Transpose", mixed, perm=(0, 2, 1, 3)), graph.scalars(0, 0, layer.query_dense.units))
    return [Value(dense(graph, layer.output_dense, joined), mask)]
