"""Which layers and heads of a long text a page has room for."""

# Bytes of all arrays of layers and heads before they are compressed; base64 makes 10 MB of 7.2, and no compression is certain.
BYTES = 7_100_000


def map_bytes(length, width, bytes_each):
    """Bytes of one head: its map, and its queries and keys in float16."""
    return length * length * bytes_each + 2 * length * width * 2


def precision_that_fits(maps, length, width):
    """The finest precision of `pack` in which so many maps fit: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None):
    """Layers and heads, evenly over the model, whose maps a page has room for.

    All of them if that is possible; else as many layers as heads, in proportion, the first and the last among them where there is
    room for two.

    Args:
        layer_count, head_count: how many the model has.
        length: tokens of the text.
        width: width of a head.
        layers, heads: those that are wanted in any case, however much room they take.

    Returns:
        Two tuples of numbers.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    room = max(int(BYTES // map_bytes(length, width, 1)), 1)
    share = min((room / (layer_count * head_count)) ** 0.5, 1)
    if layers is None:
        most = round(layer_count * share) if heads is None else room // max(len(heads), 1)
        layers = _spread(layer_count, most)
    if heads is None:
        heads = _spread(head_count, room // max(len(layers), 1))
    return layers, heads


def _spread(count, most):
    chosen = min(max(most, 1), count)
    return tuple(round(i * (count - 1) / max(chosen - 1, 1)) for i in range(chosen))
