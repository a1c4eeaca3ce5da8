"""How much of a model fits into a page of 10 MB."""

# Maximum bytes of all arrays of layers and heads, uncompressed: base64 turns 7.2 MB into 10, and compression may gain nothing.
BYTES = 7_100_000

# Maximum bytes of a page, and what all of it but the arrays needs at most.
PAGE_BYTES, REST = 10_000_000, 500_000


def map_bytes(length, width, bytes_each, terms=0):
    """Bytes of one head: its map, and in float16 its queries, its keys and what is added to their products."""
    return length * length * (bytes_each + 2 * terms) + 2 * length * width * 2


def precision_that_fits(maps, length, width, terms=0):
    """The finest precision of `pack` in which this number of maps fits: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2, terms) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None, terms=0, copies=1):
    """Layers and heads whose maps fit into a page, spread evenly over the model.

    All of them if possible; otherwise the same share of layers and of heads, including the first and the last if two fit.

    Args:
        layer_count, head_count: how many the model has.
        length: tokens of the text.
        width: width of a head.
        layers, heads: those to show in any case, whatever their size.
        terms: what is added to query · key, such as two terms of disentangled attention.
        copies: models that are shown side by side.

    Returns:
        Two tuples of numbers.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    maps_that_fit = max(int(BYTES // (copies * map_bytes(length, width, 1, terms))), 1)
    share = min((maps_that_fit / (layer_count * head_count)) ** 0.5, 1)
    if layers is None:
        maximum = round(layer_count * share) if heads is None else maps_that_fit // max(len(heads), 1)
        layers = _spread(layer_count, maximum)
    if heads is None:
        heads = _spread(head_count, maps_that_fit // max(len(layers), 1))
    return layers, heads


def _spread(count, maximum):
    chosen = min(max(maximum, 1), count)
    return tuple(round(i * (count - 1) / max(chosen - 1, 1)) for i in range(chosen))


def too_large(size, steps, shape):
    """The error for maps of a training that are more than a page holds; it says what makes them smaller.

    Args:
        size: characters of the arrays.
        steps: number of checkpoints.
        shape: `(layers, heads, length, length)` of the maps of each.
    """
    layers, heads, length, _ = shape
    return ValueError(
        f"a page holds 10 MB; the maps of {steps} checkpoints, {layers} layers, {heads} heads and {length} tokens need "
        f"{size / 1e6:.1f} MB: show fewer checkpoints (--checkpoints), --layers, --heads or tokens (--max-len)."
    )
