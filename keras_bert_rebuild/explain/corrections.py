"""Where articles about BERT err, and what is so instead."""

# Which configs it concerns, and the sentence.
CORRECTIONS = (
    (
        lambda config: config.num_hidden_layers > 0,
        "Rows: the article counts 9 rows of the summary for a block, 9 · 12 = 108. A block has {rows}, and {rows} · {blocks} "
        "= {all_rows}.",
    ),
    (
        lambda config: config.type_vocab_size > 1,
        "Step 3: elsewhere one reads that segment vectors are all zeros or all ones. 0 and 1 are the ids; the {segments} vectors "
        "of {E} are learnt.",
    ),
    (
        lambda config: True,
        "Step 4: elsewhere one reads that positions are not trained. The table is a weight like any other, {P} · {E} numbers.",
    ),
    (
        lambda config: True,
        "Step 5: the article calls what a normalisation learns mean and deviation. Those are computed anew for every token; learnt "
        "are a factor (gamma) and a summand (beta) for each of the {E} features.",
    ),
    (
        lambda config: isinstance(config.hidden_act, str) and config.hidden_act != "relu" and config.num_hidden_layers > 0,
        "Step 8: the article has a ReLU between the two layers. The function here is {activation}.",
    ),
)


def corrections_of(config):
    """The sentences that concern a config, a tuple of strings."""
    rows = 8 if config.hidden_dropout_prob > 0 else 6
    words = {
        "rows": rows,
        "blocks": config.num_distinct_blocks,
        "all_rows": rows * config.num_distinct_blocks,
        "P": f"{config.max_position_embeddings:,}",
        "E": f"{config.embedding_width:,}",
        "segments": config.type_vocab_size,
        "activation": config.hidden_act,
    }
    return tuple(sentence.format(**words) for concerns, sentence in CORRECTIONS if concerns(config))
