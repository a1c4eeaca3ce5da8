"""ONNX nodes for disentangled attention, its table of distances and the convolution of a block."""

from keras_bert_rebuild.export.onnx_graph import Value, activate, dense, of_padding
from keras_bert_rebuild.layers.disentangled_self_attention import rows_of_distances


def relative_embedding(graph, layer, inputs):
    """The nodes of a `RelativeEmbedding`."""
    return [Value(graph.weight(layer.embeddings), None)]


def disentangled_attention(graph, layer, inputs):
    """The nodes of a `DisentangledSelfAttention`."""
    (x, mask), (table, _) = inputs
    width = layer.query_dense.units // layer.head_num
    split = graph.scalars(0, 0, layer.head_num, width)

    def heads(projection, order):
        return graph.node("Transpose", graph.node("Reshape", dense(graph, projection, x), split), perm=order)

    divisor = graph.constant(layer.divisor(width))
    query, key = heads(layer.query_dense, (0, 2, 1, 3)), heads(layer.key_dense, (0, 2, 1, 3))
    length = graph.node("Squeeze", graph.node("Shape", x, start=1, end=2), graph.scalars(0))
    both = graph.node("Mul", length, graph.constant(2, "int64"))
    steps = graph.node("Range", graph.constant(0, "int64"), both, graph.constant(1, "int64"))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=(0, 1, 3, 2)))  # (B, H, L, S)

    def term(name, own, content, distances):
        projection = getattr(layer, f"{own if own in layer.position_names else name}_dense")
        rows = _rows(graph, layer, dense(graph, projection, table), width, distances)
        return shifted(graph, graph.node("MatMul", content, rows), length, layer.head_num)

    if "c2p" in layer.terms:
        scores = graph.node("Add", scores, term("key", "position_key", query, graph.node("Sub", length, steps)))
    if "p2c" in layer.terms:
        added = term("query", "position_query", key, graph.node("Sub", steps, length))
        scores = graph.node("Add", scores, graph.node("Transpose", added, perm=(0, 1, 3, 2)))
    scores = graph.node("Div", scores, divisor)
    if mask is not None:
        scores = graph.node("Add", scores, of_padding(graph, mask))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), heads(layer.value_dense, (0, 2, 1, 3)))
    joined = graph.node("Reshape", graph.node("Transpose", mixed, perm=(0, 2, 1, 3)), graph.scalars(0, 0, layer.query_dense.units))
    return [Value(dense(graph, layer.output_dense, joined), mask)]


def masked_convolution(graph, layer, inputs):
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


def _rows(graph, layer, projected, width, distances):
    """The projected rows of distances, `(heads, head width, distances)`."""
    reach = graph.constant(layer.reach, "int64")
    clipped = graph.node("Clip", distances, graph.constant(-layer.reach, "int64"), reach)
    row_of = graph.constant(rows_of_distances(layer.buckets, layer.reach).tolist(), "int64")
    rows = graph.node("Gather", projected, graph.node("Gather", row_of, graph.node("Add", clipped, reach)), axis=0)
    split = graph.node("Reshape", rows, graph.scalars(0, layer.head_num, width))
    return graph.node("Transpose", split, perm=(1, 2, 0))


def shifted(graph, scores, length, heads):
    """Relative shift: output (i, j) is column L − i + j of row i, `(batch, heads, L, 2 · L)` to `(batch, heads, L, L)`."""
    one = graph.node("Unsqueeze", length, graph.scalars(0))
    flat = graph.node("Reshape", scores, graph.scalars(0, heads, -1))
    rest = graph.node("Slice", flat, one, graph.scalars(1 << 62), graph.scalars(2))
    columns = graph.node("Sub", graph.node("Mul", one, graph.scalars(2)), graph.scalars(1))
    shape = graph.node("Concat", graph.scalars(0, heads, -1), columns, axis=0)
    return graph.node("Slice", graph.node("Reshape", rest, shape), graph.scalars(0), one, graph.scalars(3))
