"""Layers whose values can be read and changed while something intervenes in a model."""

from collections.abc import Callable
from typing import Any


class Editable:
    """What the layers of an encoder inherit that have values which `interpret.intervene` reads or changes. Abstract."""

    edit: Callable[[Any, Any], Any] | None = None
    """A function of the values and of what they come with to new values; None, except where something intervenes in the model."""

    def edited(self, values: Any, beside: Any = None) -> Any:
        """The values, or what `edit` makes of them.

        Args:
            values: a tensor, or a list of tensors.
            beside: what is known of them: the mask in attention, the summands in a sum.
        """
        return values if self.edit is None else self.edit(values, beside)
