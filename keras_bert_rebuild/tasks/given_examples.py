"""Checks of the arguments of tasks, lists of examples or texts, and the names of examples in errors."""

from typing import Any


def example_list(examples: Any, name: str = "examples") -> list[Any]:
    """A list of at least one example; else a ValueError."""
    if isinstance(examples, (str, bytes)) or not hasattr(examples, "__iter__"):
        raise ValueError(f"{name} must be a list; got {type(examples).__name__} {str(examples)[:40]!r}.")
    examples = list(examples)
    if not examples:
        raise ValueError(f"{name} must be a list of at least one item; got an empty list.")
    return examples


def paired_lists(firsts, seconds):
    """First and second texts as lists of the same length, at least one; else a ValueError."""
    firsts, seconds = example_list(firsts, "firsts"), example_list(seconds, "seconds")
    if len(firsts) != len(seconds):
        raise ValueError(f"expected as many second texts as first ones, {len(firsts)}; got {len(seconds)}.")
    return firsts, seconds


def place_of(example, number):
    """The name of an example in errors: its file and line, or its index."""
    return getattr(example, "where", "") or f"example {number}"
