"""The logit lens: the predictions of the MLM head after every block."""

import functools

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.heads import TRANSFORM
from keras_bert_rebuild.explain.token_rows import rows_of_texts
from keras_bert_rebuild.interpret.lens_record import LogitLens
from keras_bert_rebuild.models.encoder import FINAL_NORM
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

# Maximum number of logits in memory at once: 64 MB in float32.
LOGITS = 1 << 24


def logit_lens(
    model: keras.Model,
    tokenizer: BatchTokenizer,
    text: str,
    pair: str | None = None,
    *,
    truth: str | None = None,
    top_k: int = 5,
    max_len: int | None = None,
) -> LogitLens:
    """The predictions of the MLM head if the encoder ended after each of its blocks.

    The vectors after the embedding and after every block skip the remaining blocks and go through the final norm, for pre-norm
    blocks, and the transform and token table of the MLM head. After the last block, that is the prediction of the model. The output
    of post-norm blocks, as in BERT, is already normalised.

    Memory is that of the logits of one block.

    Args:
        model: a model with an MLM head, of any family.
        tokenizer: its tokenizer, such as from `load_tokenizer`.
        text: a text that may contain the tokenizer's mask, such as `[MASK]`, in place of tokens to predict.
        pair: a second text, or None.
        truth: the text without masks, which provides the true tokens; None if they are unknown.
        top_k: the number of tokens to list, most probable first.
        max_len: number of tokens to truncate the text to; None to refuse a text that is too long.

    Returns:
        A `LogitLens`.

    Raises:
        ValueError: the model has no MLM head, a text is not a string or is too long, or `truth` is not the text with one token in
            place of every mask.

    Reference: nostalgebraist, 2020, "interpreting GPT: the logit lens"
    (https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens).
    """
    encoder = find_encoder(model)
    if "MLM-Sim" not in encoder.layers:
        raise ValueError(f"the model must have an MLM head; its outputs are {', '.join(model.output_names)}.")
    if not isinstance(tokenizer, BatchTokenizer):
        raise ValueError(f"tokenizer must be from this library, such as from load_tokenizer; got {type(tokenizer).__name__}.")
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1; got {top_k}.")
    for name, value in (("text", text), ("pair", pair or ""), ("truth", truth or "")):
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a string; got {value!r:.80}.")
    fixed = encoder.host.inputs[0].shape[1]
    rows = _rows(tokenizer, text, pair, max_len, fixed)
    length = int(rows.mask.sum())
    ids, longest = rows.ids[0, :length], fixed or encoder.max_length
    if longest is not None and length > longest:
        raise ValueError(f"a text must have at most {longest} tokens, as the model allows; got {length}: pass max_len to cut it.")
    true_ids = _true_ids(tokenizer, ids, None if truth is None else _rows(tokenizer, truth, pair, max_len).ids[0])
    states, head = _states_and_head(encoder, rows)
    top_k = min(top_k, encoder.layers["Embedding-Token"].input_dim)
    readings = _read_blocks(states, head, length, true_ids, top_k)
    masked = ids == tokenizer.mask_id
    return LogitLens(
        tokens=rows.tokens[0][:length],
        words=rows.surfaces[0][:length],
        masked=tuple(masked.tolist()),
        depths=("embedding", *(f"block {i + 1}" for i in range(len(states) - 1))),
        top_tokens=tuple(tuple(_names(tokenizer, of_position) for of_position in of_depth) for of_depth in readings["top_ids"]),
        final_tokens=_names(tokenizer, readings["top_ids"][-1, :, 0]),
        true_tokens=tuple(None if i < 0 else name for i, name in zip(true_ids, _names(tokenizer, true_ids), strict=True)),
        **readings,
    )


def _rows(tokenizer, text, pair, max_len, width=None):
    options = {} if pair is None or max_len is None else {"truncation": "halves"}
    pairs = None if pair is None else [pair]
    return rows_of_texts(tokenizer, [text], pairs, max_len, width, special_tokens_in_text=True, **options)


