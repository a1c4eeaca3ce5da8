"""Weights and activations of attention whose scores are sums of terms (disentangled, relative), and how weights are sharded."""

from dataclasses import replace

from keras_bert_rebuild.anatomy.part import COMPUTE, MODEL, Held, Weight
from keras_bert_rebuild.layers.disentangled_self_attention import position_projections
from keras_bert_rebuild.layers.relative_self_attention import RELATIVE_BIASES

# Ways to shard a weight. Heads stay together: query, key and value are sharded by columns and the output by rows, so that a block
# needs two all-reduces, one after attention and one after the feed-forward network. If the number of devices does not divide the
# vocabulary (30,522 by 4), the width of the table is sharded instead.
# Reference: Shoeybi et al., 2019, section 3 (https://arxiv.org/abs/1909.08053).
COLUMNS, ROWS, ALONG = ((None, MODEL),), ((MODEL, None),), ((MODEL,),)


def disentangled(attention, relative, bias):
    """Disentangled attention: content is also compared with distances; each term compares every token with 2·S distances.

    Every block projects the table of distances once per batch. No fused kernel supports the terms, so scores are materialised.

    Reference: He et al., 2021, section 3.1 (https://arxiv.org/abs/2006.03654).
    """
    own = () if relative.shared_keys else position_projections(relative.terms)
    weights = sum([dense_weights(name, "D", "D", bias, COLUMNS, ALONG, heads=(1, 0)) for name in own], ())
    count = len(relative.terms)
    return replace(
        attention,
        weights=(*attention.weights, *weights),
        spelling=f"A·D·(D/A)·3 + {1 + len(own)}·D·D" + (f" + {4 + len(own)}·D" if bias else "") if own else attention.spelling,
        operations=f"{attention.operations} + {4 * count}·B·S·S·D + {2 * count}·R·D·D",
        kept=f"{attention.kept} + R·D + {2 * count}·S·D",
        held=tuple(replace(held, scores=False) for held in attention.held),
        working=(
            *(replace(held, scores=False) for held in attention.working),
            Held("attention: scores of distances", ("S", "2·S"), COMPUTE, f"A·{count}"),
        ),
    )


def relative_attention(attention):
    """Relative attention: content is also compared with distances and segments, each with a learned bias added to the query.

    Every block projects the sinusoids of 2·S distances once per batch. No fused kernel supports the terms, so scores are
    materialised.

    Reference: Dai et al., 2019, section 3.3 (https://arxiv.org/abs/1901.02860); Yang et al., 2019, section 2.5
    (https://arxiv.org/abs/1906.08237), for segments.
    """
    biases = tuple(Weight(name, ("D",), ALONG, 0) for name in RELATIVE_BIASES)
    segments = Weight("segment_embeddings", ("2", "D"), COLUMNS, 1)
    return replace(
        attention,
        weights=(*attention.weights, *dense_weights("position_key", "D", "D", False, COLUMNS, heads=(1, None)), *biases, segments),
        spelling="A·D·(D/A)·3 + 2·D·D + 5·D",
        operations=f"{attention.operations} + 4·B·S·S·D + 4·B·S·D + 4·S·D·D",
        kept=f"{attention.kept} + 4·S·D + 3·B·S·D",
        held=tuple(replace(held, scores=False) for held in attention.held),
        working=(
            *(replace(held, scores=False) for held in attention.working),
            Held("attention: scores of distances", ("S", "2·S"), COMPUTE, "A"),
        ),
    )


def dense_weights(name, rows, columns, bias=True, cut=(), bias_cut=(), heads=(None, None), adapter=False):
    """The weights of a dense layer; `heads` are the axes of the kernel and of the bias that attention heads are concatenated on."""
    kernel = Weight(f"{name}/kernel", (rows, columns), cut, heads[0], adapter)
    return (kernel, Weight(f"{name}/bias", (columns,), bias_cut, heads[1])) if bias else (kernel,)
