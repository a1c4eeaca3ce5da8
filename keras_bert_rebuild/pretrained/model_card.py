"""Model cards: the README.md of a saved model, with metadata that the Hugging Face hub reads, scores among them.

A card names files and counts of the data, never its texts.

Reference: https://github.com/huggingface/hub-docs/blob/main/modelcard.md, for the metadata.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.printable import in_markdown

# What stands for the path or the name of the model in the lines that load it.
MODEL = "FOLDER-OR-NAME"

# The kind of a task: what it is called, and the hub's name of what it does.
KINDS = {
    "classification": ("text classification", "text-classification"),
    "token_classification": ("token classification", "token-classification"),
    "question_answering": ("question answering", "question-answering"),
    "multiple_choice": ("multiple choice", "multiple-choice"),
    "embedding": ("vectors of texts", "sentence-similarity"),
    "sparse_embedding": ("sparse vectors of texts", "feature-extraction"),
    "late_interaction": ("search by late interaction", "sentence-similarity"),
    "reranking": ("reranking", "text-ranking"),
    "next_sentence": ("next sentence prediction", "text-classification"),
}

# A class of sentence-transformers: a call of its object.
SENTENCE_CALLS = {
    "SentenceTransformer": 'encode(["A text."])',
    "SparseEncoder": 'encode(["A text."])',
    "MultiVectorEncoder": 'encode_document(["A text."])',
    "CrossEncoder": 'predict([("A query", "A text.")])',
}

# What a card says of the model that it was made from.
OF_BASE = ("language", "license", "datasets", "base_model", "base_model_revision")

# Maximum number of labels that are listed.
MOST_LABELS = 50

_SIGNED = re.compile(r"<!-- keras_bert_rebuild wrote this card and replaces it unless it was changed: ([0-9a-f]{16}) -->\n\Z")


@dataclass(frozen=True)
class Training:
    """What is known of a training: its data, what was measured, and its settings."""

    data: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Split, such as "train", to the name of its file and the number of its examples."""

    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Split to scores by name."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings by name; None and empty ones are left out of the card."""

    unit: str = "examples"
    """What is counted in `data`."""


