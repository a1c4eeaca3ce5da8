"""The attention of a model as arrays: which token attends to which."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.explain.encoder_walk import (
    ATTENTION,
    embed,
    encoder_inputs,
    find_encoder,
    heads_present,
    longest_text,
    read_by_attention,
    run_encoder_block,
)
from keras_bert_rebuild.explain.token_rows import rows_of_ids, rows_of_texts
from keras_bert_rebuild.models.memory import available_bytes

# The fields with a batch axis, and their axes of length `length`.
LENGTH_AXES = {
    "probabilities": (3, 4),
    "queries": (3,),
    "keys": (3,),
    "values": (3,),
    "inputs": (2,),
    "outputs": (2,),
    "terms": (4, 5),
}


@dataclass(frozen=True)
class AttentionMaps:
    """The attention of chosen layers and heads, as float32 arrays, and the tokens."""

    probabilities: np.ndarray
    """The attention of each query to each key, `(layers, batch, heads, query, key)`; 0 at padding and for pruned heads."""

    layers: tuple
    """The layers, from 0, along the first axis. Layer 0 is the first, `Encoder-1-...` in the model."""

    heads: tuple
    """The heads, from 0, along the third axis."""

    ids: np.ndarray
    """Token ids `(batch, length)`."""

    mask: np.ndarray
    """False at padding, `(batch, length)`."""

    segments: np.ndarray
    """Segment ids `(batch, length)`; zeros for a model without segments."""

    sentences: np.ndarray
    """0 at tokens of the first text, 1 at those of the second, -1 at special tokens and padding, `(batch, length)`."""

    words: np.ndarray | None
    """Number of a token's word in its own text, -1 at special tokens and padding, `(batch, length)`; None without texts."""

    tokens: tuple | None
    """The tokens of every row as in the vocabulary, "" at padding; None without a tokenizer."""

    surfaces: tuple | None
    """The characters of the text for every token, "" at special ones; None without texts or with keras_bert's `Tokenizer`."""

    scale: float
    """The divisor of query · key: the square root of the width of a head, or of more if the scores are sums of terms."""

    queries: np.ndarray | None = None
    """`(layers, batch, heads, length, head width)`, with `vectors`; the same for `keys` and `values`."""

    keys: np.ndarray | None = None
    """See `queries`: probabilities = softmax(queries · keys / scale + terms) over the keys that may be attended to."""

    values: np.ndarray | None = None
    """See `queries`: a head returns probabilities · values."""

    inputs: np.ndarray | None = None
    """The input of each layer, `(layers, batch, length, hidden)`, with `vectors`."""

    outputs: np.ndarray | None = None
    """The output of each layer, after its feed-forward half, `(layers, batch, length, hidden)`, with `vectors`."""

    terms: np.ndarray | None = None
    """What is added to queries · keys / scale, `(layers, batch, terms, heads, query, key)`, with `vectors`; None if nothing is."""

    term_names: tuple = ()
    """The names of `terms`, such as "c2p", content to position, and "p2c", position to content, of disentangled attention."""

    windows: tuple | None = None
    """For each layer the tokens on either side that a query may attend to; None for a layer without a window."""

    thetas: tuple | None = None
    """For each layer the base of its rotary positions, by which `queries` and `keys` are rotated; None for one without."""

    offsets: np.ndarray | None = None
    """Where the characters of a token begin and end in their own text, `(batch, length, 2)`; None where `surfaces` is."""

    def of_text(self, row: int) -> Self:
        """The maps of one row of the batch alone, without its padding: batch 1, length that of the text.

        Args:
            row: its number, from 0, negative from the end.

        Raises:
            IndexError: there is no such row.
        """
        row = range(len(self.mask))[row]  # a slice from -1 to 0 would be empty
        keep = np.flatnonzero(self.mask[row])
        changes = {}
        for name, axes in LENGTH_AXES.items():
            array = getattr(self, name)
            if array is not None:
                array = array[:, row : row + 1]
                for axis in axes:
                    array = np.take(array, keep, axis=axis)
                changes[name] = array
        for name in ("ids", "mask", "segments", "sentences", "words", "offsets"):
            array = getattr(self, name)
            changes[name] = None if array is None else array[row : row + 1, keep]
        for name in ("tokens", "surfaces"):
            if getattr(self, name) is not None:
                changes[name] = (tuple(getattr(self, name)[row][i] for i in keep),)
        return replace(self, **changes)


