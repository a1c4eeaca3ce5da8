"""Operations and activations of windowed attention."""

from dataclasses import replace

from keras_bert_rebuild.anatomy.part import COMPUTE, FLOAT32, PRODUCT, Held


def in_window(attention):
    """The `Part` of windowed (local) attention, from that of full attention."""
    queries, scores, sums, *others = attention.held
    return replace(
        attention,
        name="Windowed attention",
        operations="8·B·S·D·D + 4·B·S·V·D",
        kept="3·B·S·D + 2·M·B·S·D + A·B·S·V",
        held=(
            replace(queries, dtype=PRODUCT, times="1 + 2·M"),
            Held(scores.what, ("S", "V"), FLOAT32, "A", scores=True),
            sums,
            *others,
        ),
        working=(Held("attention: probabilities and two gradients", ("S", "V"), COMPUTE, "3·A", scores=True),),
    )
