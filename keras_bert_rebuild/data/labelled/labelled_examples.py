"""Examples of tasks, for fine-tuning and prediction."""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

# Marks a part that is not an input of the model.
_NOT_SHOWN = {"shown": False}


def _where():
    """Where an example comes from, such as "train.tsv, line 7", for errors; comparisons ignore it."""
    return field(default="", compare=False, repr=False, kw_only=True, metadata=_NOT_SHOWN)


class Example:
    """What the examples of all tasks have in common; subclasses are dataclasses."""

    target: ClassVar[str]
    """The part to learn, None where it is to be predicted; not an input of the model."""

    def right(self) -> Any:
        """The right answer, or None where the example has none."""
        return getattr(self, self.target)

    def labels(self) -> tuple[Any, ...]:
        """Its labels, one or several."""
        right = self.right()
        several = isinstance(right, (list, tuple, set, frozenset))
        return tuple(right) if several else () if right is None else (right,)

    def shown(self) -> dict[str, Any]:
        """The inputs of the model, by part."""
        parts = (part.name for part in fields(self) if part.metadata.get("shown", True))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in parts if name != self.target}


@dataclass(frozen=True)
class ClassifiedText(Example):
    """A text, or a pair of texts, and what it is."""

    target = "label"

    text: str
    """The text, or the first of the pair."""

    pair: str | None = None
    """The second text of the pair."""

    label: str | tuple | float | None = None
    """A label; a tuple of labels where a text may have several; a number for regression; None where it is to be predicted."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedWords(Example):
    """Words and a tag for each."""

    target = "tags"

    words: tuple
    """The words of a sentence."""

    tags: tuple | None = None
    """A tag for each: B-x and I-x for entities, O outside of them, or any others, such as parts of speech."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedText(Example):
    """A text and the spans in it that have a label."""

    target = "spans"

    text: str
    """The text."""

    spans: tuple | None = None
    """`(start, end, label)` of every span, in characters, the end exclusive; spans do not overlap."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """The labels of the spans."""
        return tuple(label for _, _, label in self.spans or ())


@dataclass(frozen=True)
class Question(Example):
    """A question and a text that may hold its answer."""

    target = "answers"

    id: str = field(metadata=_NOT_SHOWN)
    """Its unique id."""

    question: str
    """The question."""

    context: str
    """The text."""

    answers: tuple | None = None
    """`(start, text)` of every given answer, the start in characters of the context; empty where there is no answer."""

    where: str = _where()


@dataclass(frozen=True)
class ChoiceQuestion(Example):
    """A prompt and endings or answers to choose from."""

    target = "label"

    prompt: str
    """The question, or the text to continue."""

    choices: tuple
    """The endings or answers to choose from."""

    label: int | None = None
    """The index of the right one, from 0."""

    where: str = _where()


@dataclass(frozen=True)
class ScoredPair(Example):
    """Two texts and how much they have in common."""

    target = "score"

    first: str
    """One text."""

    second: str
    """The other text."""

    score: float | None = None
    """How similar they are; None for a pair that belongs together, or one to be scored."""

    where: str = _where()


@dataclass(frozen=True)
class TextGroup(Example):
    """A query, a text that it shall find, and texts that it shall not."""

    target = "scores"

    query: str
    """The query, or any text."""

    positive: str
    """The text that it shall find."""

    negatives: tuple = ()
    """Texts that it shall not find."""

    scores: tuple | None = None
    """Those of a teacher, such as a reranker, for the positive and every negative; None without a teacher."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """None: what is to be found are texts."""
        return ()


@dataclass(frozen=True)
class RankedText(Example):
    """A query, a text, and how relevant the text is to it."""

    target = "label"

    query: str
    """The query."""

    text: str
    """The text."""

    label: float | None = None
    """1 or 0 for a relevant or irrelevant text, a grade, or the score of a teacher; None where it is to be predicted."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """None: numbers are no names."""
        return ()
