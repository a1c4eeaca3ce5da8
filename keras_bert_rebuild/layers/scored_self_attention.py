"""Self-attention whose scores are sums of several terms, which no fused kernel supports."""

import functools
from typing import Any

from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention


class ScoredSelfAttention(MultiHeadSelfAttention):
    """Abstract `MultiHeadSelfAttention` that adds its `position_terms` to the products of queries and keys.

    Call arguments:
        inputs: a list of the sequence `(batch, length, hidden)` and further arguments of `position_terms`.
        mask: `(batch, length)`, or sequence numbers, or `(batch, 1, length, length)`, as for `MultiHeadSelfAttention`.
        positions: `(batch, slots)`, positions of the queries in `content`; ignored without `content`, since only distances count.
        content: `(batch, length, hidden)`, the sequence of keys and values if it is not that of the queries; the mask is then
            `(batch, 1, slots, length)`. Only for `RelativeSelfAttention`.
    """

    def prepared(self, shared: tuple, training: bool | None) -> tuple:
        """What `position_terms` reads besides queries and keys; in training with dropout."""
        return shared

    def call(self, inputs, mask=None, training=None, positions=None, content=None):
        sequence, *shared = inputs
        if content is None:
            query, key, value = self.queries_keys_values(sequence)
            terms = self.position_terms(query, key, *self.prepared(shared, training))
        else:
            query = self._split_heads(kernels.dense(self.query_dense, sequence))
            key, value = (self._split_heads(kernels.dense(dense, content)) for dense in (self.key_dense, self.value_dense))
            terms = self.position_terms(query, key, *self.prepared(shared, training), positions)
        divisor = self.divisor(query.shape[-1])
        added = functools.reduce(ops.add, terms.values())
        scores = ops.cast(ops.einsum("blhk,bshk->bhls", query, key) / divisor + added / divisor, "float32")
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if mask is not None:
            scores = ops.where(kernels.visible_pairs(mask), scores, -1e30)
        # Keras warns about softmax over one key, which texts of one token have.
        probabilities = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))
        probabilities = ops.cast(probabilities, query.dtype)
        if self.attention_dropout > 0:
            probabilities = self.dropout(probabilities, training=training)
        attended = ops.einsum("bhls,bshk->blhk", probabilities, value)
        return kernels.dense(self.output_dense, self.edited(self._merge_heads(attended), mask))

    def compute_mask(self, inputs, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return None if mask is None or len(mask.shape) == 4 else mask  # a mask of pairs is not one of tokens

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0])


def shifted(scores: Any) -> Any:
    """Relative shift: output (i, j) is column L − i + j of row i, `(batch, heads, L, L + S)` to `(batch, heads, L, S)`.

    Each row is shifted one column further left than the previous one, which a reshape does: without the first L values, rows of
    L + S − 1 values start at the right column.

    Args:
        scores: scores of L queries with the distances S to −L + 1.
    """
    batch, heads, length, columns = ops.shape(scores)
    flat = ops.reshape(scores, (batch, heads, length * columns))[:, :, length:]
    return ops.reshape(flat, (batch, heads, length, columns - 1))[:, :, :, : columns - length]


def shifted_to(scores: Any, positions: Any) -> Any:
    """Relative shift for queries at positions i: output j is column L − i + j; `(batch, heads, queries, 2 · L)` to `(..., L)`.

    Args:
        scores: scores of the queries with the distances L to −L + 1.
        positions: positions of the queries, `(batch, queries)`.
    """
    length = ops.shape(scores)[-1] // 2
    columns = length - ops.cast(positions, "int32")[:, :, None] + ops.arange(length, dtype="int32")
    return ops.take_along_axis(scores, columns[:, None], axis=-1)
