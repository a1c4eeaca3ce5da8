"""What attention has besides queries, keys and values if its scores are sums of terms, and how its weights are sharded."""

from dataclasses import replace

from keras_bert_rebuild.anatomy.part import COMPUTE, MODEL, Held, Weight

# Ways to shard a weight. Heads stay together: query, key and value are sharded by columns and the output by rows, so that a block
# sums over devices twice, after its attention and after its feed-forward half. If the devices do not divide the vocabulary, such as
# 30,522 by 4, its width is sharded instead.
# Reference: Shoeybi et al., 2019, section 3 (https://arxiv.org/abs/1909.08053).
COLUMNS, ROWS, ALONG = ((None, MODEL),), ((MODEL, None),), ((MODEL,),)

# What relative attention adds to a query before it is compared with contents, distances and segments.
RELATIVE_BIASES = ("content_bias", "position_bias", "segment_bias")


def disentangled(attention, relative, bias):
    """Attention that also compares contents with distances: each term is a product of every token with 2·S distances.

    Every block projects the table once a batch. No fused kernel takes the terms, so scores are stored.

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
            Held("attention: scores of the distances", ("S", "2·S"), COMPUTE, f"A·{count}"),
        ),
    )


def relative_attention(attention):
    """Attention that also compares contents with distances and segments, each with a bias instead of a second query.

    Every block projects the sinusoids of 2·S distances once a batch. No fused kernel takes the terms, so scores are stored.

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
            Held("attention: scores of the distances", ("S", "2·S"), COMPUTE, "A"),
        ),
    )


def position_projections(terms):
    """The projections of distances that are not those of queries and keys, by the names of their sub-layers."""
    return tuple(name for term, name in (("c2p", "position_key"), ("p2c", "position_query")) if term in terms)


def dense_weights(name, rows, columns, bias=True, cut=(), bias_cut=(), heads=(None, None), adapter=False):
    """The weights of a dense layer; `heads` are the axes of kernel and bias along which attention heads are concatenated."""
    kernel = Weight(f"{name}/kernel", (rows, columns), cut, heads[0], adapter)
    return (kernel, Weight(f"{name}/bias", (columns,), bias_cut, heads[1])) if bias else (kernel,)
