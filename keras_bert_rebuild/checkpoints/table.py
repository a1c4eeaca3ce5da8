"""Name tables: rows of (our variable path, their name, layout), for both directions."""


def expand_table(embeddings, block, heads, num_blocks):
    """The rows of a model with so many encoder blocks.

    Args:
        embeddings, heads: rows that stand once.
        block: rows of templates; `{block}` counts from 1 in our paths, `{layer}` from 0 in theirs.
        num_blocks: encoder blocks.

    Returns:
        A list of `(path, name, layout)`.
    """
    blocks = [(path.format(block=i + 1), name.format(layer=i), layout) for i in range(num_blocks) for path, name, layout in block]
    return [*embeddings, *blocks, *heads]
