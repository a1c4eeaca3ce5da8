"""Layers whose values can be read and changed by interventions."""

from collections.abc import Callable
from typing import Any


class Editable:
    """Abstract base class of encoder layers with values that `interpret.intervene` can read or change."""

    edit: Callable[[Any, Any], Any] | None = None
    """A function from the values and their context to new values; None unless an intervention is active."""

    def edited(self, values: Any, beside: Any = None) -> Any:
        """The values, as changed by `edit`.

        Args:
            values: a tensor, or a list of tensors.
            beside: the context of the values: the mask in attention, the summands in a sum.
        """
        return values if self.edit is None else self.edit(values, beside)
