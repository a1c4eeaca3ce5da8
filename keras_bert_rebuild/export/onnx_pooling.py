"""ONNX nodes for poolings and the layers after them."""

from keras_bert_rebuild.export.onnx_graph import Value, dense

FLOAT32, INT32 = 1, 6


def extract(graph, layer, inputs):
    """The nodes of an `Extract`."""
    x, mask = inputs[0]
    if layer.skip_padding and mask is not None:
        last = int(layer.index == -1)  # which of equal values counts
        index = graph.node("ArgMax", graph.node("Cast", mask, to=INT32), axis=1, keepdims=1, select_last_index=last)
        return [Value(graph.node("GatherND", x, index, batch_dims=1), None)]
    return [Value(graph.node("Gather", x, graph.constant(layer.index, "int64"), axis=1), None)]


def average(graph, layer, inputs):
    """The nodes of a `GlobalAveragePooling1D`."""
    x, mask = inputs[0]
    if mask is None:
        return [Value(graph.node("ReduceMean", x, graph.scalars(1), keepdims=0), None)]
    weights = _tokens(graph, x, mask)
    return [Value(graph.node("Div", _weighted(graph, x, weights), _count(graph, weights)), None)]


def root_average(graph, layer, inputs):
    """The nodes of a `MaskedSquareRootPool1D`."""
    x, mask = inputs[0]
    weights = _tokens(graph, x, mask)
    count = graph.node("Max", _count(graph, weights), graph.constant(1.0))
    return [Value(graph.node("Div", _weighted(graph, x, weights), graph.node("Sqrt", count)), None)]


def position_average(graph, layer, inputs):
    """The nodes of a `MaskedPositionPool1D`."""
    x, mask = inputs[0]
    tokens = _tokens(graph, x, mask)
    axis = graph.constant(1, "int64")
    begun = graph.node("Cast", graph.node("Greater", graph.node("CumSum", tokens, axis), graph.constant(0.0)), to=FLOAT32)
    numbers = graph.node("Add", graph.node("CumSum", begun, axis), graph.constant(layer.first - 1.0))
    weights = graph.node("Mul", numbers, tokens)
    total = graph.node("Max", _count(graph, weights), graph.constant(1.0))
    return [Value(graph.node("Div", _weighted(graph, x, weights), total), None)]


def greatest(graph, layer, inputs):
    """The nodes of a `MaskedGlobalMaxPool1D`."""
    x, mask = inputs[0]
    if mask is not None:
        lowered = graph.node("Sub", x, graph.constant(1e6))
        x = graph.node("Where", graph.node("Unsqueeze", mask, graph.scalars(-1)), x, lowered)
    return [Value(graph.node("ReduceMax", x, graph.scalars(1), keepdims=0), None)]


def vocabulary_pooling(graph, layer, inputs):
    """The nodes of a `VocabularyPooling`."""
    features, mask = inputs[0]
    logits = graph.node("MatMul", features, graph.node("Transpose", inputs[1].name, perm=(1, 0)))
    if layer.similarity.use_bias:
        logits = graph.node("Add", logits, graph.weight(layer.similarity.bias))
    if mask is not None:
        logits = graph.node("Where", graph.node("Unsqueeze", mask, graph.scalars(-1)), logits, graph.constant(-1e30))
    if layer.pooling == "max":  # the weight is monotonic in the logit, so the maximum can come first
        logits = graph.node("ReduceMax", logits, graph.scalars(1), keepdims=0)
    weights = graph.node("Relu", logits)
    for _ in range(layer.times):
        weights = graph.node("Log", graph.node("Add", weights, graph.constant(1.0)))
    if layer.pooling == "sum":
        weights = graph.node("ReduceSum", weights, graph.scalars(1), keepdims=0)
    return [Value(weights, None)]


def without_leading_tokens(graph, layer, inputs):
    """The nodes of a `WithoutLeadingTokens`, which changes the mask for later layers."""
    x, mask = inputs[0]
    tokens = graph.node("Squeeze", _tokens(graph, x, mask), graph.scalars(-1))
    number = graph.node("CumSum", tokens, graph.constant(1, "int64"))
    remaining = graph.node("Greater", number, graph.constant(float(layer.count)))
    return [Value(x, graph.node("And", graph.node("Cast", tokens, to=9), remaining))]  # 9: bool


def first_features(graph, layer, inputs):
    """The nodes of a `FirstFeatures`."""
    x, mask = inputs[0]
    return [Value(graph.node("Slice", x, graph.scalars(0), graph.scalars(layer.width), graph.scalars(-1)), mask)]


def residual_dense(graph, layer, inputs):
    """The nodes of a `ResidualDense`."""
    x, mask = inputs[0]
    around = x if layer.shortcut is None else dense(graph, layer.shortcut, x)
    return [Value(graph.node("Add", dense(graph, layer.dense, x), around), mask)]


def _tokens(graph, x, mask):
    """1 at tokens and 0 at padding, float32 `(batch, length, 1)`."""
    if mask is None:
        ones = graph.node("Slice", x, graph.scalars(0), graph.scalars(1), graph.scalars(-1))
        mask = graph.node("Equal", ones, ones)
        return graph.node("Cast", mask, to=FLOAT32)
    return graph.node("Unsqueeze", graph.node("Cast", mask, to=FLOAT32), graph.scalars(-1))


def _weighted(graph, x, weights):
    return graph.node("ReduceSum", graph.node("Mul", x, weights), graph.scalars(1), keepdims=0)


def _count(graph, weights):
    return graph.node("ReduceSum", weights, graph.scalars(1), keepdims=0)
