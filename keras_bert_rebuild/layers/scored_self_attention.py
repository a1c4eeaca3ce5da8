"""Self-attention whose scores are sums of several terms, which no fused kernel supports."""

from typing import Any

from keras import ops

from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.layers.seam import seam


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

    @seam
    def call(self, inputs, mask=None, training=None, positions=None, content=None):
        sequence, *shared = inputs
        mask = self.checked(mask[0] if isinstance(mask, (list, tuple)) else mask, sequence)
        query, key, value = self.project(sequence) if content is None else self.project_streams(sequence, content)
        shared = (*self.prepared(shared, training), *(() if content is None else (positions,)))
        return self.merge(self.attend(query, key, value, mask, training, *shared))  # (B, L, H, K) → (B, L, D)

    def project_streams(self, sequence: Any, content: Any) -> tuple[Any, Any, Any]:
        """Queries of one sequence, keys and values of another."""
        pairs = (self.query_dense, sequence), (self.key_dense, content), (self.value_dense, content)
        query, key, value = (self.split(product(dense, read)) for dense, read in pairs)
        return query, key, value  # (B, L, H, K)

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
