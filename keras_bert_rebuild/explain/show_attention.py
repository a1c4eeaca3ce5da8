"""Show the attention of a model, of two, or of the checkpoints of a run, on a page of one HTML file."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import keras

from keras_bert_rebuild.explain.aligned_maps import aligned_maps, same_tokens
from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.html_page import HtmlPage, file_of_page, page_of_files
from keras_bert_rebuild.explain.page_arrays import heads_that_fit
from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data
from keras_bert_rebuild.explain.page_panels import LensRows, Panels, TokenScores
from keras_bert_rebuild.files.printable import Verbatim
from keras_bert_rebuild.models.find_encoder import find_encoder

# The parts of the style sheet and of the script, in order.
STYLES = ("page.css", "views.css", "panels.css")
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


def attention_page(maps, anatomy=None, *, name="", compared=(), **more):
    """The HTML page of one text or pair.

    Args:
        maps: `AttentionMaps` of one text with tokens, see `of_text`; with queries and keys the page has a neuron view.
        anatomy: `EmbeddingAnatomy` of the same text, or None for a page without embeddings.
        name: name of the model.
        compared: further `PageSource`s of the same text.
        **more: the other fields of `PageContents`, such as `layer_count`.

    Returns:
        The text of an HTML file.

    Raises:
        ValueError: there are several texts or no tokens, a value is not finite, or the anatomy is of another text.
    """
    return page_of(PageContents([PageSource(maps, anatomy, name), *compared], **more))


def page_of(contents):
    """The HTML page of `PageContents`; returns and raises like `attention_page`."""
    return page_of_files(
        "Attention",
        "explain",
        STYLES,
        Verbatim(file_of_page("explain", "body.html").rstrip("\n")),
        scripts=SCRIPTS,
        data=page_data(contents),
    )


class AttentionPage(HtmlPage):
    """An attention page."""


def show_attention(
    model: keras.Model,
    tokenizer: Any,
    text: str,
    pair: str | None = None,
    *,
    other: keras.Model | None = None,
    other_tokenizer: Any = None,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    max_len: int | None = None,
    name: str | None = None,
    other_name: str | None = None,
    attributions: Sequence[TokenScores] = (),
    lens: LensRows | None = None,
    importance: Any = None,
    other_panels: Panels | None = None,
    path: str | os.PathLike[str] | None = None,
) -> AttentionPage:
    """Attention and embeddings of a text as one self-contained HTML page, of one model or of two models side by side.

    Args:
        model: any model that contains an encoder of this library.
        tokenizer: its tokenizer.
        text, pair: a text, and a second one or None.
        other: a model to compare with, or the same model at another time of its training, with as many layers and heads. If it
            tokenises the text differently, the attention of both is mapped to the shortest common pieces of the text
            (`aligned_maps`), and the page has no neurons and embeddings.
        other_tokenizer: the tokenizer of `other`; None for `tokenizer`.
        layers, heads: indices from 0; None for all. If these do not fit into a page of 10 MB, the page has no neurons, and if they
            do not fit without them either, it has as many as fit with them, evenly spaced over the model.
        max_len: truncate the text to this many tokens; None to refuse a text that is too long.
        name, other_name: names of the models; None for the models' own names.
        attributions: scores of the tokens (`TokenScores`, or records with the same fields), shown under the words.
        lens: what the language model head would predict after every block.
        importance: a number for every head, `(layers, heads)`, by which heads can be sorted.
        other_panels: attributions, lens and importance of the other model.
        path: also write the page to this file.

    Returns:
        An `AttentionPage`.

    Raises:
        ValueError: the model has no encoder, a layer or head does not exist, the text is not a string or is too long, the other
            model has another number of layers or heads, a panel is of another text, or there are scores of tokens or a lens and the
            two models tokenise the text differently.
        MemoryError: the arrays do not fit into memory.
        OSError: the file cannot be written.

    Example:

        show_attention(model, tokenizer, "The cat sat.", "It purred.").save("attention.html")
    """
    texts = (text, pair)
    anatomy = embedding_anatomy(model, tokenizer, text, pair, max_len)
    blocks, head_count, width, terms = attention_sizes(model)
    if other is not None and attention_sizes(other)[:2] != (blocks, head_count):
        theirs = attention_sizes(other)
        raise ValueError(
            f"a model to compare with must have {blocks} layers and {head_count} heads, like the first; "
            f"it has {theirs[0]} layers and {theirs[1]} heads."
        )
    copies = 1 if other is None else 2
    layers, heads, vectors = heads_that_fit(blocks, head_count, len(anatomy.tokens), width, layers, heads, terms, copies)
    maps = maps_of_text(model, tokenizer, texts, layers, heads, max_len, vectors)
    panels = Panels(attributions, lens, importance)
    sources = [PageSource(maps, anatomy, model.name if name is None else name, panels=panels)]
    if other is not None:
        tokens = tokenizer if other_tokenizer is None else other_tokenizer
        name = other.name if other_name is None else other_name
        theirs = maps_of_text(other, tokens, texts, layers, heads, max_len, vectors)
        if same_tokens(maps, theirs):
            theirs_of_text = embedding_anatomy(other, tokens, text, pair, max_len)
            sources.append(PageSource(theirs, theirs_of_text, name, panels=other_panels or Panels()))
        else:
            both, of_models = aligned_maps(maps, theirs, texts), (panels, other_panels or Panels())
            if any(shown.attributions or shown.lens is not None for shown in of_models):
                raise ValueError(
                    "attributions and the lens are of tokens: they can be shown beside those of another model only if both cut the "
                    f"text into the same tokens; these two cut it into {maps.ids.shape[1]} and {theirs.ids.shape[1]}."
                )
            names = sources[0].name, name
            sources = [PageSource(one, None, of, panels=shown) for one, of, shown in zip(both, names, of_models, strict=True)]
    contents = PageContents(sources, texts, blocks, head_count)
    page = AttentionPage(page_of(contents))
    if path is not None:
        page.save(path)
    return page


def attention_sizes(model):
    """The numbers of layers, of heads (pruned ones included) and of terms added to query · key, and the width of a head."""
    encoder = find_encoder(model)
    head_count = 1 + max(max(heads) for heads in encoder.heads)
    first = encoder.blocks[0].attention
    return len(encoder.blocks), head_count, first.query_dense.units // first.head_num, len(getattr(first, "terms", ()))


def maps_of_text(model, tokenizer, texts, layers, heads, max_len=None, vectors=False):
    """The `AttentionMaps` of one text, or of a pair if the second of `texts` is not None."""
    text, pair = texts
    pairs = None if pair is None else [pair]
    maps = attention_maps(
        model, texts=[text], pairs=pairs, tokenizer=tokenizer, layers=layers, heads=heads, vectors=vectors, max_len=max_len
    )
    return maps.of_text(0)


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
    layers, heads = (None if indices is None else tuple(indices) for indices in (layers, heads))
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
