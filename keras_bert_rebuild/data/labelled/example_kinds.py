"""The kinds of examples: the columns they may have in a file, and how a row becomes an example."""

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    RankedText,
    ScoredPair,
    TaggedText,
    TaggedWords,
    TextGroup,
)

# Separates several labels of a text in one cell of a table.
LABEL_SEPARATOR = ","


@dataclass(frozen=True)
class Kind:
    """A kind of examples."""

    name: str
    """Its name in arguments and errors."""

    columns: dict
    """The usual column names of each part of an example; the first that a file has is used."""

    required: tuple
    """Parts that every example has."""

    target: str | None
    """The part to learn, which may be missing for prediction."""

    by_width: dict
    """The columns of a table without a header, by their number."""

    make: Callable[..., Any]
    """A function from the parts of an example and its location in a file to the example."""

    needed: str = ""
    """What a training example must have, if this is not a single part."""


def _label(value, where):
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ValueError(f"expected a label, a word or a whole number; got {value!r} in {where}.")
    return str(value)


def _labels(value, where):
    values = [part.strip() for part in value.split(LABEL_SEPARATOR) if part.strip()] if isinstance(value, str) else value
    if not isinstance(values, list):
        raise ValueError(f"expected a list of labels; got {value!r} in {where}.")
    return tuple(_label(part, where) for part in values)


def _number(value, where):
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a number as score; got {value!r:.80} in {where}.")
    return number


def _text(value, where, part="text"):
    if not isinstance(value, str):
        raise ValueError(f"expected a string as {part}; got {value!r:.80} in {where}.")
    return value


def _classified(read):
    def make(parts, where):
        pair = None if parts.get("pair") is None else _text(parts["pair"], where, "pair")
        label = None if parts.get("label") is None else read(parts["label"], where)
        return ClassifiedText(_text(parts["text"], where), pair, label, where=where)

    return make


def _scored(parts, where):
    score = None if parts.get("score") is None else _number(parts["score"], where)
    return ScoredPair(_text(parts["first"], where, "first"), _text(parts["second"], where, "second"), score, where=where)


def _tagged(parts, where):
    words, tags, spans = (parts.get(name) for name in ("words", "tags", "spans"))
    if words is None and parts.get("text") is None:
        raise ValueError(f"expected a text, or words with tags; got neither in {where}.")
    if words is None:
        text = _text(parts["text"], where)
        return TaggedText(text, None if spans is None else checked_spans(spans, text, where), where=where)
    for name, values in (("words", words), ("tags", tags)):
        if values is not None and not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
            raise ValueError(f"expected a list of strings as {name}; got {values!r:.80} in {where}.")
    if tags is not None and len(tags) != len(words):
        raise ValueError(f"expected a tag for each of {len(words)} words; got {len(tags)} in {where}.")
    return TaggedWords(tuple(words), None if tags is None else tuple(tags), where=where)


def checked_spans(spans, text, where):
    """Spans from a JSON file, `{"start": 3, "end": 9, "label": "city"}` or `[3, 9, "city"]`, as sorted tuples.

    Raises:
        ValueError: one is malformed, extends outside the text or overlaps another.
    """
    if not isinstance(spans, list):
        raise ValueError(f"expected a list of spans; got {spans!r:.80} in {where}.")
    checked = []
    for span in spans:
        parts = [span.get(name) for name in ("start", "end", "label")] if isinstance(span, dict) else span
        whole = isinstance(parts, list) and len(parts) == 3 and all(isinstance(n, int) for n in parts[:2])
        if not whole or not isinstance(parts[2], str) or not parts[2]:
            raise ValueError(f"expected a span with start, end and label; got {span!r:.80} in {where}.")
        start, end, label = parts
        if not 0 <= start < end <= len(text):
            raise ValueError(
                f"expected spans of at least one character in a text of length {len(text)}; got {start} to {end}, {label}, "
                f"in {where}."
            )
        checked.append((start, end, label))
    checked.sort()
    for (start, end, label), (next_start, next_end, other) in itertools.pairwise(checked):
        if next_start < end:
            raise ValueError(
                f"expected spans that do not overlap; got {start} to {end}, {label}, and {next_start} to {next_end}, {other}, "
                f"in {where}."
            )
    return tuple(checked)


def _question(parts, where):
    context, answers = _text(parts["context"], where, "context"), parts.get("answers")
    name = where if parts.get("id") in (None, "") else str(parts["id"])
    if answers is not None:
        answers = checked_answers(answers, context, where)
    return Question(name, _text(parts["question"], where, "question"), context, answers, where=where)


def checked_answers(answers, context, where):
    """Answers in SQuAD's format, or as columns (`{"text": [...], "answer_start": [...]}`), as tuples `(start, text)`.

    Raises:
        ValueError: one is malformed, or the context has a different text at its offset.
    """
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not (isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts)):
            raise ValueError(f"expected as many texts as starts in answers; got {answers!r:.80} in {where}.")
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list):
        raise ValueError(f"expected a list of answers; got {answers!r:.80} in {where}.")
    checked = []
    for answer in answers:
        start, text = (answer.get(name) for name in ("answer_start", "text")) if isinstance(answer, dict) else (None, None)
        if not isinstance(start, int) or not isinstance(text, str) or not text:
            raise ValueError(f"expected an answer with text and answer_start; got {answer!r:.80} in {where}.")
        if start < 0 or context[start : start + len(text)] != text:
            actual = f"{context[start : start + len(text)]!r:.80}" if 0 <= start < len(context) else "an offset outside it"
            raise ValueError(f"expected the answer {text!r:.80} at character {start} of the context; got {actual} in {where}.")
        checked.append((start, text))
    return tuple(checked)


