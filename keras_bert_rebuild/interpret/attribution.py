"""The result of an attribution: scores of the words and tokens of texts for one output of a model."""

import os
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from keras_bert_rebuild.explain.html_page import HtmlPage
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_values


@dataclass(frozen=True)
class AttributedWord:
    """A word of a text and its score."""

    text: int
    """The index of its text."""

    word: str
    """The word as spelled in the text."""

    start: int
    """Offset of its first character in the text."""

    end: int
    """Offset of the character after its last."""

    score: float
    """The sum of the scores of its tokens, in all windows that contain it."""

    error: float | None = None
    """The standard error of the score; None for methods without sampling."""


@dataclass(frozen=True)
class AttributedToken:
    """A token of a row of the model and its score."""

    row: int
    """The index of the row; a long text has several rows, and texts that are compared have one each."""

    token: str
    """The token as in the vocabulary."""

    text: int
    """The index of its text; -1 for special tokens and others outside the texts."""

    start: int
    """Offset of its first character in the text; 0 outside the texts."""

    end: int
    """Offset of the character after its last; 0 outside the texts."""

    score: float
    """Its score."""


@dataclass(frozen=True)
class Attribution:
    """How much every word of a text, or of texts that are read together, contributed to an output of a model."""

    texts: tuple[str, ...]
    """The texts as passed by the user."""

    words: tuple[AttributedWord, ...]
    """The words in order, with their scores."""

    tokens: tuple[AttributedToken, ...]
    """The tokens of all rows in order, special ones included, with their scores."""

    target: str
    """A description of the attributed output, such as "logit of positive"."""

    method: str
    """The name of the method."""

    value: float
    """The output for the texts."""

    value_at_baseline: float | None = None
    """The output with every word replaced by the baseline; None for methods without a baseline."""

    gap: float | None = None
    """For methods whose scores should sum to `value - value_at_baseline`, their sum minus that; None for others."""

    baseline: str | None = None
    """The replacement of absent words: "mask", "pad" or "zero"; None for methods without a baseline."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The settings of the method."""

    answer: str = ""
    """What the task answers, as a sentence; "" where that is the attributed output itself."""

    name: str = ""
    """Of the model."""

    def to_json(self) -> dict[str, Any]:
        """The attribution as plain values, for `json.dump`."""
        return {**asdict(self), "texts": list(self.texts), **{part: [asdict(one) for one in getattr(self, part)] for part in PARTS}}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Attribution":
        """An attribution from the result of `to_json`.

        Raises:
            ValueError: a value is missing, unknown or of another type than the field.
        """
        values = _fields(cls, values, "an attribution")
        parts = {
            part: tuple(kind(**_fields(kind, one, f"{part} of an attribution")) for one in values[part])
            for part, kind in PARTS.items()
        }
        texts = tuple(values["texts"])
        for one in (*parts["words"], *parts["tokens"]):
            if not (-isinstance(one, AttributedToken) <= one.text < len(texts) and 0 <= one.start <= one.end):
                raise ValueError(f"words and tokens of an attribution must be in one of its {len(texts)} texts; got {one!r:.120}.")
        return cls(**{**values, "texts": texts, **parts})

    def to_html(self) -> str:
        """The attribution as the text of one HTML file, which needs no network."""
        return self._page().html

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the page of `to_html`: see `HtmlPage.save`."""
        return self._page().save(path)

    def _repr_html_(self) -> str:
        return self._page()._repr_html_()

    def _page(self) -> HtmlPage:
        from keras_bert_rebuild.interpret.attribution_shown import attribution_page

        return HtmlPage(attribution_page([self]), 420, "Which words carried the answer", scripts=False)


def _fields(cls, values, what):
    """The fields of a dataclass, checked; those that are dataclasses themselves are lists of dictionaries."""
    if not isinstance(values, dict):
        raise ValueError(f"{what} must be an object; got {values!r:.80}.")
    types = {one.name: list[dict] if one.name in PARTS else one.type for one in fields(cls)}
    unknown = next((name for name in values if name not in types), None)
    if unknown is not None:
        raise ValueError(f"{what} must have {', '.join(types)}; got {printable(unknown)}.")
    required = [one.name for one in fields(cls) if one.default is one.default_factory is MISSING]
    check_values(values, types, what, required)
    return values


PARTS: dict[str, Any] = {"words": AttributedWord, "tokens": AttributedToken}
