"""Show how attention evolves in training: a page with a slider over checkpoints."""

import os
from collections.abc import Iterable
from typing import Any

import keras

from keras_bert_rebuild.explain.attention_page import page_of
from keras_bert_rebuild.explain.page_data import PageContents, PageSource
from keras_bert_rebuild.explain.show_attention import AttentionPage, attention_sizes, maps_of_text


def show_training(
    checkpoints: Iterable[tuple[int, keras.Model]],
    tokenizer: Any,
    text: str,
    pair: str | None = None,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    max_len: int | None = None,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> AttentionPage:
    """Attention of a text at every checkpoint of a run, as one self-contained HTML page.

    The page has a slider over the steps and, for every head, the pattern scores by step as a curve; any step can be pinned and
    compared with the others. Maps are stored at the highest precision that fits: with a maximum error of 1/131070, or as square
    roots with 256 or 32 levels.

    Args:
        checkpoints: pairs of a step and the model at that step, in ascending order. The model may be the same object with other
            weights each time, since each pair is processed before the next is requested.
        tokenizer: the tokenizer of the model.
        text, pair: a text, and a second one or None.
        layers, heads: indices from 0; None for all.
        max_len: truncate the text to this many tokens; None to refuse a text that is too long.
        name: name of the model; None for the model's own name.
        path: also write the page to this file.

    Returns:
        An `AttentionPage`.

    Raises:
        ValueError: there is no checkpoint, steps are not ascending, the text is not a string or is too long, or the maps of all
            checkpoints do not fit into a page of 10 MB.
        OSError: the file cannot be written.
    """
    layers, heads = (None if chosen is None else tuple(chosen) for chosen in (layers, heads))
    sources: list[PageSource] = []
    steps: list[int] = []
    blocks = head_count = None
    for step, model in checkpoints:
        steps.append(int(step))
        blocks, head_count, _, _ = attention_sizes(model)
        maps = maps_of_text(model, tokenizer, (text, pair), layers, heads, max_len)
        sources.append(PageSource(maps, None, model.name if name is None else name, int(step)))
    if not steps or steps != sorted(set(steps)):
        raise ValueError(f"checkpoints must be one or more pairs of a step and a model, with ascending steps; got steps {steps}.")
    page = AttentionPage(page_of(PageContents(sources, (text, pair), blocks, head_count)))
    if path is not None:
        page.save(path)
    return page
