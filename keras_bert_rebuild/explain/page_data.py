"""The data of an attention page: from arrays to a dictionary for JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_bert_rebuild.explain.attention_maps import AttentionMaps
from keras_bert_rebuild.explain.attention_patterns import PATTERNS, attention_patterns
from keras_bert_rebuild.explain.embedding_anatomy import EmbeddingAnatomy
from keras_bert_rebuild.explain.page_arrays import PAGE_BYTES, PRECISIONS, REST, pack, precision_that_fits, too_large
from keras_bert_rebuild.explain.page_panels import Panels, attribution_data, importance_data, lens_data

# Names of the attention terms on the page (He et al., 2021, section 3.1).
TERM_WORDS = {
    "c2p": "content to position (c2p)",
    "p2c": "position to content (p2c)",
    "content": "content bias (r_w)",
    "position": "content to position (r_r)",
    "segment": "content to segment (r_s)",
}


@dataclass(frozen=True)
class PageSource:
    """A model on the page, or a run at one of its checkpoints."""

    maps: AttentionMaps
    """`AttentionMaps` of one text with tokens, see `of_text`; with queries and keys the page has a neuron view."""

    anatomy: EmbeddingAnatomy | None = None
    """The `EmbeddingAnatomy` of the same text, or None for a page without embeddings."""

    name: str = ""
    """Name of the model."""

    step: int | None = None
    """The training step of the checkpoint, for a page with a slider."""

    panels: Panels = field(default_factory=Panels)
    """Attributions, the lens and the importance of heads, as far as they are known."""


@dataclass(frozen=True)
class PageContents:
    """Everything that a page shows."""

    sources: Sequence[PageSource]
    """One model, two models to compare, or any number of checkpoints with their steps."""

    texts: tuple | None = None
    """The text, and a second text or None, for the heading of the page; None to reconstruct it from the tokens."""

    layer_count: int | None = None
    """Number of layers of the model, if the maps have only some of them; likewise `head_count`."""

    head_count: int | None = None
    """See `layer_count`."""


def page_data(contents: PageContents) -> dict[str, Any]:
    """The data of the page, as a dictionary for JSON.

    Raises:
        ValueError: there are several texts or no tokens, a value is not finite, an anatomy or panel is of another text, or the
            maps of all checkpoints do not fit into a page.
    """
    sources = list(contents.sources)
    for source in sources:
        _check_source(source, sources[0])
    first = sources[0].maps
    layer_count = contents.layer_count or max(first.layers) + 1
    head_count = contents.head_count or max(first.heads) + 1
    made, arrays = _sources(sources)
    for source, data in zip(sources, made, strict=True):
        panels, lens = _panels(source, layer_count, head_count)
        data |= panels
        arrays |= {} if lens is None else {f"lens{data['suffix']}": lens}
    return {
        "name": sources[0].name,
        "texts": _texts(contents.texts, first),
        "tokens": list(first.tokens[0] if first.tokens else ()),
        "surfaces": None if first.surfaces is None else list(first.surfaces[0]),
        "continues": _continues(first),
        "ids": first.ids[0].tolist(),
        "sentences": first.sentences[0].tolist(),
        "layers": list(first.layers),
        "heads": list(first.heads),
        "layerCount": layer_count,
        "headCount": head_count,
        "patterns": _patterns(first),
        "sources": made,
        "offBy": {name: PRECISIONS[array["precision"]][1] for name, array in arrays.items()},
        "arrays": arrays,
    }


def _panels(source, layer_count, head_count):
    """The panels of a source as data, and the array of its lens or None."""
    maps, panels = source.maps, source.panels
    tokens = list(maps.tokens[0])
    lens, array = (None, None) if panels.lens is None else lens_data(panels.lens, tokens)
    importance = panels.importance
    if importance is not None:
        importance = importance_data(importance, maps.layers, maps.heads, layer_count, head_count)
    return {"attributions": attribution_data(panels.attributions, tokens), "lens": lens, "importance": importance}, array


def _check_source(source, first):
    maps, other = source.maps, first.maps
    batch, length = maps.probabilities.shape[1], maps.probabilities.shape[-1]
    if batch != 1 or maps.tokens is None:
        raise ValueError(f"a page shows one text and its tokens; got {batch} texts {'with' if maps.tokens else 'without'} tokens.")
    if source.anatomy is not None and tuple(source.anatomy.tokens) != tuple(maps.tokens[0]):
        raise ValueError(
            f"anatomy must be of the text of the maps, {length} tokens; it is that of another text, "
            f"{len(source.anatomy.tokens)} tokens."
        )
    if maps.probabilities.shape != other.probabilities.shape:
        raise ValueError(
            "models side by side must have maps of the same shape, (layers, texts, heads, tokens, tokens); got "
            f"{other.probabilities.shape} and {maps.probabilities.shape}."
        )


def _sources(sources):
    """The data of every source, and all their arrays; names of arrays of the second source end in 1, and so on."""
    training = sources[0].step is not None
    precision = None if training else _precision(sources)
    made, arrays = [], {}
    for place, source in enumerate(sources):
        suffix = str(place) if place else ""
        made.append({**_source(source), "suffix": suffix})
        arrays_of_source = {} if training else _arrays(source, precision)
        arrays |= {f"{name}{suffix}": array for name, array in arrays_of_source.items()}
    return made, arrays | _maps_of_steps(sources) if training else arrays


def _maps_of_steps(sources):
    """The maps of all checkpoints, at the highest precision that fits."""
    for precision in ("uint16", "root8", "root5"):
        maps = {f"probabilities{i or ''}": pack(source.maps.probabilities[:, 0], precision) for i, source in enumerate(sources)}
        size = sum(len(array["data"]) for array in maps.values())
        if size <= PAGE_BYTES - REST:
            return maps
    raise too_large(size, len(sources), sources[0].maps.probabilities[:, 0].shape)


def _precision(sources):
    maps = sources[0].maps
    layers, _, heads, length, _ = maps.probabilities.shape
    width = 0 if maps.queries is None else maps.queries.shape[-1]
    return precision_that_fits(len(sources) * layers * heads, length, width, len(maps.term_names))


def _arrays(source, precision):
    maps = source.maps
    arrays = {"probabilities": pack(maps.probabilities[:, 0], precision)}
    if maps.queries is not None:
        arrays |= {name: pack(getattr(maps, name)[:, 0], "float16") for name in ("queries", "keys")}
        arrays |= {} if maps.terms is None else {"terms": pack(maps.terms[:, 0], "float16")}
    if source.anatomy is not None:
        arrays |= _embedding_arrays(source.anatomy)
    return arrays


def _source(source):
    maps = source.maps
    patterns = attention_patterns(maps.probabilities[:, 0], maps.tokens[0], maps.sentences[0])
    layers, heads = patterns.scores.shape[1:]
    return {
        "name": source.name,
        "step": source.step,
        "scale": float(maps.scale),
        "historyOnly": _history_only(maps.probabilities),
        "windows": _windows(maps.probabilities) if maps.windows is None else list(maps.windows),
        "thetas": None if maps.thetas is None or not any(maps.thetas) else list(maps.thetas),
        "terms": [TERM_WORDS.get(name, name) for name in maps.term_names],
        "scores": np.round(patterns.scores, 4).tolist(),
        "named": [
            [[patterns.names.index(name) for name, _ in patterns.of_head(i, j)] for j in range(heads)] for i in range(layers)
        ],
        "embeddings": None if source.anatomy is None else _embeddings(source.anatomy),
    }


def _patterns(maps):
    length = maps.probabilities.shape[-1]
    even = np.full((1, 1, length, length), 1 / max(length, 1))
    scores = attention_patterns(even, maps.tokens[0], maps.sentences[0]).even
    return {
        "names": [name for name, _ in PATTERNS],
        "meanings": [meaning for _, meaning in PATTERNS],
        "even": np.round(scores, 4).tolist(),
    }


def _texts(texts, maps):
    """The texts, truncated to the part that has tokens."""
    if texts is None or maps.offsets is None:
        return None if texts is None else [text for text in texts if text is not None]
    shown = []
    for side, text in enumerate(texts):
        if text is not None:
            last = int(maps.offsets[0, maps.sentences[0] == side, 1].max(initial=0))
            shown.append(text if not text[last:].strip() else f"{text[:last]} …")
    return shown


def _continues(maps):
    """Whether each token continues the word of the previous token."""
    if maps.words is None:
        return [False] * len(maps.tokens[0])
    words, sides = maps.words[0], maps.sentences[0]
    follows = (words[1:] == words[:-1]) & (sides[1:] == sides[:-1]) & (sides[1:] >= 0)
    return [False, *follows.tolist()]


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
    """For each layer, how many tokens on either side a query attends to; None if it attends to all."""
    length = probabilities.shape[-1]
    distances = np.abs(np.arange(length)[:, None] - np.arange(length))
    widest = [int(distances[layer.any((0, 1)) > 0].max(initial=0)) for layer in probabilities]
    return [None if window >= length - 1 else window for window in widest]
