"""Self-attention whose scores are a sum of terms, and that of Transformer-XL and XLNet: content, position and segment scores."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import cloned
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


# The biases that are added to a query before it is compared with contents, distances and segments.
RELATIVE_BIASES = ("content_bias", "position_bias", "segment_bias")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class RelativeSelfAttention(ScoredSelfAttention):
    """`MultiHeadSelfAttention` whose scores also compare tokens with their distance i − j and with their segments.

        score(i, j) = ((Q_i + u) · K_j  +  (Q_i + v) · R_(i−j)  +  (Q_i + w) · s_ij) / √K

                       content to         content to            content to
                       content            position              segment

        R = sinusoids of the distances · W_R        s_ij = s_same if i and j are in the same segment, else s_other

    Its weights are those of `MultiHeadSelfAttention`, `position_key` with a `kernel` `(D, D)` and no bias, which is W_R, the biases
    `content_bias`, `position_bias` and `segment_bias` `(D,)`, which are u, v and w, and `segment_embeddings` `(2, D)`, the vectors
    of the same and of another segment. The paper's code calls them r_w_bias, r_r_bias, r_s_bias and seg_embed.

    The scores of all distances, L to −L + 1, are one product, whose rows are shifted into place without a look-up per pair.

    Args:
        head_num: number of heads; must divide the hidden size.
        use_bias, attention_dropout, **kwargs: see `MultiHeadSelfAttention`.

    Call arguments:
        inputs: a list of the sequence `(batch, length, hidden)`, the sinusoids of a `DistanceEmbedding` `(2 · length, hidden)` and
            the output of a `SegmentDifference` `(batch, length, length)`.
        mask: `(batch, length)` or `(batch, 1, length, length)`, as for `MultiHeadSelfAttention`.
        positions, content: for XLNet's query stream, see `ScoredSelfAttention`; segment differences are then
            `(batch, slots, length)`.

    Input shape: `[(batch, length, hidden), (2 · length, hidden), (batch, length, length)]`.
    Output shape: `(batch, length, hidden)`.
    Mask: keys at padding get a probability of exactly 0; that of the sequence is passed on.

    Reference: Dai et al., 2019, section 3.3 (https://arxiv.org/abs/1901.02860); Yang et al., 2019, section 2.5 and appendix A.2
    (https://arxiv.org/abs/1906.08237).
    """

    def build(self, input_shape):
        sequence, table, _ = input_shape
        super().build(sequence)
        self.add_dense("position_key", table[-1], sequence[-1], use_bias=False)
        for name in RELATIVE_BIASES:
            setattr(self, name, self._vectors(name, (sequence[-1],)))
        self.segment_embeddings = self._vectors("segment_embeddings", (2, sequence[-1]))

    def position_terms(self, query: Any, key: Any, table: Any, differ: Any, positions: Any = None) -> dict[str, Any]:
        """Terms to add to queries · keys: content bias, positions and segments.

        Args:
            query, key: from `project`.
            table: the sinusoids, `(2 · length, hidden)`.
            differ: True if query and key are in different segments, `(batch, queries, length)`.
            positions: positions of the queries in the text, `(batch, queries)`; None if every token is a query.
        """
        content, position, segment = (self._by_heads(getattr(self, name), query.dtype) for name in RELATIVE_BIASES)
        contents = ops.einsum("hk,bshk->bhs", content, key)[:, :, None, :]
        rows = self.split(product(self.position_key_dense, table[None]))[0]  # (2 · L, D) → (2 · L, H, K)
        distances = ops.einsum("blhk,mhk->bhlm", query + position, rows)
        distances = shifted(distances) if positions is None else shifted_to(distances, positions)
        of_segment = ops.einsum("blhk,nhk->nbhl", query + segment, self._by_heads(self.segment_embeddings, query.dtype))
        segments = ops.where(differ[:, None], of_segment[1][..., None], of_segment[0][..., None])
        return {"content": contents, "position": distances, "segment": segments}

    def get_config(self):
        config = super().get_config()
        del config["history_only"]
        return config

    def _vectors(self, name, shape):
        return self.add_weight(shape=shape, initializer=cloned(self.kernel_initializer), name=name)

    def _by_heads(self, vectors, dtype):
        """`(..., D)` to `(..., heads, head width)`."""
        vectors = ops.cast(ops.convert_to_tensor(vectors), dtype)
        return ops.reshape(vectors, (*vectors.shape[:-1], self.head_num, vectors.shape[-1] // self.head_num))
