"""Parameters, operations and activations of attention after heads were pruned."""

from dataclasses import replace

from keras_bert_rebuild.anatomy.formulas import HEAD_WIDTH


def with_heads(attention, count, before, bias):
    """The `Part` of attention with fewer heads, from BERT's: the projections are narrower.

    Args:
        attention: the part to narrow.
        count: remaining heads.
        before: heads before pruning.
        bias: whether the four projections have biases.
    """
    narrow = f"{count}·{HEAD_WIDTH}"

    def of_weight(weight):
        shape = tuple(narrow if axis == weight.head_axis else size for axis, size in enumerate(weight.shape))
        return replace(weight, shape=shape)

    projections, scores, sums, outputs = attention.held
    return replace(
        attention,
        name=f"Attention, {count} of {before} heads",
        weights=tuple(map(of_weight, attention.weights)),
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
