"""Errors of articles about BERT, and how a model differs from the article's, in the formulas of its papers."""

from keras_bert_rebuild.explain.anatomy_words import gate_of, name_of, positions_of, reach_of

VASWANI = "Vaswani et al., 2017, section"


def _has(encoder, applies):
    """Whether a condition holds for any block."""
    return any(map(applies, encoder.blocks))


# The condition on encoder and heads under which a sentence applies, and the sentence.
CORRECTIONS = (
    (
        lambda encoder, _: encoder.blocks and encoder.blocks[0].order == "post",
        "Rows: the article counts 9 rows of the summary for a block, 9 · 12 = 108. A block has {rows}, and {rows} · {blocks} "
        "= {all_rows}.",
    ),
    (
        lambda encoder, _: encoder.embedding.segments > 1,
        "Step 3: other articles say that segment vectors are all zeros or all ones. 0 and 1 are the ids; the {segments} vectors "
        "of {E} values are learned.",
    ),
    (
        lambda encoder, _: encoder.embedding.positions.kind == "table",
        "Step 4: other articles say that positions are not trained. The table is a weight like any other, {P} · {E} values.",
    ),
    (
        lambda encoder, _: encoder.embedding.norm is not None and encoder.embedding.norm.bias,
        "Step 5: the article says that a normalisation learns mean and deviation. Those are computed for every token; a scale "
        "(gamma) and an offset (beta) are learned for each of the {E} features.",
    ),
    (
        lambda encoder, _: encoder.embedding.scale != 1,
        f"Step 2: the vector of a token is multiplied by {{scale}} before its positional encoding is added ({VASWANI} 3.4).",
    ),
    (
        lambda encoder, _: encoder.embedding.positions.kind == "sinusoidal",
        "Step 4: the article learns a table of positions. Here the positional encoding is computed, PE(pos, 2i) = "
        f"sin(pos / 10000^(2i / {{E}})) and PE(pos, 2i + 1) = cos(pos / 10000^(2i / {{E}})): no parameters, and any length "
        f"({VASWANI} 3.5).",
    ),
    (
        lambda encoder, _: encoder.embedding.norm is None,
        "Step 5: the article normalises the embedding. Here the first encoder block reads the sum without a norm.",
    ),
    (
        lambda encoder, _: encoder.embedding.widened,
        "Mapping: the article's tables are as wide as its blocks. Here they are {E} wide, and a dense layer projects their sum, "
        "{E} · {H} weights; T · {E} + {E} · {H} weights replace T · {H} (Lan et al., 2020, section 3.1; ELECTRA's "
        "`embeddings_project`).",
    ),
    (
        lambda encoder, _: _has(encoder, lambda block: block.attention.rotary),
        "Step 4: the article adds positions to the embedding. Here they are {positions}: components i and i + K/2 of a query "
        "or key at position p, K = {K}, are rotated by the angle p · theta^(-2i / K), so that their dot product depends on the "
        "distance only (Su et al., 2021, section 3.2).",
    ),
    (
        lambda encoder, _: _has(encoder, lambda block: block.attention.window is not None),
        "Step 6: in the article every token attends to all. Here attention is to {reach}: a query at i attends to keys j with "
        "|i - j| of at most half of the window (Beltagy et al., 2020, section 3.1).",
    ),
    (
        lambda encoder, _: encoder.relative is not None and encoder.relative.kind == "disentangled",
        "Step 6: the article's score of tokens i and j is Q_i · K_j / √K. Here it is (Q_i · K_j{terms}) / √({count} · K), "
        "where δ(i, j) is the row of the table of distances for i - j (He et al., 2021, section 3.1).",
    ),
    (
        lambda encoder, _: encoder.relative is not None and encoder.relative.kind == "relative",
        "Steps 3, 4 and 6: the article adds vectors of segments and positions to the embedding. Here attention compares them: "
        "a score is ((q + r_w) · k + (q + r_r) · r + (q + r_s) · s) / √{K}, where r encodes the distance i - j, and s the same or "
        "different segments (Dai et al., 2019, section 3.3; Yang et al., 2019, section 2.5).",
    ),
    (
        lambda encoder, _: encoder.blocks and not encoder.blocks[0].attention.bias,
        "Step 6: the article adds biases to queries, keys, values and the output of attention. Here these four have no biases.",
    ),
    (
        lambda encoder, _: encoder.blocks and encoder.blocks[0].order == "pre",
        "Steps 7 and 9: the article normalises after each sub-layer, x = norm(x + f(x)). Here the norm is first, "
        "x = x + f(norm(x)) (Xiong et al., 2020).",
    ),
    (
        lambda encoder, _: encoder.blocks and encoder.blocks[0].feed_forward.gated,
        "Step 8: the article has a ReLU between two layers. Here a third layer is a gate, (act(x · W_gate) ⊙ (x · W)) · "
        "W_output with "
        "{gate} (Shazeer, 2020).",
    ),
    (
        lambda encoder, _: encoder.blocks and not encoder.blocks[0].feed_forward.gated and _activation(encoder) not in ("relu", ""),
        "Step 8: the article has a ReLU between the two layers. Here the activation is {activation}.",
    ),
    (
        lambda encoder, _: _has(encoder, lambda block: block.convolution is not None),
        "Convolution: the article's block has none. Here the output of a block is added to a convolution of its input over "
        "{size} tokens, and the sum normalised (DeBERTa's version 2).",
    ),
    (
        lambda encoder, heads: "rtd" in heads,
        "Replaced token: the article predicts tokens. Here D(x, t) = sigmoid(w · {rtd}(W · h_t + b) + c) is the probability "
        "that token t was replaced (Clark et al., 2020, section 2).",
    ),
)


def corrections_of(config, heads=()):
    """The sentences that apply to a config with heads, a tuple."""
    encoder = config.encoder()
    embedding, distinct = encoder.embedding, encoder.distinct
    rows = 8 if distinct and distinct[0].dropout > 0 else 6
    terms = encoder.relative.terms if encoder.relative is not None else ()
    spelled = {"c2p": "Q_i · K^r_δ(i,j)", "p2c": "K_j · Q^r_δ(i,j)"}
    words = {
        "rows": rows,
        "blocks": len(distinct),
        "all_rows": rows * len(distinct),
        "P": f"{embedding.positions.rows:,}",
        "E": f"{embedding.width:,}",
        "H": f"{encoder.width:,}",
        "K": encoder.width // distinct[0].attention.heads if distinct else 0,
        "segments": embedding.segments,
        "scale": f"{embedding.scale:.4g}",
        "activation": distinct[0].feed_forward.activation if distinct else None,
        "gate": gate_of(distinct[0].feed_forward) if distinct else None,
        "positions": positions_of(encoder),
        "reach": reach_of(encoder),
        "terms": "".join(f" + {spelled.get(term, term)}" for term in terms),
        "count": 1 + len(terms),
        "size": next((block.convolution.size for block in distinct if block.convolution), 0),
        "rtd": name_of(encoder.rtd_activation),
    }
    return tuple(sentence.format(**words) for applies, sentence in CORRECTIONS if applies(encoder, heads))


def _activation(encoder):
    """The name of the feed-forward activation; "" for a function, or without blocks."""
    activation = encoder.blocks[0].feed_forward.activation if encoder.blocks else ""
    return activation if isinstance(activation, str) else ""
