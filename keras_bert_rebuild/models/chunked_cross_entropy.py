"""Log-probabilities at labels over a large vocabulary, without the logits of all positions at once."""

from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient
from keras_bert_rebuild.layers.products import similarities

# The column of the label in the result of `label_log_probabilities`.
LABEL_COLUMN = 1
# The value of the other column if the label itself is the best token.
NO_BETTER_TOKEN = -1e30


def label_log_probabilities(features, table, bias, labels, chunk):
    """The log-probability of every label, and of the best token if that is not the label.

        logits = features · tableᵀ + bias        outputs[n] = (log p[best token, if that is not the label], log p[label])

    The arg-max of a row is `LABEL_COLUMN` exactly if the label is the most probable token, so accuracy can be computed from it.
    Logits are computed chunk by chunk and recomputed in the backward pass, which adds a third to the computation of the head:
    memory holds `(chunk, vocabulary)` three times and never `(positions, vocabulary)`. Sums are float32.

    Args:
        features: `(positions, width)`.
        table: `(vocabulary, width)`, in the dtype of the features.
        bias: `(vocabulary,)`, float32.
        labels: `(positions,)`, int32, in [0, vocabulary).
        chunk: number of positions in a chunk.

    Returns:
        `(positions, 2)`, float32. Only the second column has a gradient.
    """
    return with_gradient(_log_probabilities, (features, table, bias), (labels,), chunk=chunk)


def _log_probabilities(features, table, bias, labels, chunk):
    """The result of `label_log_probabilities`, and its gradient."""
    positions = ops.shape(features)[0]
    count = (positions + chunk - 1) // chunk
    features, labels = _padded(features, count * chunk), _padded(labels, count * chunk)

    def forward(i, rows):
        logits = _logits(features, table, bias, i, chunk)
        log_sum = ops.logsumexp(logits, axis=-1)
        label = _slice(labels, i, chunk)
        of_label = ops.take_along_axis(logits, label[:, None], axis=-1)[:, 0] - log_sum
        is_best = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), label)
        of_best_other = ops.where(is_best, NO_BETTER_TOKEN, ops.max(logits, axis=-1) - log_sum)
        columns = ops.stack([of_best_other, of_label, log_sum], axis=-1)
        return ops.slice_update(rows, (i * chunk, 0), columns)

    rows = ops.fori_loop(0, count, forward, ops.zeros((count * chunk, 3), "float32"))

    def gradient(upstream):
        scale = _padded(upstream[:, LABEL_COLUMN], count * chunk)

        def backward(i, sums):
            of_features, of_table, of_bias = sums
            logits = _logits(features, table, bias, i, chunk)
            probabilities = ops.exp(logits - _slice(rows[:, 2], i, chunk)[:, None])
            is_label = ops.equal(ops.arange(bias.shape[0], dtype="int32")[None, :], _slice(labels, i, chunk)[:, None])
            of_logits = _slice(scale, i, chunk)[:, None] * (ops.cast(is_label, "float32") - probabilities)
            low = ops.cast(of_logits, features.dtype)
            of_features = ops.slice_update(of_features, (i * chunk, 0), ops.matmul(low, table))
            of_table = of_table + ops.cast(ops.matmul(ops.transpose(low), _slice(features, i, chunk)), "float32")
            return of_features, of_table, of_bias + ops.sum(of_logits, axis=0)

        zeros = (ops.zeros_like(features), ops.zeros(table.shape, "float32"), ops.zeros(bias.shape, "float32"))
        of_features, of_table, of_bias = ops.fori_loop(0, count, backward, zeros)
        return of_features[:positions], ops.cast(of_table, table.dtype), of_bias

    return rows[:positions, :2], gradient


def _logits(features, table, bias, i, chunk):
    return similarities(_slice(features, i, chunk), table) + bias


def _slice(x, i, chunk):
    """Chunk `i` of the first axis."""
    return ops.slice(x, (i * chunk, *[0] * (len(x.shape) - 1)), (chunk, *x.shape[1:]))


def _padded(x, size):
    """The first axis padded with zeros to `size`."""
    return ops.concatenate([x, ops.zeros((size - ops.shape(x)[0], *x.shape[1:]), x.dtype)], axis=0)
