"""Errors in articles about BERT, and their corrections."""


def _activation(encoder):
    """The name of the activation of the feed-forward halves; "" for a function, and without blocks."""
    activation = encoder.blocks[0].feed_forward.activation if encoder.blocks else ""
    return activation if isinstance(activation, str) else ""


# The encoders that a sentence applies to, and the sentence.
CORRECTIONS = (
    (
        lambda encoder: encoder.blocks and encoder.blocks[0].order == "post",
        "Rows: the article counts 9 rows of the summary for a block, 9 · 12 = 108. A block has {rows}, and {rows} · {blocks} "
        "= {all_rows}.",
    ),
    (
        lambda encoder: encoder.embedding.segments > 1,
        "Step 3: other articles say that segment vectors are all zeros or all ones. 0 and 1 are the ids; the {segments} vectors "
        "of {E} are learnt.",
    ),
    (
        lambda encoder: encoder.embedding.positions.kind == "table",
        "Step 4: other articles say that positions are not trained. The table is a weight like any other, {P} · {E} numbers.",
    ),
    (
        lambda encoder: encoder.embedding.norm.bias,
        "Step 5: the article says that a normalisation learns mean and deviation. Those are computed for every token; a factor "
        "(gamma) and a summand (beta) are learnt for each of the {E} features.",
    ),
    (
        lambda encoder: _activation(encoder) not in ("relu", ""),
        "Step 8: the article has a ReLU between the two layers. The function here is {activation}.",
    ),
)


def corrections_of(config):
    """The sentences that apply to a config, a tuple of strings."""
    encoder = config.encoder()
    embedding, distinct = encoder.embedding, encoder.distinct
    rows = 8 if distinct and distinct[0].dropout > 0 else 6
    words = {
        "rows": rows,
        "blocks": len(distinct),
        "all_rows": rows * len(distinct),
        "P": f"{embedding.positions.rows:,}",
        "E": f"{embedding.width:,}",
        "segments": embedding.segments,
        "activation": distinct[0].feed_forward.activation if distinct else None,
    }
    return tuple(sentence.format(**words) for applies, sentence in CORRECTIONS if applies(encoder))