def attention_maps(
    model: keras.Model,
    inputs: Any = None,
    *,
    texts: Sequence[str] | None = None,
    pairs: Sequence[str] | None = None,
    tokenizer: Any = None,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    vectors: bool = False,
    max_len: int | None = None,
) -> AttentionMaps:
    """The attention probabilities of a model, without changing it.

    The model runs as in prediction, with the fused kernels of its attention layers; the probabilities of the requested layers are
    computed separately, in float32, from their queries and keys, after rotary positions and within their window.

    Args:
        model: any model with an encoder of this library in it: built, loaded, fine-tuned, quantised, or nested in another one.
        inputs: those of the encoder, by name or in order; `Input-Masked` may be left out. Or pass texts.
        texts, pairs, tokenizer: a list of texts, the second text of each or None, and the tokenizer of the model; with `inputs`
            the tokenizer names the tokens.
        layers: numbers of layers, from 0, negative from the end; None for all.
        heads: numbers of heads, in the same way; in a pruned model those from before.
        vectors: also return queries, keys, values and the inputs and outputs of the layers.
        max_len: tokens to cut a text to; None to refuse those that are too long.

    Returns:
        `AttentionMaps`. Rows of probabilities sum to one, except for queries without any key to attend to, which are zeros.

    Raises:
        ValueError: the model has no encoder, a layer or head does not exist, or the inputs do not fit.
        MemoryError: the arrays do not fit into memory.
    """
    encoder = find_encoder(model)
    chosen_layers = _chosen("layers", layers, len(encoder.blocks))
    of_layer = {i: encoder.layers[ATTENTION.format(number)] for i, number in enumerate(encoder.blocks)}
    present = heads_present(encoder)
    chosen_heads = _chosen("heads", heads, 1 + max(max(heads) for heads in present))
    rows, inputs = _rows(encoder, inputs, texts, pairs, tokenizer, max_len)
    _check_memory(len(chosen_layers), len(chosen_heads), *rows.ids.shape)
    x, mask, shared = embed(encoder, inputs)
    _check_padding(ops.convert_to_numpy(mask), rows.mask)
    found: dict[str, list[Any]] = {name: [] for name in LENGTH_AXES}
    for i in range(max(chosen_layers) + 1):
        outputs = run_encoder_block(encoder, encoder.blocks[i], x, mask, shared)
        if i in chosen_layers:
            layer = of_layer[i]
            read = read_by_attention(encoder, encoder.blocks[i], x)
            projected = layer.queries_keys_values(read)
            terms = layer.position_terms(*projected[:2], *shared)
            query, key, value = (_by_heads(array, present[i], chosen_heads) for array in projected)
            visible = layer.visible_keys(rows.ids.shape[1])
            scale = layer.divisor(query.shape[-1])
            scaled = [_of_heads(_array(term), present[i], chosen_heads) / np.float32(scale) for term in terms.values()]
            added = np.stack(np.broadcast_arrays(*scaled), 1) if terms else None
            summed = None if added is None else added.sum(1)
            probabilities = attention_probabilities(query, key, rows.mask, visible, scale, summed)
            found["probabilities"].append(probabilities * np.isin(chosen_heads, present[i])[:, None, None])
            if vectors:
                for name, array in zip(LENGTH_AXES, (None, query, key, value, _array(x), _array(outputs), added), strict=True):
                    if array is not None:
                        found[name].append(array)
        x = outputs
    order = [sorted(chosen_layers).index(i) for i in chosen_layers]
    arrays = {name: np.stack([values[i] for i in order]) for name, values in found.items() if values}
    return AttentionMaps(
        layers=chosen_layers,
        heads=chosen_heads,
        scale=scale,
        term_names=tuple(terms),
        windows=tuple(of_layer[i].window for i in chosen_layers),
        thetas=tuple(of_layer[i].rotary_theta for i in chosen_layers),
        **{**vars(rows), **arrays},
    )


