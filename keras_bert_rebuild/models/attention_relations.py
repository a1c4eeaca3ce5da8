"""Relations between tokens by the queries, keys and values of a block, and how much two models differ in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from keras_bert_rebuild.layers.masks import visible_pairs


def relation_losses(
    teacher: Mapping[str, Any], student: Mapping[str, Any], relations: Sequence[tuple[str, str]], heads: int, mask: Any = None
) -> Any:
    """The divergence of a student's relations from its teacher's, for every token.

        R_xy = softmax(X_h Y_hᵀ / √K)        X, Y = queries, keys or values of a block, in heads h of width K = D / heads
        loss(token) = Σ_xy mean_h KL(R_xy of the teacher ‖ R_xy of the student)[token]

    Relation heads are not attention heads: the vectors of all attention heads are concatenated and split again, so that models with
    different numbers of heads and different widths can be compared.

    Args:
        teacher, student: vectors `(batch, length, width)` by name, "query", "key" or "value"; the widths may differ.
        relations: pairs of these names.
        heads: number of relation heads, which divides both widths.
        mask: `(batch, length)`, False at padding; or the numbers of sequences, within which tokens are related; None for no
            padding.

    Returns:
        `(batch, length)`, float32. Values at padding are undefined.

    Reference: Wang et al., 2021, section 3, for MiniLMv2 (https://arxiv.org/abs/2012.15828).
    """
    visible = None if mask is None else visible_pairs(mask)
    total: Any = 0.0
    for one, other in relations:
        theirs, mine = (_log_relations(vectors[one], vectors[other], heads, visible) for vectors in (teacher, student))
        total = total + ops.mean(ops.sum(ops.exp(theirs) * (theirs - mine), axis=-1), axis=1)  # (B, H, L, S) → (B, L)
    return total


def _log_relations(one, other, heads, visible):
    one, other = (_by_heads(vectors, heads) for vectors in (one, other))
    scores = ops.cast(ops.einsum("blhk,bshk->bhls", one, other), "float32") / float(one.shape[-1]) ** 0.5
    scores = scores if visible is None else ops.where(visible, scores, -1e30)
    # Not log_softmax: Keras warns if there is a single key, as in a text of one token.
    return scores - ops.logsumexp(scores, axis=-1, keepdims=True)


def _by_heads(vectors, heads):
    shape = ops.shape(vectors)
    return ops.reshape(vectors, (shape[0], shape[1], heads, vectors.shape[-1] // heads))  # (B, L, D) → (B, L, H, K)
