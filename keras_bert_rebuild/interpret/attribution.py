"""The result of an attribution: scores of the words and tokens of texts for one output of a model."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from keras_bert_rebuild.explain.html_page import HtmlPage


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

    name: str = ""
    """Of the model."""

    def to_json(self) -> dict[str, Any]:
        """The attribution as plain values, for `json.dump`."""
        return {**asdict(self), "texts": list(self.texts), **{part: [asdict(one) for one in getattr(self, part)] for part in PARTS}}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Attribution":
        """An attribution from the result of `to_json`."""
        parts = {part: tuple(kind(**one) for one in values[part]) for part, kind in PARTS.items()}
        return cls(**{**values, "texts": tuple(values["texts"]), **parts})

    def to_html(self) -> str:
        """The attribution as the text of one HTML file, which needs no network."""
        return self._page().html

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the page of `to_html`: see `HtmlPage.save`."""
        return self._page().save(path)

    def _repr_html_(self) -> str:
        return self._page()._repr_html_()

    def _page(self) -> HtmlPage:
        from keras_bert_rebuild.interpret.attribution_page import attribution_page

        return HtmlPage(attribution_page([self]), 420, "Which words carried the answer", scripts=False)


PARTS: dict[str, Any] = {"words": AttributedWord, "tokens": AttributedToken}
