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
    features, labels = padded(features, count * chunk), padded(labels, count * chunk)

    def forward(i, rows):
        logits = logits_of_chunk(features, table, bias, i, chunk)
        log_sum = ops.logsumexp(logits, axis=-1)
        label = chunk_of(labels, i, chunk)
        of_label = ops.take_along_axis(logits, label[:, None], axis=-1)[:, 0] - log_sum
        is_best = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), label)
        of_best_other = ops.where(is_best, NO_BETTER_TOKEN, ops.max(logits, axis=-1) - log_sum)
        columns = ops.stack([of_best_other, of_label, log_sum], axis=-1)
        return ops.slice_update(rows, (i * chunk, 0), columns)

    rows = ops.fori_loop(0, count, forward, ops.zeros((count * chunk, 3), "float32"))

    def gradient(upstream):
        scale = padded(upstream[:, LABEL_COLUMN], count * chunk)

        def logit_gradients(i):
            logits = logits_of_chunk(features, table, bias, i, chunk)
            probabilities = ops.exp(logits - chunk_of(rows[:, 2], i, chunk)[:, None])
            is_label = ops.equal(ops.arange(bias.shape[0], dtype="int32")[None, :], chunk_of(labels, i, chunk)[:, None])
            return chunk_of(scale, i, chunk)[:, None] * (ops.cast(is_label, "float32") - probabilities)

        return gradients_of_factors(features, table, bias, logit_gradients, chunk, positions)

    return rows[:positions, :2], gradient


def gradients_of_factors(features, table, bias, logit_gradients, chunk, positions):
    """The gradients of the factors of logits, `features · tableᵀ + bias`, chunk by chunk.

    Args:
        features: `(chunks · chunk, width)`.
        table, bias: as for `label_log_probabilities`.
        logit_gradients: a function of the number of a chunk: the gradient of its logits, `(chunk, vocabulary)`, float32.
        chunk: number of positions in a chunk.
        positions: how many of the features are positions; the others fill up the last chunk.

    Returns:
        The gradients of the features, `(positions, width)`, of the table and of the bias.
    """

    def backward(i, sums):
        of_features, of_table, of_bias = sums
        gradient = logit_gradients(i)
        low = ops.cast(gradient, features.dtype)
        of_features = ops.slice_update(of_features, (i * chunk, 0), ops.matmul(low, table))
        of_table = of_table + ops.cast(ops.matmul(ops.transpose(low), chunk_of(features, i, chunk)), "float32")
        return of_features, of_table, of_bias + ops.sum(gradient, axis=0)

    zeros = (ops.zeros_like(features), ops.zeros(table.shape, "float32"), ops.zeros(bias.shape, "float32"))
    of_features, of_table, of_bias = ops.fori_loop(0, ops.shape(features)[0] // chunk, backward, zeros)
    return of_features[:positions], ops.cast(of_table, table.dtype), of_bias


def logits_of_chunk(features, table, bias, i, chunk):
    """The logits of chunk `i` of the features, `(chunk, vocabulary)`, float32."""
    return similarities(chunk_of(features, i, chunk), table) + bias


def chunk_of(x, i, chunk):
    """Chunk `i` of the first axis."""
    return ops.slice(x, (i * chunk, *[0] * (len(x.shape) - 1)), (chunk, *x.shape[1:]))


def padded(x, size):
    """The first axis padded with zeros to `size`."""
    return ops.concatenate([x, ops.zeros((size - ops.shape(x)[0], *x.shape[1:]), x.dtype)], axis=0)
