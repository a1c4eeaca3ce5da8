"""Callbacks for the progress of a training by a recipe."""

import contextlib
from typing import Any


class Quiet:
    """Receives the progress of a training by a recipe and shows nothing; a subclass may show it."""

    def reading(self, what: str, file_bytes: int) -> contextlib.AbstractContextManager[Any]:
        """A context manager for the reading of files, whose value has `advance(file_bytes, text_bytes)`."""
        return contextlib.nullcontext(self)

    def vocabulary(self, tokens: int, words: int) -> None:
        """A vocabulary was learned from this number of words."""

    def prepared(self, prepared: Any) -> None:
        """A corpus was tokenised, `Prepared`."""

    def planned(self, plan: Any) -> None:
        """The run is planned, `recipe_budget.RecipePlan`, and begins."""

    def training(self, steps: int | None) -> contextlib.AbstractContextManager[Any]:
        """A context manager for the training, whose value is called with every row of the curve."""
        return contextlib.nullcontext(lambda row: None)

    def advance(self, file_bytes: int, text_bytes: int) -> None:
        """A part of the files was read."""
