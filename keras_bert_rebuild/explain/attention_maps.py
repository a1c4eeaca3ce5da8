"""The attention of a model as arrays: how much each token attends to each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.explain.token_rows import rows_of_ids, rows_of_texts
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.models.memory import available_bytes

# The fields with a batch axis, and which of their axes have size `length`.
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
    """The attention of selected layers and heads, as float32 arrays, with the tokens."""

    probabilities: np.ndarray
    """Attention of every query to every key, `(layers, batch, heads, query, key)`; 0 at padding and for pruned heads."""

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
    """Index of the token's word in its own text, -1 at special tokens and padding, `(batch, length)`; None without texts."""

    tokens: tuple | None
    """The tokens of every row as the vocabulary writes them, "" at padding; None without a tokenizer."""

    surfaces: tuple | None
    """The characters of every token in the text, "" at special tokens; None without texts or with keras_bert's `Tokenizer`."""

    scale: float
    """The divisor of query · key: √(head width), or √(terms · head width) for disentangled attention."""

    queries: np.ndarray | None = None
    """`(layers, batch, heads, length, head width)`, if `vectors` were requested; likewise `keys` and `values`."""

    keys: np.ndarray | None = None
    """See `queries`: probabilities = softmax(queries · keys / scale + terms) over the visible keys."""

    values: np.ndarray | None = None
    """See `queries`: the output of a head is probabilities · values."""

    inputs: np.ndarray | None = None
    """The input of each layer, `(layers, batch, length, hidden)`, if `vectors` were requested."""

    outputs: np.ndarray | None = None
    """The output of each layer, after its feed-forward network, `(layers, batch, length, hidden)`, if `vectors` were requested."""

    terms: np.ndarray | None = None
    """Terms added to queries · keys / scale, `(layers, batch, terms, heads, query, key)`, if `vectors` were requested."""

    term_names: tuple = ()
    """The names of `terms`: for disentangled attention "c2p", content to position, and "p2c", position to content."""

    windows: tuple | None = None
    """For each layer, how many tokens on either side a query may attend to; None for a layer without a window."""

    thetas: tuple | None = None
    """For each layer, the base of the rotary positions by which `queries` and `keys` are rotated; None without."""

    offsets: np.ndarray | None = None
    """Offsets of the characters of each token in its own text, `(batch, length, 2)`; None if `surfaces` is None."""

    def of_text(self, row: int) -> Self:
        """The maps of one row of the batch, without padding: batch size 1, length of the text.

        Args:
            row: index of the row, from 0, negative from the end.

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
    """The attention probabilities of a model, which is not changed.

    The model runs in inference mode with the fused kernels of its attention layers; a rule records the probabilities of the
    requested layers, which the layers themselves compute in float32 from the queries and keys that the kernels read.

    Args:
        model: any model that contains an encoder of this library: built, loaded, fine-tuned, quantised or nested in another model.
        inputs: inputs of the encoder, by name or in order; `Input-Masked` may be left out. Alternatively, pass texts.
        texts, pairs, tokenizer: a list of texts, the second text of each or None, and the tokenizer of the model; with `inputs`,
            the tokenizer only provides the names of the tokens.
        layers: indices of layers, from 0, negative from the end; None for all.
        heads: indices of heads, likewise; in a pruned model, those before pruning.
        vectors: also return queries, keys, values and the inputs and outputs of the layers.
        max_len: truncate texts to this many tokens; None to refuse texts that are too long.

    Returns:
        `AttentionMaps`. Rows of probabilities sum to 1, or are 0 for queries without visible keys.

    Raises:
        ValueError: the model has no encoder, a layer or head does not exist, or the inputs do not fit.
        MemoryError: the arrays do not fit into memory.
    """
    encoder = find_encoder(model)
    chosen_layers = _chosen("layers", layers, len(encoder.blocks))
    of_layer, present = [block.attention for block in encoder.blocks], encoder.heads
    chosen_heads = _chosen("heads", heads, 1 + max(max(heads) for heads in present))
    rows, inputs = _rows(encoder, inputs, texts, pairs, tokenizer, max_len)
    _check_memory(len(chosen_layers), len(chosen_heads), *rows.ids.shape)
    start = encoder.embed(inputs)
    _check_padding(ops.convert_to_numpy(start.tokens), rows.mask)
    collected: dict[str, list[Any]] = {name: [] for name in LENGTH_AXES}
    runs, term_names = iter(range(len(encoder.blocks))), dict[str, None]()

    def record(plain, layer, query, key, value, mask=None, training=None, *shared):
        run = next(runs)
        if run in chosen_layers:
            by_heads = lambda array: _of_heads(_array(array), present[run], chosen_heads)  # noqa: E731
            pair = ops.cast(query, "float32"), ops.cast(key, "float32")
            probabilities = by_heads(ops.where(layer.visible(mask, query), layer.probabilities(*pair, mask, *shared), 0.0))
            total = probabilities.sum(-1, keepdims=True)  # 1 but for rounding, or 0
            collected["probabilities"].append(probabilities / np.where(total > 0, total, 1))
            terms = layer.position_terms(*pair, *shared)
            term_names.update(dict.fromkeys(terms))
            if vectors:
                for name, array in (("queries", query), ("keys", key), ("values", value)):
                    collected[name].append(by_heads(ops.swapaxes(array, 1, 2)))  # (B, L, H, K) → (B, H, L, K)
                if terms:
                    added = np.broadcast_arrays(*map(by_heads, terms.values()))
                    collected["terms"].append(np.stack(added, 1) / np.float32(layer.divisor(query.shape[-1])))
        return plain(layer, query, key, value, mask, training, *shared)

    with executing((MultiHeadSelfAttention.attend, record)):
        for i, x in enumerate(encoder.states(start, 1 + max(chosen_layers), gradients=False)):
            for name, wanted in (("inputs", i in chosen_layers), ("outputs", i - 1 in chosen_layers)):
                if vectors and wanted:
                    collected[name].append(_array(x))
    order = [sorted(chosen_layers).index(i) for i in chosen_layers]
    arrays = {name: np.stack([values[i] for i in order]) for name, values in collected.items() if values}
    return AttentionMaps(
        layers=chosen_layers,
        heads=chosen_heads,
        scale=of_layer[0].divisor(of_layer[0].head_size),
        term_names=tuple(term_names),
        windows=tuple(of_layer[i].window for i in chosen_layers),
        thetas=tuple(of_layer[i].rotary_theta for i in chosen_layers),
        **{**vars(rows), **arrays},
    )


def _of_heads(array, present, heads):
    """The selected heads of an array `(batch, heads, ...)` of the remaining heads; zeros for a pruned head."""
    if set(heads) <= set(present):
        return array[:, [present.index(head) for head in heads]]
    result = np.zeros((len(array), len(heads), *array.shape[2:]), array.dtype)
    for i, head in enumerate(heads):
        if head in present:
            result[:, i] = array[:, present.index(head)]
    return result


def _array(tensor):
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(tensor), "float32"))


def _rows(encoder, inputs, texts, pairs, tokenizer, max_len):
    """The `TokenRows`, and the inputs by name."""
    names = [tensor.name for tensor in encoder.embedding.inputs]
    if (inputs is None) == (texts is None) or (texts is not None and tokenizer is None):
        raise ValueError("attention_maps expected either inputs, or texts and the tokenizer of the model.")
    if texts is not None:
        length = encoder.host.inputs[0].shape[1]
        longest = length or encoder.max_length
        rows = rows_of_texts(tokenizer, texts, pairs, max_len, length, longest)
        arrays = rows.inputs()
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ValueError(f"a model with {', '.join(missing)} must be called with inputs; texts do not determine them.")
        return rows, {name: arrays[name] for name in names}
    inputs = encoder.arrays(inputs)
    ids = inputs["Input-Token"].astype("int32")
    mask = inputs["Input-Mask"] != 0 if "Input-Mask" in inputs else ids != encoder.layers["Embedding-Token"].pad_id
    segments = inputs["Input-Segment"].astype("int32") if "Input-Segment" in inputs else np.zeros_like(ids)
    return rows_of_ids(ids, segments, mask, tokenizer), inputs


def _check_padding(mask, expected):
    """Refuse a tokenizer whose padding the model does not recognise."""
    if not (mask == expected).all():
        row, position = np.argwhere(mask != expected)[0]
        theirs, ours = ("a token", "padding") if expected[row, position] else ("padding", "a token")
        raise ValueError(f"the tokenizer must pad with the model's padding id; {theirs} of the tokenizer is {ours} to the model.")


def _chosen(name, indices, count):
    numbers = range(count) if indices is None else [int(i) for i in indices]
    wrong = [i for i in numbers if not -count <= i < count]
    if wrong or not len(numbers):
        raise ValueError(f"{name} must be integers from 0 to {count - 1}, since the model has {count}; got {list(numbers)}.")
    numbers = tuple(i % count for i in numbers)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{name} must be different; got {list(numbers)}.")
    return numbers


def _check_memory(layers, heads, batch, length):
    needed, available = 8 * layers * heads * batch * length**2, available_bytes()  # the maps of each layer, and their stack
    if available is not None and needed > available:
        shape = (layers, batch, heads, length, length)
        raise MemoryError(
            f"the maps would have shape {shape} and need {needed / 1e9:.1f} GB to compute; {available / 1e9:.1f} GB of memory are "
            "free: choose fewer layers, heads or texts."
        )
