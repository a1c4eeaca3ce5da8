"""Attention as one self-contained HTML file: a function from arrays to the text of the file."""

import base64
import hashlib
import json
import re
from importlib import resources

import numpy as np

from keras_bert_rebuild.explain.attention_patterns import PATTERNS, attention_patterns
from keras_bert_rebuild.explain.packed_arrays import PRECISIONS, pack

# Maximum bytes of all arrays of layers and heads, uncompressed: base64 turns 7.2 MB into 10, and compression may gain nothing.
BYTES = 7_100_000


def map_bytes(length, width, bytes_each, terms=0):
    """Bytes of one head: its map, and in float16 its queries, its keys and what is added to their products."""
    return length * length * (bytes_each + 2 * terms) + 2 * length * width * 2


def precision_that_fits(maps, length, width, terms=0):
    """The finest precision of `pack` in which this number of maps fits: "uint16" or "root8"."""
    return "uint16" if maps * map_bytes(length, width, 2, terms) <= BYTES else "root8"


def heads_that_fit(layer_count, head_count, length, width, layers=None, heads=None, terms=0):
    """Layers and heads whose maps fit into a page, spread evenly over the model.

    All of them if possible; otherwise the same share of layers and of heads, including the first and the last if two fit.

    Args:
        layer_count, head_count: how many the model has.
        length: tokens of the text.
        width: width of a head.
        layers, heads: those to show in any case, whatever their size.
        terms: what is added to query · key, such as two terms of disentangled attention.

    Returns:
        Two tuples of numbers.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    maps_that_fit = max(int(BYTES // map_bytes(length, width, 1, terms)), 1)
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


# What the terms of disentangled attention are called on the page (He et al., 2021, section 3.1).
TERM_WORDS = {
    "c2p": "content to position (c2p)",
    "p2c": "position to content (p2c)",
    "content": "bias of the content (r_w)",
    "position": "content to position (r_r)",
    "segment": "content to segment (r_s)",
}

# The parts of the script, in order.
SCRIPTS = (
    "arrays.js",
    "tokens.js",
    "colours.js",
    "state.js",
    "elements.js",
    "controls.js",
    "map_picture.js",
    "head_lines.js",
    "head_view.js",
    "model_view.js",
    "neuron_view.js",
    "neuron_steps.js",
    "embeddings_view.js",
    "start.js",
)

# Characters that would end a script element or a line of a script, as JSON escapes.
ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def attention_page(maps, anatomy=None, *, name="", layer_count=None, head_count=None):
    """The page of one text or pair.

    Args:
        maps: `AttentionMaps` of one text, as from `of_text`, with tokens; with queries and keys the page has a neuron view.
        anatomy: `EmbeddingAnatomy` of the same text, or None for a page without embeddings.
        name: of the model.
        layer_count, head_count: how many the model has, if `maps` holds only some.

    Returns:
        The text of an HTML file.

    Raises:
        ValueError: there are several texts or no tokens, a value is not a number, or the anatomy is that of another text.
    """
    values = page_data(maps, anatomy, name=name, layer_count=layer_count, head_count=head_count)
    data = as_script_data(values)
    style = "\n" + _part("page.css")
    script = "\n(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "})();\n"
    hashes = f"script-src {_hash(script)}; style-src {_hash(style)}"
    policy = f"default-src 'none'; {hashes}; img-src data:; base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script, "data": data}
    # In one pass: inserted text may itself look like a placeholder.
    return re.sub(r"\{(policy|style|script|data)\}", lambda placeholder: parts[placeholder[1]], _part("page.html"))


def page_data(maps, anatomy=None, *, name="", layer_count=None, head_count=None):
    """The data of the page, as a dictionary for JSON; see `attention_page`."""
    layers, batch, heads, length, _ = maps.probabilities.shape
    if batch != 1 or maps.tokens is None:
        raise ValueError(f"a page shows one text and its tokens; got {batch} texts {'with' if maps.tokens else 'without'} tokens.")
    if anatomy is not None and tuple(anatomy.tokens) != tuple(maps.tokens[0]):
        raise ValueError(
            f"anatomy must be of the text of the maps, {length} tokens; it is that of another text, {len(anatomy.tokens)} tokens."
        )
    width = 0 if maps.queries is None else maps.queries.shape[-1]
    precision = precision_that_fits(layers * heads, length, width, len(maps.term_names))
    arrays = {"probabilities": pack(maps.probabilities[:, 0], precision)}
    if width:
        arrays |= {field: pack(getattr(maps, field)[:, 0], "float16") for field in ("queries", "keys")}
        arrays |= {} if maps.terms is None else {"terms": pack(maps.terms[:, 0], "float16")}
    if anatomy is not None:
        arrays |= _embedding_arrays(anatomy)
    return {
        "name": name,
        "tokens": list(maps.tokens[0]),
        "surfaces": None if maps.surfaces is None else list(maps.surfaces[0]),
        "ids": maps.ids[0].tolist(),
        "sentences": maps.sentences[0].tolist(),
        "layers": list(maps.layers),
        "heads": list(maps.heads),
        "layerCount": layer_count or max(maps.layers) + 1,
        "headCount": head_count or max(maps.heads) + 1,
        "scale": float(maps.scale),
        "historyOnly": _history_only(maps.probabilities),
        "windows": _windows(maps.probabilities) if maps.windows is None else list(maps.windows),
        "thetas": None if maps.thetas is None or not any(maps.thetas) else list(maps.thetas),
        "terms": [TERM_WORDS.get(name, name) for name in maps.term_names],
        "patterns": _patterns(maps),
        "embeddings": None if anatomy is None else _embeddings(anatomy),
        "offBy": {field: PRECISIONS[array["precision"]][1] for field, array in arrays.items()},
        "arrays": arrays,
    }


def as_script_data(values):
    """JSON that is safe in a script element, whatever texts it holds."""
    return json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _patterns(maps):
    found = attention_patterns(maps.probabilities[:, 0], maps.tokens[0], maps.sentences[0])
    layers, heads = found.scores.shape[1:]
    return {
        "names": list(found.names),
        "meanings": [dict(PATTERNS)[name] for name in found.names],
        "scores": np.round(found.scores, 4).tolist(),
        "even": np.round(found.even, 4).tolist(),
        "named": [[[found.names.index(name) for name, _ in found.of_head(i, j)] for j in range(heads)] for i in range(layers)],
    }


def _embeddings(anatomy):
    return {
        "parts": list(anatomy.parts),
        "pieces": [list(pieces) for pieces in anatomy.pieces],
        "segments": np.asarray(anatomy.segments).tolist(),
        "positions": np.asarray(anatomy.positions).tolist(),
    }


def _embedding_arrays(anatomy):
    arrays = {name: pack(getattr(anatomy, name), "int8") for name in ("vectors", "summed", "normalised")}
    for name in ("norms", "norms_summed", "norms_normalised", "cosines", "cosines_summed"):
        arrays[name] = pack(getattr(anatomy, name), "float32")
    return arrays


def _history_only(probabilities):
    """Whether no query attends to later keys, as in a model with `history_only`."""
    length = probabilities.shape[-1]
    return bool(length > 1 and not probabilities[..., ~np.tri(length, dtype=bool)].any())


def _windows(probabilities):
    """For each layer the tokens on either side that a query attends to; None if it attends to all that there are."""
    length = probabilities.shape[-1]
    distances = np.abs(np.arange(length)[:, None] - np.arange(length))
    widest = [int(distances[layer.any((0, 1)) > 0].max(initial=0)) for layer in probabilities]
    return [None if window >= length - 1 else window for window in widest]


def _part(name):
    return (resources.files("keras_bert_rebuild.explain") / "page" / name).read_text(encoding="utf-8")


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
