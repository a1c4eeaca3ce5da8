"""Self-attention with content-to-content, content-to-position and position-to-content scores."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.layers.relative_self_attention import ScoredSelfAttention, shifted

# The terms of the scores besides content to content, and the sub-layer that projects the distances of each.
PROJECTED_BY = {"c2p": "position_key", "p2c": "position_query"}
TERMS = tuple(PROJECTED_BY)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DisentangledSelfAttention(ScoredSelfAttention):
    """`MultiHeadSelfAttention` whose scores also compare tokens with their distance i − j.

        score(i, j) = (Q_i · K_j  +  Q_i · K^r_δ(i,j)  +  K_j · Q^r_δ(i,j)) / √(K · (1 + number of terms))

                       content      content to            position to
                       to content   position, "c2p"       content, "p2c"

        K^r, Q^r = table · W + b        δ(i, j) = the row of the distance i − j

    With `buckets` b, each distance up to b / 2 has its own row, and larger ones up to `reach` share b / 2 logarithmic buckets.
    Otherwise each distance up to `reach` has its own row. Positive and negative distances have different rows.

    Its weights are those of `MultiHeadSelfAttention`, which also project the table if `share_keys`; otherwise `position_key` for
    "c2p" and `position_query` for "p2c", each with a `kernel` `(D, D)` and a `bias` `(D,)`.

    The scores of all distances, L to −L + 1, are one product, whose rows are shifted into place without a look-up per pair.

    Args:
        head_num: number of heads; must divide the hidden size.
        buckets: even and at least 4, or 0 for none.
        reach: the distance beyond which distances are clipped.
        terms: "c2p", "p2c" or both.
        share_keys: whether distances share the projections of queries and keys.
        position_dropout: dropout rate of the table in training, in [0, 1).
        activation, use_bias, attention_dropout, **kwargs: see `MultiHeadSelfAttention`.

    Call arguments:
        inputs: a list of the sequence `(batch, length, hidden)` and the table `(rows, hidden)`, with `2 · buckets` rows, or
            `2 · reach` without buckets.
        mask: `(batch, length)` or `(batch, 1, length, length)`, as for `MultiHeadSelfAttention`.
        positions: ignored, since only distances count.

    Input shape: `[(batch, length, hidden), (rows, hidden)]`.
    Output shape: `(batch, length, hidden)`.
    Mask: keys at padding get a probability of exactly 0; that of the sequence is passed on.

    Reference: He et al., 2021, sections 3.1 and 3.2 (https://arxiv.org/abs/2006.03654); the buckets are those of version 2 of
    microsoft/DeBERTa.
    """

    def __init__(
        self,
        head_num: int,
        buckets: int,
        reach: int,
        terms: Sequence[str] = TERMS,
        share_keys: bool = False,
        position_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(head_num, **kwargs)
        check_distances(buckets, reach)
        if not terms or any(term not in TERMS for term in terms):
            raise ValueError(f"terms must be one or both of {', '.join(TERMS)}; got {', '.join(terms) or 'none'}.")
        if not 0 <= position_dropout < 1:
            raise ValueError(f"position_dropout must be a rate in [0, 1); got {position_dropout}.")
        self.keep(buckets=buckets, reach=reach, terms=list(terms), share_keys=share_keys, position_dropout=position_dropout)

    @property
    def position_names(self) -> tuple[str, ...]:
        """The names of the sub-layers that project the table."""
        return () if self.share_keys else position_projections(self.terms)

    def build(self, input_shape):
        sequence, table = input_shape
        rows = 2 * (self.buckets or self.reach)
        if table[0] not in (None, rows):
            raise ValueError(f"{self.name}: the table of distances must have {rows} rows; got {table[0]}.")
        super().build(sequence)
        for name in self.position_names:
            self.add_dense(name, table[-1], sequence[-1], self.activation)
        if self.position_dropout > 0:
            self.table_dropout = Dropout(self.position_dropout, dtype=self.dtype_policy, name="position_dropout")

    def divisor(self, width: int) -> float:
        """The divisor of the scores for heads of this width."""
        return float(width * (1 + len(self.terms))) ** 0.5

    def position_terms(self, query: Any, key: Any, table: Any) -> dict[str, Any]:
        """The terms "c2p" and "p2c", as far as `terms` has them.

        Args:
            query, key: from `project`.
            table: `(rows, hidden)`.
        """
        length = ops.shape(query)[1]
        steps = ops.arange(2 * length, dtype="int32")
        terms = {}
        if "c2p" in self.terms:
            keys = self._of_distances("position_key" if "position_key" in self.position_names else "key", table, length - steps)
            terms["c2p"] = shifted(ops.einsum("blhk,mhk->bhlm", query, keys))
        if "p2c" in self.terms:
            name = "position_query" if "position_query" in self.position_names else "query"
            queries = self._of_distances(name, table, steps - length)
            terms["p2c"] = ops.swapaxes(shifted(ops.einsum("bshk,mhk->bhsm", key, queries)), -1, -2)  # (B, H, S, L) → (B, H, L, S)
        return terms

    def prepared(self, shared: tuple, training: bool | None) -> tuple:
        """The table, with dropout in training."""
        (table,) = shared
        return (self.table_dropout(table, training=training) if self.position_dropout > 0 else table,)

    def get_config(self):
        config = super().get_config()
        del config["history_only"]
        return config

    def _of_distances(self, name, table, distances):
        """The projected rows of distances, `(distances, heads, head width)`."""
        projected = self.split(product(getattr(self, f"{name}_dense"), table[None]))[0]  # (R, D) → (R, H, K)
        rows = ops.convert_to_tensor(rows_of_distances(self.buckets, self.reach))
        return ops.take(projected, ops.take(rows, ops.clip(distances, -self.reach, self.reach) + self.reach), axis=0)


def rows_of_distances(buckets: int, reach: int) -> np.ndarray:
    """The row of every distance from −reach to reach, int32 `(2 · reach + 1,)`; larger distances are clipped.

    Computed once in float32 on every backend, like the reference: another precision would put some distances into other buckets.

    Args:
        buckets, reach: see `DisentangledSelfAttention`.

    Example:

    >>> rows_of_distances(0, 2).tolist(), rows_of_distances(4, 6).tolist()
    ([0, 1, 2, 3, 3], [0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7])
    """
    distances = np.arange(-reach, reach + 1)
    span = buckets or reach
    if buckets:
        middle = buckets // 2
        far = np.maximum(np.abs(distances), middle).astype("float32") / np.float32(middle)
        share = np.log(far) / np.log(np.float32((reach - 1) / middle))
        logarithmic = np.ceil(share * np.float32(middle - 1)).astype("int64") + middle
        distances = np.where(np.abs(distances) <= middle, distances, np.sign(distances) * logarithmic)
    return np.clip(distances + span, 0, 2 * span - 1).astype("int32")


def position_projections(terms: Sequence[str]) -> tuple[str, ...]:
    """Names of the sub-layers that project distances if these do not share the projections of queries and keys."""
    return tuple(name for term, name in PROJECTED_BY.items() if term in terms)


def check_distances(buckets: int, reach: int) -> None:
    """Refuse positions whose buckets cannot be split evenly between exact and logarithmic distances.

    Args:
        buckets, reach: see `DisentangledSelfAttention`.

    Raises:
        ValueError: `buckets` is neither 0 nor an even number of at least 4, or `reach` is less than `buckets / 2 + 2` (1 if there
            are no buckets).
    """
    if buckets and (buckets < 4 or buckets % 2):
        raise ValueError(f"position_buckets must be even and at least 4, or 0 for none; got {buckets}.")
    minimum = buckets // 2 + 2 if buckets else 1
    if reach < minimum:
        raise ValueError(f"max_relative_positions must be at least {minimum} with position_buckets={buckets}; got {reach}.")