@dataclass(frozen=True)
class Card:
    """What a card says of a model; what is not known is empty."""

    family: str
    """The `model_type`."""

    kind: str = ""
    """The kind of the task, as in task.json; empty for an encoder."""

    heads: tuple[str, ...] = ()
    """The heads of the model."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Numbers by what they count, such as parameters."""

    labels: tuple[str, ...] = ()
    """Names of the labels of the task."""

    tokenizer: bool = False
    """Whether the folder has the files of a tokenizer."""

    library: str = "keras_bert_rebuild"
    """The library whose format the folder has: "transformers", "sentence-transformers", "keras" or this one."""

    loaded_by: str = ""
    """The class of that library that loads it; empty if none does, or would answer otherwise."""

    base: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the model that this one was made from: see `base_of`."""

    training: Training = field(default_factory=Training)
    """How it was trained."""


def card_text(card: Card) -> str:
    """The card as the text of a README.md: metadata in YAML, the page, and a line by which `is_unchanged` knows it."""
    title, tag = _title_and_tag(card)
    metadata = {
        "library_name": card.library,
        "pipeline_tag": tag,
        **{name: card.base[name] for name in OF_BASE if name in card.base},
        "tags": ["keras_bert_rebuild", card.family],
        "model-index": _index(card, title, tag),
    }
    metadata = {name: value for name, value in metadata.items() if value}
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    parts = [f"# {in_markdown(title)}", _origin(card), *_training(card.training), *_sizes(card), *_loading(card)]
    text = f"---\n{front}---\n\n" + "\n\n".join(part for part in parts if part) + "\n\n"
    return f"{text}<!-- keras_bert_rebuild wrote this card and replaces it unless it was changed: {_signature(text)} -->\n"


def is_unchanged(text: str) -> bool:
    """Whether a text is one that `card_text` made and nobody has changed."""
    signed = _SIGNED.search(text)
    return signed is not None and signed[1] == _signature(text[: signed.start()])


def score_table(scores: Mapping[str, Mapping[str, float | None]]) -> str:
    """Scores as a table in Markdown, a column for each split."""
    names = dict.fromkeys(name for part in scores.values() for name in part)
    rows = [f"| {in_markdown(name)} | {' | '.join(_shown(part.get(name)) for part in scores.values())} |" for name in names]
    return "\n".join([f"| score | {' | '.join(scores)} |", f"|---|{'---:|' * len(scores)}", *rows])


def setting_table(settings: Mapping[str, Any]) -> str:
    """Settings as a table in Markdown, without missing ones."""
    rows = [f"| {name} | {in_markdown(value)} |" for name, value in settings.items() if value is not None]
    return "\n".join(["| setting | |", "|---|---|", *rows])


def _signature(text):
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _title_and_tag(card):
    name = card.base.get("base_model", card.family).rpartition("/")[2]
    if card.kind:
        what, tag = KINDS.get(card.kind, (card.kind.replace("_", " "), ""))
        return f"{name} for {what}", tag
    return f"{name}, an encoder", "fill-mask" if "mlm" in card.heads else "feature-extraction"


def _origin(card):
    what = f"A model of the family {card.family}"
    if card.heads:
        what += f" with the head{'s' if len(card.heads) > 1 else ''} {', '.join(card.heads)}"
    base = card.base.get("base_model")
    if base is None:
        return f"{what}."
    commit = card.base.get("base_model_revision")
    return f"{what}, made from {in_markdown(base)}{f' at the commit `{commit}`' if commit else ''}."


def _training(training):
    """The parts of a card on data, scores and settings."""
    if training.data:
        rows = [f"| {split} | {in_markdown(name)} | {count:,} |" for split, (name, count) in training.data.items()]
        yield "\n".join(["## Data", "", f"| | name | {training.unit} |", "|---|---|---:|", *rows])
    if training.scores:
        yield f"## Scores\n\n{score_table(training.scores)}"
    told = {name: value for name, value in training.settings.items() if value or (value == 0 and value is not False)}
    settings = {name: _without_folders(value) for name, value in told.items()}
    if settings:
        yield f"## Settings\n\n{setting_table(settings)}"


def _sizes(card):
    rows = [f"| {what} | {number:,} |" for what, number in card.sizes.items()]
    yield "\n".join(["## Sizes", "", "| | |", "|---|---:|", *rows])
    if card.labels:
        more = f" and {len(card.labels) - MOST_LABELS:,} more" if len(card.labels) > MOST_LABELS else ""
        yield f"Labels: {', '.join(map(in_markdown, card.labels[:MOST_LABELS]))}{more}."


def _loading(card):
    """The lines that load the model, here and in the library whose format it has."""
    yield f"## Load it\n\n{MODEL} is this folder, or user/name on the hub. With keras_bert_rebuild:"
    if card.kind:
        yield _code("from keras_bert_rebuild import load_task", f'task = load_task("{MODEL}")')
    elif card.tokenizer:
        yield _code(
            "from keras_bert_rebuild import from_pretrained, load_tokenizer",
            f'model = from_pretrained("{MODEL}")',
            f'tokenizer = load_tokenizer("{MODEL}")',
        )
    else:
        yield _code("from keras_bert_rebuild import from_pretrained", f'model = from_pretrained("{MODEL}")')
    if not card.loaded_by:
        return
    yield f"With {card.library}:"
    if card.library == "sentence-transformers":
        yield _code(
            f"from sentence_transformers import {card.loaded_by}",
            f'model = {card.loaded_by}("{MODEL}")',
            f"answers = model.{SENTENCE_CALLS[card.loaded_by]}",
        )
    else:
        of_tokenizer = (f'tokenizer = AutoTokenizer.from_pretrained("{MODEL}")',) if card.tokenizer else ()
        imported = f"AutoTokenizer, {card.loaded_by}" if card.tokenizer else card.loaded_by
        yield _code(f"from transformers import {imported}", f'model = {card.loaded_by}.from_pretrained("{MODEL}")', *of_tokenizer)


def _code(*lines):
    return "\n".join(["```python", *lines, "```"])


def _index(card, title, tag):
    """The scores in the metadata, where the hub looks for them; it has no name for files that are not on it."""
    results = []
    for split, scores in card.training.scores.items():
        metrics = [{"type": name, "value": value, "name": name} for name, value in scores.items() if is_number(value)]
        if metrics:
            data = card.training.data
            name, _ = data.get(split) or next(iter(data.values()), (split, 0))  # held-out text is a part of the corpus
            dataset = {"name": name, "type": "unknown", "split": split}
            results.append({"task": {"type": tag or card.kind}, "dataset": dataset, "metrics": metrics})
    return [{"name": title, "results": results}] if results else []


def _without_folders(value):
    """A setting; of a path, the name of the file or folder alone."""
    return Path(value).name if isinstance(value, str) and os.sep in value else value


def _shown(value):
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