def _true_ids(tokenizer, ids, true):
    """The ids of the text; at masks those of the truth, or -1."""
    masked = ids == tokenizer.mask_id
    if true is None:
        return np.where(masked, -1, ids)
    if len(true) != len(ids) or (true != ids)[~masked].any():
        raise ValueError(
            f"truth must be the text with a token for every mask, {len(ids)} tokens; it has {len(true)}"
            f"{'' if len(true) != len(ids) else ', of which some differ outside the masks'}."
        )
    return np.where(true == tokenizer.mask_id, -1, true)


def _states_and_head(encoder, rows):
    """The vectors after the embedding and after every block, and a function from the vectors of a block to logits."""
    arrays = rows.inputs()
    names = [tensor.name for tensor in encoder.embedding.inputs]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"the model must have only inputs that texts determine; it also has {', '.join(missing)}.")
    start = encoder.embed(encoder.arrays(arrays))
    states = [*encoder.states(start, gradients=False)]
    between = [encoder.layers[name] for name in (FINAL_NORM, *TRANSFORM) if name in encoder.layers]

    def head(vectors):
        features = functools.reduce(lambda x, layer: layer(x), between, vectors)
        return ops.stop_gradient(encoder.layers["MLM-Sim"]([features, start.table], return_logits=True))

    return [ops.stop_gradient(x) for x in states], head


def _read_blocks(states, head, length, true_ids, top_k):
    """The arrays of a `LogitLens`, `(depths, length, ...)`, some positions at a time."""
    parts_of = {name: [[] for _ in states] for name in ARRAYS}
    vocabulary = int(head(states[0][:, :1]).shape[-1])
    step = max(1, LOGITS // vocabulary)
    for first in range(0, length, step):
        last = min(first + step, length)
        answers = _log_softmax(head(states[-1][:, first:last])[0])
        final = ops.argmax(answers, axis=-1)
        true = ops.convert_to_tensor(np.maximum(true_ids[first:last], 0), dtype="int32")
        for depth, state in enumerate(states):
            logs = answers if depth == len(states) - 1 else _log_softmax(head(state[:, first:last])[0])
            values, ids = ops.top_k(logs, top_k)
            final_rank, final_log = _rank(logs, final)
            true_rank, true_log = _rank(logs, true)
            divergence = ops.sum(ops.exp(answers) * (answers - logs), axis=-1)
            arrays = (ids, ops.exp(values), final_rank, ops.exp(final_log), true_rank, ops.exp(true_log), divergence)
            for name, array in zip(ARRAYS, arrays, strict=True):
                parts_of[name][depth].append(ops.convert_to_numpy(array))
    arrays = {name: np.stack([np.concatenate(parts) for parts in depths]) for name, depths in parts_of.items()}
    arrays["divergences"] = np.maximum(arrays["divergences"], 0)  # rounding may make the sum negative
    unknown = true_ids < 0
    arrays["true_ranks"] = np.where(unknown, 0, arrays["true_ranks"])
    arrays["true_probabilities"] = np.where(unknown, np.float32("nan"), arrays["true_probabilities"])
    return {name: array.astype("int32" if name.endswith(("ids", "ranks")) else "float32") for name, array in arrays.items()}


ARRAYS = (
    "top_ids",
    "top_probabilities",
    "final_ranks",
    "final_probabilities",
    "true_ranks",
    "true_probabilities",
    "divergences",
)


def _rank(logs, ids):
    """The ranks of tokens, 1 + the number of more probable ones, and their log-probabilities."""
    own = ops.take_along_axis(logs, ops.cast(ids, "int32")[:, None], axis=-1)
    return 1 + ops.sum(ops.cast(logs > own, "int32"), axis=-1), own[:, 0]


def _log_softmax(logits):
    return ops.log_softmax(ops.cast(logits, "float32"), axis=-1)


def _names(tokenizer, ids):
    return tuple(tokenizer.tokens.get(int(i), "?") for i in ids)
