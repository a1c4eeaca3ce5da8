"""The parts of an encoder block: BERT's, with attention of other kinds (disentangled, relative, windowed, pruned), and how weights
are sharded."""

from dataclasses import replace

from keras_bert_rebuild.anatomy.encoder import Positions
from keras_bert_rebuild.anatomy.part import (
    ATTENTION,
    BLOCK,
    COMPUTE,
    CONVOLUTION,
    EMBEDDING,
    FEED_FORWARD,
    FLOAT32,
    HEAD_WIDTH,
    MODEL,
    PRODUCT,
    Held,
    Part,
    Weight,
)
from keras_bert_rebuild.layers.disentangled_self_attention import position_projections
from keras_bert_rebuild.layers.relative_self_attention import RELATIVE_BIASES

# Ways to shard a weight. Heads stay together: query, key and value are sharded by columns and the output by rows, so that a block
# needs two all-reduces, one after attention and one after the feed-forward network. If the number of devices does not divide the
# vocabulary (30,522 by 4), the width of the table is sharded instead.
# Reference: Shoeybi et al., 2019, section 3 (https://arxiv.org/abs/1909.08053).
COLUMNS, ROWS, ALONG = ((None, MODEL),), ((MODEL, None),), ((MODEL,),)

_EVERY_TERM = Positions("disentangled", rows=2, terms=("c2p", "p2c"))


def block_parts(block):
    """The parts of a block in execution order."""
    inner, relative = block.feed_forward, block.attention.relative
    attention, feed_forward = _halves(inner.gated, block.attention.bias, inner.bias, relative, inner.output_bias)
    attention = attention if block.attention.window is None else in_window(attention)
    if block.attention.pruned:
        attention = with_heads(attention, len(block.attention.present), block.attention.heads, block.attention.bias)
    for half, article in ((attention, 7), (feed_forward, 9)):
        norm = norm_part(article, BLOCK, "Normalisation", f"{half.layer}-Norm", block.norm)
        has_norm = half is feed_forward or block.first_norm
        if block.order == "pre" and has_norm:
            yield norm
        yield half
        if block.adapter:
            yield _adapter(half.layer.rpartition("-")[2])
        if block.order == "post":
            yield norm
    if block.convolution is not None:
        name = f"Encoder-{{n}}-{CONVOLUTION}"
        size = str(block.convolution.size)
        weights = (Weight("kernel", (size, "H", "H")), Weight("bias", ("H",)))
        yield Part(None, BLOCK, "Convolution", name, weights, operations=f"2·{size}·B·S·H·H", kept="3·B·S·H")
        yield norm_part(None, BLOCK, "Convolution, normalised", f"{name}-Norm", block.norm)


def every_block_part():
    """The parts of a block that has everything."""
    relative = _halves(gated=True, bias=True, relative=Positions("relative", rows=0))[0]
    attention, feed_forward = _halves(gated=True, bias=True, relative=_EVERY_TERM)
    roles = {weight.role for weight in attention.weights}
    more = tuple(weight for weight in relative.weights if weight.role not in roles)
    attention = replace(attention, weights=attention.weights + more, spelling=None)
    return [attention, feed_forward, *(_adapter(half) for half in (ATTENTION, FEED_FORWARD))]


def _halves(gated, bias, feed_forward_bias=None, relative=None, output_bias=None):
    biases = bias if feed_forward_bias is None else feed_forward_bias
    output_bias = biases if output_bias is None else output_bias
    projections = [
        dense_weights(name, "D", "D", bias, COLUMNS, ALONG, heads=(1, 0), adapter=name in ("query", "value"))
        for name in ("query", "key", "value")
    ]
    attention = Part(
        6,
        BLOCK,
        "Attention",
        f"Encoder-{{n}}-{ATTENTION}",
        sum([*projections, dense_weights("output", "D", "D", bias, ROWS, heads=(0, None))], ()),
        spelling="A·D·(D/A)·3 + 3·D + D·D + D" if bias else "A·D·(D/A)·3 + D·D",
        operations="8·B·S·D·D + 4·B·S·S·D",
        kept="5·B·S·D + A·B·S·S",
        held=(
            Held("queries, keys, values", ("S", "D"), PRODUCT, "3"),
            Held("attention scores", ("S", "S"), FLOAT32, "A", scores=True),
            Held("maximum and sum of each row", ("A", "S"), FLOAT32, "2"),
            Held("outputs of attention heads", ("(D/A)", "S"), PRODUCT, "A"),
        ),
        working=(Held("attention: probabilities and two gradients", ("S", "S"), COMPUTE, "3·A", scores=True),),
    )
    if relative is not None:
        attention = relative_attention(attention) if relative.kind == "relative" else disentangled(attention, relative, bias)
    gate = dense_weights("gate", "H", "FFD", biases, COLUMNS, ALONG) if gated else ()
    inner = dense_weights("intermediate", "H", "FFD", biases, COLUMNS, ALONG)
    feed_forward = Part(
        8,
        BLOCK,
        "Feed-forward",
        f"Encoder-{{n}}-{FEED_FORWARD}",
        (*gate, *inner, *dense_weights("output", "FFD", "H", output_bias, ROWS)),
        operations="6·B·S·H·FFD" if gated else "4·B·S·H·FFD",
        kept="B·S·H + 4·B·S·FFD" if gated else "B·S·H + 2·B·S·FFD",
        held=(
            Held("values before the activation", ("S", "FFD"), times="2" if gated else "1"),
            Held("values after it", ("S", "FFD"), recomputed=True),
        ),
        working=(
            Held("activation: gradients", ("S", "FFD"), times="2" if gated else "1"),
            # Elsewhere a gradient takes the place of the values that were saved.
            Held("values after it, and another gradient", ("S", "FFD"), times="3" if gated else "2", recomputed=True),
        ),
    )
    return attention, feed_forward


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


