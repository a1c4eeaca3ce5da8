"""The colour levels of words and their captions, the same in a terminal and on a page."""

from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert_rebuild.interpret.methods import METHODS

# Number of tint levels, for and against.
LEVELS = 10


def levels(scores: Sequence[float]) -> list[int]:
    """For every score a level from −`LEVELS` to `LEVELS`, in proportion to the largest; 0 if all are 0.

    Example:

    >>> levels([0.5, -1.0, 0.01])
    [5, -10, 0]
    """
    greatest = max(map(abs, scores), default=0.0)
    return [round(LEVELS * score / greatest) if greatest > 0 else 0 for score in scores]


def pieces_of_text(text: str, words: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    """A text in pieces: every word with its index in `words`, and the characters between them with None.

    Args:
        text: the text.
        words: the words of the text in order, with `start` and `end`.
    """
    position = 0
    for number, word in enumerate(words):
        if word.start > position:
            yield text[position : word.start], None
        yield text[max(word.start, position) : word.end], number
        position = max(position, word.end)
    if position < len(text):
        yield text[position:], None


def described(attribution: Any) -> list[str]:
    """Captions of an attribution, one per line: the output, the method, and the completeness of the scores."""
    method, settings = METHODS.get(attribution.method), attribution.settings
    title = attribution.method if method is None else method.title
    said = ", ".join(f"{name} {value}" for name, value in settings.items())
    lines = [f"{attribution.target}: {attribution.value:.4f}"]
    if attribution.value_at_baseline is not None:
        absent = {"zero": "vectors of zeros"}.get(attribution.baseline, f"the {attribution.baseline} token")
        lines[0] += f", with {absent} for every word {attribution.value_at_baseline:.4f}"
    lines.append(f"{title}{f' ({said})' if said else ''}")
    if attribution.gap is not None and attribution.value_at_baseline is not None:
        difference = attribution.value - attribution.value_at_baseline
        lines.append(
            f"completeness: scores sum to {difference + attribution.gap:.4f} of {difference:.4f}, gap {attribution.gap:.1e}"
        )
    return lines


def name_of_text(number: int, count: int) -> str:
    """The name of a text among those that are read together."""
    return "text" if count == 1 else f"text {number + 1}"