def attention_probabilities(queries, keys, mask, visible=None, scale=None, added=None):
    """softmax(Q Kᵀ / scale + added) over the keys that may be attended to, in float32.

    Args:
        queries, keys: `(batch, heads, length, head width)`.
        mask: False at padding, `(batch, length)`.
        visible: `(query, key)`, False where a query never attends to a key; None if it may attend to all.
        scale: the divisor; None for the square root of the width of a head.
        added: the scores of positions, `(batch, heads, query, key)`, or None.

    Returns:
        `(batch, heads, query, key)`: exactly 0 for keys that may not be attended to.
    """
    scores = queries @ np.swapaxes(keys, -1, -2) / np.float32(queries.shape[-1] ** 0.5 if scale is None else scale)
    scores = scores if added is None else scores + added
    allowed = np.broadcast_to(mask[:, None, None, :], scores.shape)
    if visible is not None:
        allowed = allowed & ops.convert_to_numpy(visible)
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def _by_heads(tensor, present, chosen):
    return _of_heads(_array(tensor).transpose(0, 2, 1, 3), present, chosen)  # (B, L, H, K) → (B, H, L, K)


def _of_heads(array, present, chosen):
    """The chosen heads of an array `(batch, heads, ...)` of those that are present; zeros for a pruned one."""
    if set(chosen) <= set(present):
        return array[:, [present.index(head) for head in chosen]]
    found = np.zeros((len(array), len(chosen), *array.shape[2:]), array.dtype)
    for i, head in enumerate(chosen):
        if head in present:
            found[:, i] = array[:, present.index(head)]
    return found


def _array(tensor):
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(tensor), "float32"))


def _rows(encoder, inputs, texts, pairs, tokenizer, max_len):
    """The `TokenRows`, and the inputs by name."""
    names = [tensor.name for tensor in encoder.embedding.inputs]
    if (inputs is None) == (texts is None) or (texts is not None and tokenizer is None):
        raise ValueError("attention_maps expected either inputs, or texts and the tokenizer of the model.")
    if texts is not None:
        length = encoder.host.inputs[0].shape[1]
        longest = length or longest_text(encoder)
        rows = rows_of_texts(tokenizer, texts, pairs, max_len, length, longest)
        known = {"Input-Token": rows.ids, "Input-Segment": rows.segments, "Input-Mask": rows.mask.astype("int32")}
        missing = [name for name in names if name not in known]
        if missing:
            raise ValueError(f"a model with {', '.join(missing)} must be called with inputs; texts do not determine them.")
        return rows, {name: known[name] for name in names}
    inputs = encoder_inputs(encoder, inputs)
    ids = inputs["Input-Token"].astype("int32")
    mask = inputs["Input-Mask"] != 0 if "Input-Mask" in inputs else ids != encoder.layers["Embedding-Token"].pad_id
    segments = inputs["Input-Segment"].astype("int32") if "Input-Segment" in inputs else np.zeros_like(ids)
    return rows_of_ids(ids, segments, mask, tokenizer), inputs


def _check_padding(mask, expected):
    """Refuse a tokenizer whose padding the model does not take for padding."""
    if not (mask == expected).all():
        row, position = np.argwhere(mask != expected)[0]
        theirs, ours = ("a token", "padding") if expected[row, position] else ("padding", "a token")
        raise ValueError(f"the tokenizer must pad with the model's padding id; {theirs} of the tokenizer is {ours} to the model.")


def _chosen(name, chosen, count):
    numbers = range(count) if chosen is None else [int(i) for i in chosen]
    wrong = [i for i in numbers if not -count <= i < count]
    if wrong or not len(numbers):
        raise ValueError(f"{name} must be numbers from 0 to {count - 1}, as the model has {count}; got {list(numbers)}.")
    numbers = tuple(i % count for i in numbers)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{name} must be different; got {list(numbers)}.")
    return numbers


def _check_memory(layers, heads, batch, length):
    needed, available = 8 * layers * heads * batch * length**2, available_bytes()  # the maps of all layers, and their stack
    if available is not None and needed > available:
        shape = (layers, batch, heads, length, length)
        raise MemoryError(
            f"the maps would have shape {shape} and need {needed / 1e9:.1f} GB while they are computed; {available / 1e9:.1f} GB "
            "of memory are free: choose fewer layers, heads or texts."
        )
