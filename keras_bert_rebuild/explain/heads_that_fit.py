"""The layers and heads of a long text that fit into a page."""

# Maximum bytes of all arrays of layers and heads, uncompressed: base64 turns 7.2 MB into 10, and compression may gain nothing.
BYTES = 7_100_000


def map_bytes(length, width, bytes_each):
    """Bytes of one head: its map, and its queries and keys in float16."""
    return length * length * bytes_each + 2 * length * width * 2


def precision_that_fits(maps, length, width):
    """The finest precision of `pack` in which this number of maps fits: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None):
    """Layers and heads whose maps fit into a page, spread evenly over the model.

    All of them if possible; otherwise the same share of layers and of heads, including the first and the last if two fit.

    Args:
        layer_count, head_count: how many the model has.
        length: tokens of the text.
        width: width of a head.
        layers, heads: those to show in any case, whatever their size.

    Returns:
        Two tuples of numbers.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    maps_that_fit = max(int(BYTES // map_bytes(length, width, 1)), 1)
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
