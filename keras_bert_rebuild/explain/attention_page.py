"""Attention as one self-contained HTML file, made from arrays."""

import base64
import hashlib
import json
import re
from importlib import resources

from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data

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

# Characters that would end a script element or a line of a script, as JSON escapes.
ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


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
    data = as_script_data(page_data(contents))
    style = "\n" + "\n".join(map(_part, STYLES))
    script = "\n(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "})();\n"
    hashes = f"script-src {_hash(script)}; style-src {_hash(style)}"
    policy = f"default-src 'none'; {hashes}; img-src data:; base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, "script": script, "data": data}
    # In one pass, since inserted text may itself look like a placeholder.
    return re.sub(r"\{(policy|style|script|data)\}", lambda placeholder: parts[placeholder[1]], _part("page.html"))


def as_script_data(values):
    """JSON that is safe in a script element, whatever texts it contains."""
    return json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _part(name):
    return (resources.files("keras_bert_rebuild.explain") / "page" / name).read_text(encoding="utf-8")


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
