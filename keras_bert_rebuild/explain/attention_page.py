"""Attention as one self-contained HTML file, made from arrays."""

from importlib import resources

from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data
from keras_bert_rebuild.files.printable import Verbatim, html_page

# The parts of the style sheet and of the script, in order.
STYLES = ("base.css", "page.css", "views.css", "panels.css")
SCRIPTS = (
    "arrays.js",
    "tokens.js",
    "colours.js",
    "divergence.js",
    "state.js",
    "elements.js",
    "controls.js",
    "sources.js",
    "map_picture.js",
    "head_lines.js",
    "head_stage.js",
    "head_list.js",
    "head_view.js",
    "head_grid.js",
    "model_view.js",
    "neuron_view.js",
    "neuron_steps.js",
    "embeddings_view.js",
    "curves.js",
    "training_view.js",
    "why_view.js",
    "lens_view.js",
    "start.js",
)


def attention_page(maps, anatomy=None, *, name="", others=(), **more):
    """The HTML page of one text or pair.

    Args:
        maps: `AttentionMaps` of one text with tokens, see `of_text`; with queries and keys the page has a neuron view.
        anatomy: `EmbeddingAnatomy` of the same text, or None for a page without embeddings.
        name: name of the model.
        others: a `PageSource` of the same text to compare with.
        **more: the other fields of `PageContents`, such as `layer_count`.

    Returns:
        The text of an HTML file.

    Raises:
        ValueError: there are several texts or no tokens, a value is not finite, or the anatomy is of another text.
    """
    return page_of(PageContents([PageSource(maps, anatomy, name), *others], **more))


def page_of(contents):
    """The HTML page of `PageContents`; returns and raises like `attention_page`."""
    style = "\n" + "\n".join(map(_part, STYLES))
    script = "\n(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "})();\n"
    return html_page("Attention", style, Verbatim(_part("body.html").rstrip("\n")), script=script, data=page_data(contents))


def _part(name):
    return (resources.files("keras_bert_rebuild.explain") / "page" / name).read_text(encoding="utf-8")