def in_window(attention):
    """The `Part` of windowed (local) attention, from that of full attention."""
    queries, scores, sums, *outputs = attention.held
    return replace(
        attention,
        name="Windowed attention",
        operations="8·B·S·D·D + 4·B·S·V·D",
        kept="3·B·S·D + 2·M·B·S·D + A·B·S·V",
        held=(
            replace(queries, dtype=PRODUCT, times="1 + 2·M"),
            Held(scores.what, ("S", "V"), FLOAT32, "A", scores=True),
            sums,
            *outputs,
        ),
        working=(Held("attention: probabilities and two gradients", ("S", "V"), COMPUTE, "3·A", scores=True),),
    )


def with_heads(attention, count, before, bias):
    """The `Part` of attention with fewer heads, from BERT's: the projections are narrower.

    Args:
        attention: the part to narrow.
        count: remaining heads.
        before: heads before pruning.
        bias: whether the four projections have biases.
    """
    narrow = f"{count}·{HEAD_WIDTH}"

    def narrowed(weight):
        shape = tuple(narrow if axis == weight.head_axis else size for axis, size in enumerate(weight.shape))
        return replace(weight, shape=shape)

    projections, scores, sums, outputs = attention.held
    return replace(
        attention,
        name=f"Attention, {count} of {before} heads",
        weights=tuple(map(narrowed, attention.weights)),
        spelling=f"{count}·D·{HEAD_WIDTH}·3"
        + (f" + {count}·{HEAD_WIDTH}·3" if bias else "")
        + f" + {narrow}·D"
        + (" + D" if bias else ""),
        operations=f"8·B·S·D·{narrow} + 4·B·S·S·{narrow}",
        kept=f"B·S·D + 4·B·S·{narrow} + {count}·B·S·S",
        held=(
            replace(projections, shape=("S", narrow)),
            replace(scores, times=str(count)),
            replace(sums, shape=(str(count), "S")),
            replace(outputs, times=str(count)),
        ),
        working=tuple(replace(held, times=f"3·{count}") for held in attention.working),
    )


def _adapter(half):
    return Part(
        None,
        BLOCK,
        "Adapter",
        f"Encoder-{{n}}-{half}-Adapter",
        (*dense_weights("intermediate", "H", "U"), *dense_weights("output", "U", "H")),
        operations="4·B·S·H·U",
        kept="B·S·H + 2·B·S·U",
    )


def norm_part(article, section, name, layer, norm, width="H"):
    """The `Part` of an `anatomy.Norm`.

    Args:
        article, section, name, layer: see `Part`.
        norm: the `Norm`.
        width: the letter of its width.
    """
    moments = "2" if norm.kind == "layer" else "1"
    saved = (
        Held("sum before the norm", ("S", width), recomputed=section == EMBEDDING),
        Held("output of the norm", ("S", width), recomputed=True),
        *((Held("its moments", ("S",), FLOAT32, moments),) if section == BLOCK else ()),
    )
    held = saved if section in (EMBEDDING, BLOCK) else ()
    return Part(article, section, name, layer, norm_weights(norm, width), kept=f"B·S·{width}", held=held)


def norm_weights(norm, width):
    """The weights of an `anatomy.Norm` over vectors whose width has this letter."""
    if norm.kind == "rms":
        return (Weight("scale", (width,)),)
    return (Weight("gamma", (width,)), Weight("beta", (width,)))[: 1 + norm.bias]
