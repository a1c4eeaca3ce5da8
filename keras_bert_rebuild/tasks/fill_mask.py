"""The words that a model with an MLM head predicts for `[MASK]`."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.batches import input_arrays, least_length, model_inputs
from keras_bert_rebuild.tasks.embedding_model import longest_row
from keras_bert_rebuild.tasks.text_rows import LONGEST, buckets_for, encode_windows, example_list, predicted
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def fill_mask(
    model: keras.Model,
    token_dict: dict[str, int] | BatchTokenizer,
    text: str | Sequence[str],
    top_k: int = 5,
    cased: bool = False,
    batch_size: int = 8,
) -> list[Any]:
    """Predict the masked tokens of texts.

    A text that is too long for the model is split into windows; each `[MASK]` is predicted in the window with the most context.

    Args:
        model: from `get_model(training=True)`, or from `from_pretrained` with an MLM head.
        token_dict: the model's vocabulary, a dictionary from token to id; or its tokenizer, from `load_tokenizer`.
        text: a text with the tokenizer's mask, such as `[MASK]`, in place of one or more tokens; or a list of such texts.
        top_k: number of predictions for each mask.
        cased: with a vocabulary, retain case and accents.
        batch_size: rows per batch.

    Returns:
        For every mask, in order, a list of `(token, probability)`, the most probable first; for a list of texts a list of these.

    Raises:
        ValueError: the model has no MLM head, a text is not a string or has no mask, or a number is below 1.
    """
    tokenizer = token_dict if isinstance(token_dict, BatchTokenizer) else WordPieceTokenizer(token_dict, cased=cased)
    if "MLM" not in (names := list(model.output_names)):
        raise ValueError(f"the model must have an MLM head; its outputs are {', '.join(names)}.")
    for name, value in (("top_k", top_k), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}.")
    texts = [text] if isinstance(text, str) else example_list(text, "text")
    mask = tokenizer.tokens.get(tokenizer.mask_id)
    for one in texts:
        if not isinstance(one, str) or mask is None or mask not in one:
            raise ValueError(f"text must be a string with at least one {mask or '[MASK]'}; got {one!r:.80}.")
    answers = _answers(model, tokenizer, texts, top_k, batch_size)
    return answers[0] if isinstance(text, str) else answers


def _answers(model, tokenizer, texts, top_k, batch_size):
    fixed = model.inputs[0].shape[1]
    longest = fixed or min(longest_row(model), LONGEST)
    windows = encode_windows(
        tokenizer, texts, max_len=longest, stride=longest // 4 if longest > 8 else 0, special_tokens_in_text=True
    )
    chosen = [(ids == tokenizer.mask_id) & best for ids, best in zip(windows.ids, windows.best, strict=True)]
    rows = [row for row in range(len(chosen)) if chosen[row].any()]
    columns = windows.ids, windows.segments, chosen
    names = [tensor.name for tensor in model.inputs]
    answers = [[] for _ in texts]
    for first in range(0, len(rows), batch_size):
        batch = rows[first : first + batch_size]
        ids, segments, masked = ([column[row] for row in batch] for column in columns)
        length = fixed or least_length(buckets_for((), longest), max(map(len, ids)))
        inputs, padding = model_inputs(names, ids, segments, tokenizer.pad_id, masked)
        outputs = predicted(model, input_arrays(inputs, length, padding))
        outputs = outputs[model.output_names.index("MLM")] if isinstance(outputs, (list, tuple)) else outputs
        for i, row in enumerate(batch):
            for probabilities in np.asarray(outputs[i])[np.flatnonzero(chosen[row])]:
                best = np.argsort(-probabilities, kind="stable")[:top_k].tolist()
                answers[windows.examples[row]].append([(tokenizer.tokens.get(k), float(probabilities[k])) for k in best])
    return answers
