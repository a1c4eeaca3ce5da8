"""How much of a model fits into a page of 10 MB."""

# Maximum bytes of all layer and head arrays, uncompressed: base64 turns 7.2 MB into 10 MB, and they may not compress at all.
BYTES = 7_100_000

# Maximum bytes of a page, and of everything in it except arrays.
PAGE_BYTES, REST = 10_000_000, 500_000


def map_bytes(length, width, bytes_each, terms=0):
    """Bytes of one head: its map, and, in float16, its queries, keys and added terms."""
    return length * length * (bytes_each + 2 * terms) + 2 * length * width * 2


def precision_that_fits(maps, length, width, terms=0):
    """The highest precision of `pack` at which this number of maps fits: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2, terms) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None, terms=0, copies=1):
    """Layers and heads whose maps fit into a page, and whether their queries and keys fit, too.

    All layers and heads if possible, or if they fit without queries and keys; otherwise the same fraction of layers and of heads,
    with queries and keys, evenly spaced over the model, including the first and last if at least two fit.

    Args:
        layer_count, head_count: numbers of layers and heads of the model.
        length: tokens of the text.
        width: width of a head.
        layers, heads: indices to show regardless of size; None to choose.
        terms: number of terms added to query · key, such as 2 for disentangled attention.
        copies: number of models side by side.

    Returns:
        Two tuples of indices, and a bool.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    count = copies * layer_count * head_count
    if layers is None and heads is None and count * map_bytes(length, 0, 1) <= BYTES:
        return tuple(range(layer_count)), tuple(range(head_count)), count * map_bytes(length, width, 1, terms) <= BYTES
    maps_that_fit = max(int(BYTES // (copies * map_bytes(length, width, 1, terms))), 1)
    share = min((maps_that_fit / (layer_count * head_count)) ** 0.5, 1)
    if layers is None:
        maximum = round(layer_count * share) if heads is None else maps_that_fit // max(len(heads), 1)
        layers = _spread(layer_count, maximum)
    if heads is None:
        heads = _spread(head_count, maps_that_fit // max(len(layers), 1))
    return layers, heads, True


def _spread(count, maximum):
    chosen = min(max(maximum, 1), count)
    return tuple(round(i * (count - 1) / max(chosen - 1, 1)) for i in range(chosen))


def too_large(size, steps, shape):
    """The error for maps of checkpoints that do not fit into a page, with advice on what to reduce.

    Args:
        size: size of the arrays, in characters.
        steps: number of checkpoints.
        shape: shape of the maps of each, `(layers, heads, length, length)`.
    """
    layers, heads, length, _ = shape
    return ValueError(
        f"a page may have 10 MB; the maps of {steps} checkpoints, {layers} layers, {heads} heads and {length} tokens need "
        f"{size / 1e6:.1f} MB: show fewer checkpoints (--checkpoints), --layers, --heads or tokens (--max-seq-length)."
    )
