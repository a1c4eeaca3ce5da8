"""The encoder blocks of a graph: which layers are one, and what they do, outside of the graph."""

# The two halves of a block, and what follows each half's own layer.
HALVES = ("MultiHeadSelfAttention", "FeedForward")
BLOCK_ENDS = ("", "-Dropout", "-Add", "-Norm")


def block_of(layers, number):
    """An encoder block as a list of its halves, each its sub-layer, dropout (None with rate 0), sum and norm.

    Args:
        layers: the layers of a model by name. A half that is not among them is left out: a model may end within a block.
        number: from 1 on, as in the names of the layers.
    """
    names = [f"Encoder-{number}-{half}" for half in HALVES]
    return [[layers.get(name + end) for end in BLOCK_ENDS] for name in names if name in layers]


def run_block(block, x, mask, training):
    """LayerNorm(x + Dropout(layer(x))) for each half: what the graph does, with the mask as an argument.

    Every layer is told whether it trains, since this may run outside of any call of the model.

    Args:
        block: as from `block_of`.
        x: `(batch, length, hidden)`.
        mask: `(batch, length)`, False at padding. Attached to `x` it would be lost where a backend calls a block again.
        training: whether dropout is drawn.

    Returns:
        `(batch, length, hidden)`.
    """
    for sub_layer, dropout, add, norm in block:
        own_mask = {"mask": mask} if sub_layer.name.endswith(HALVES[0]) else {}
        y = sub_layer(x, training=training, **own_mask)
        x = norm(add([x, y if dropout is None else dropout(y, training=training)]))
    return x
