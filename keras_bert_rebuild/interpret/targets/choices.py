"""What was asked for, checked: the quantity, a label, a word of a text."""

from collections.abc import Sequence
from typing import Any

# A logit is what the last layer adds up; a probability is what it is turned into, together with all other logits.
QUANTITIES = ("logit", "probability")


def label_index(target: Any, labels: Sequence[str], what: str = "target") -> int:
    """The index of a label by its name.

    Raises:
        ValueError: it is not one of the labels.
    """
    if target not in labels:
        shown = ", ".join(map(str, labels[:10])) + ", ..." * (len(labels) > 10)
        raise ValueError(f"{what} must be one of {shown}; got {target!r:.80}.")
    return list(labels).index(target)


def word_index(at: Any, texts: Sequence[str], word_spans: Sequence[tuple[int, int, int]]) -> int:
    """The number of a word: given by its number, from 0, or as it is spelled, where it is first.

    Raises:
        ValueError: there is no such word.
    """
    spelled = [texts[text][start:end] for text, start, end in word_spans]
    if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(spelled):
        return at
    if at not in spelled:
        raise ValueError(f"at must be a word of the text or its number from 0 to {len(spelled) - 1}; got {at!r:.80}.")
    return spelled.index(at)


def one_text(texts: Sequence[str], name: str) -> str:
    """The text of a task that reads one.

    Raises:
        ValueError: there is a second one.
    """
    if len(texts) != 1:
        raise ValueError(f"{name} reads one text; got {len(texts)}.")
    return texts[0]


def two_texts(texts: Sequence[str], name: str, meant: str) -> tuple[str, str]:
    """The texts of a task that reads two.

    Raises:
        ValueError: there are more or fewer.
    """
    if len(texts) != 2:
        raise ValueError(f"{name} reads {meant}: give the second as a pair; got {len(texts)} text{'s' * (len(texts) != 1)}.")
    return texts[0], texts[1]


def no_probability(quantity: str, name: str) -> None:
    """Raise a ValueError if a probability is asked for where there is none."""
    if quantity == "probability":
        raise ValueError(f"quantity must be logit for {name}, whose answer is no probability; got {quantity!r}.")


def nothing(value: Any, name: str, task: str, has: str) -> None:
    """Raise a ValueError for an option that a task does not have."""
    if value is not None:
        raise ValueError(f"{name} must be left out for {task}, which has {has}; got {value!r:.80}.")
