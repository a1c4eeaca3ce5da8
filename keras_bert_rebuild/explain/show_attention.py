"""Show the attention of a model: a page for a browser or a notebook."""

import html
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.explain.attention_page import attention_page, heads_that_fit
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.encoder_walk import ATTENTION, find_encoder
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import PAGE
from keras_bert_rebuild.files.output import check_file


class AttentionPage:
    """A page that a notebook shows and `save` writes.

    Args:
        html: the text of the page.
        height: of its frame in a notebook, in pixels.
    """

    def __init__(self, html: str, height: int = 760) -> None:
        self.html, self.height = html, height

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, completely or not at all.

        Args:
            path: a name that ends in .html or .htm; only an existing page is replaced, no other file.

        Returns:
            The path.

        Raises:
            ValueError: another suffix, or the file holds something else.
            OSError: the file cannot be written.
        """
        path = Path(path)
        check_file(path, PAGE)
        write_text(path, self.html)
        return path

    def _repr_html_(self):
        # In a frame with its own origin: styles and scripts of page and notebook stay separate.
        return (
            f'<iframe title="Attention" sandbox="allow-scripts" style="width:100%;height:{self.height}px;border:0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )

    def __repr__(self):
        return f"<AttentionPage of {len(self.html):,} characters; save(path) writes it>"


def show_attention(
    model: keras.Model,
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
    """Attention and embeddings of a text as one self-contained HTML page.

    Args:
        model: any model with an encoder of this library in it.
        tokenizer: its tokenizer.
        text, pair: a text, and a second one or None.
        layers, heads: numbers from 0; None for all, or for as many as fit into a page of 10 MB if the text is long, spread evenly
            over the model.
        max_len: tokens to cut the text to; None to refuse one that is too long.
        name: of the model; None for its own name.
        path: also write the page to this file.

    Returns:
        An `AttentionPage`.

    Raises:
        ValueError: the model has no encoder, a layer or head does not exist, or the text is not a string or is too long.
        MemoryError: the arrays do not fit into memory.
        OSError: the file cannot be written.

    Example:

        show_attention(model, tokenizer, "The cat sat.", "It purred.").save("attention.html")
    """
    encoder = find_encoder(model)
    anatomy = embedding_anatomy(model, tokenizer, text, pair, max_len)
    blocks = [encoder.layers[ATTENTION.format(number)] for number in encoder.blocks]
    head_count = min(block.head_num for block in blocks)
    width = blocks[0].query_dense.units // blocks[0].head_num
    terms = len(getattr(blocks[0], "terms", ()))
    layers, heads = heads_that_fit(len(blocks), head_count, len(anatomy.tokens), width, layers, heads, terms)
    maps = attention_maps(
        model,
        texts=[text],
        pairs=None if pair is None else [pair],
        tokenizer=tokenizer,
        layers=layers,
        heads=heads,
        vectors=True,
        max_len=max_len,
    )
    name = model.name if name is None else name
    page = AttentionPage(attention_page(maps.of_text(0), anatomy, name=name, layer_count=len(blocks), head_count=head_count))
    if path is not None:
        page.save(path)
    return page