def _choice(parts, where):
    choices, label = parts["choices"], parts.get("label")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) for choice in choices):
        raise ValueError(f"expected at least two choices, each a string; got {choices!r:.80} in {where}.")
    if label is not None:
        number = int(label) if isinstance(label, str) and label.isdecimal() else label
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(choices):
            raise ValueError(f"expected the index of a choice, from 0 to {len(choices) - 1}; got {label!r} in {where}.")
        label = number
    return ChoiceQuestion(_text(parts["prompt"], where, "prompt"), tuple(choices), label, where=where)


def _group(parts, where):
    negatives, scores = parts.get("negatives"), parts.get("scores")
    negatives = [] if negatives in (None, "") else [negatives] if isinstance(negatives, str) else negatives
    if not isinstance(negatives, list) or not all(isinstance(text, str) for text in negatives):
        raise ValueError(f"expected a list of strings as negatives; got {negatives!r:.80} in {where}.")
    if scores is not None:
        scores = tuple(_number(score, where) for score in (scores if isinstance(scores, list) else [scores]))
        if len(scores) != 1 + len(negatives):
            wanted = f"for the positive and each of {len(negatives)} negatives"
            raise ValueError(f"expected a score {wanted}; got {len(scores)} in {where}.")
    query, positive = (_text(parts[part], where, part) for part in ("query", "positive"))
    return TextGroup(query, positive, tuple(negatives), scores, where=where)


def _ranked(parts, where):
    label, text = parts.get("label"), parts.get("text")
    if text is None and label is None and parts.get("positive") is not None:
        return _group(parts, where)
    text = parts.get("positive") if text is None else text
    if text is None:
        raise ValueError(f"expected a text, or a relevant text as positive; got neither in {where}.")
    query, text = _text(parts["query"], where, "query"), _text(text, where)
    return RankedText(query, text, None if label is None else _number(label, where), where=where)


# Several columns of a table that form one part of an example, a list.
COLUMNS_OF_LISTS = {
    "choices": re.compile(r"(choice|option|ending|solution|sol)_?\d+", re.IGNORECASE),
    "negatives": re.compile(r"(hard_?)?negative_?\d+", re.IGNORECASE),
    "scores": re.compile(r"score_?\d+", re.IGNORECASE),
}
# Parts that may be given several columns.
LISTS = tuple(COLUMNS_OF_LISTS)

# A column name belongs to the first part that lists it: a sentence next to a question is the second text.
_TEXT = ("text", "sentence1", "premise", "question1", "question", "sentence", "query", "review", "utterance")
_PAIR = ("pair", "text2", "text_pair", "sentence2", "hypothesis", "question2", "sentence", "passage")
_LABEL = ("label", "labels", "class", "category", "intent")
_SCORE = ("score", "similarity", "label", "rating")
_OF_TEXTS = {1: ("text",), 2: ("text", "label"), 3: ("text", "pair", "label")}
_CLASSIFIED = {"text": _TEXT, "pair": _PAIR, "label": _LABEL}

_ALL = (
    Kind("classification", _CLASSIFIED, ("text",), "label", _OF_TEXTS, _classified(_label)),
    Kind("multi_label", _CLASSIFIED, ("text",), "label", _OF_TEXTS, _classified(_labels)),
    Kind("regression", {**_CLASSIFIED, "label": _SCORE}, ("text",), "label", _OF_TEXTS, _classified(_number)),
    Kind(
        "similarity",
        {"first": ("first", *_TEXT), "second": ("second", *_PAIR), "score": _SCORE},
        ("first", "second"),
        "score",
        {2: ("first", "second"), 3: ("first", "second", "score")},
        _scored,
    ),
    Kind(
        "tagging",
        {"text": ("text",), "spans": ("spans", "entities"), "words": ("words", "tokens"), "tags": ("tags", "ner_tags", "labels")},
        (),
        None,
        {1: ("text",)},
        _tagged,
        needed="words with tags or a text with spans",
    ),
    Kind(
        "questions",
        {"id": ("id",), "question": ("question",), "context": ("context", "passage"), "answers": ("answers",)},
        ("question", "context"),
        "answers",
        {2: ("question", "context")},
        _question,
    ),
    Kind(
        "choices",
        {"prompt": ("prompt", "question", "context", "text"), "choices": ("choices", "options", "endings"), "label": _LABEL},
        ("prompt", "choices"),
        "label",
        {},
        _choice,
    ),
    Kind(
        "retrieval",
        {
            "query": ("query", "anchor", "question", "title", *_TEXT),
            "positive": ("positive", "answer", "document", "text", "body", *_PAIR),
            "negatives": ("negatives", "negative"),
            "scores": ("scores",),
        },
        ("query", "positive"),
        None,
        {2: ("query", "positive"), 3: ("query", "positive", "negatives")},
        _group,
    ),
    Kind(
        "ranking",
        {
            "query": ("query", "anchor", "question", "title", "sentence1", "premise", "question1"),
            "positive": ("positive", "answer"),
            "text": ("text", "document", "passage", "context", "body", *_PAIR),
            "label": ("label", "grade", "relevance", "score", "similarity", "rating"),
            "negatives": ("negatives", "negative"),
            "scores": ("scores",),
        },
        ("query",),
        None,
        {2: ("query", "positive"), 3: ("query", "positive", "negatives")},
        _ranked,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
