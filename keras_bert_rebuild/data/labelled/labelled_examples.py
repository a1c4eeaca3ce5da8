"""Examples of tasks, for fine-tuning and prediction."""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

# Metadata of a part that is not an input of the model.
_NOT_SHOWN = {"shown": False}


def _where():
    """Where an example comes from, such as "train.tsv, line 7", for errors; comparisons ignore it."""
    return field(default="", compare=False, repr=False, kw_only=True, metadata=_NOT_SHOWN)


class Example:
    """The base class of the examples of all tasks; subclasses are dataclasses."""

    target: ClassVar[str]
    """The part to learn, None if it is to be predicted; not an input of the model."""

    def right(self) -> Any:
        """The correct answer, or None if unknown."""
        return getattr(self, self.target)

    def labels(self) -> tuple[Any, ...]:
        """Its labels, one or several."""
        right = self.right()
        several = isinstance(right, (list, tuple, set, frozenset))
        return tuple(right) if several else () if right is None else (right,)

    def split_text(self) -> str:
        """The text that training and dev may not share if one is taken from the other: the first."""
        first = next(iter(self.shown().values()))
        return first if isinstance(first, str) else " ".join(first)

    def shown(self) -> dict[str, Any]:
        """The inputs of the model, by part."""
        parts = (part.name for part in fields(self) if part.metadata.get("shown", True))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in parts if name != self.target}


@dataclass(frozen=True)
class ClassifiedText(Example):
    """A text or a pair of texts, and its label."""

    target = "label"

    text: str
    """The text, or the first of the pair."""

    pair: str | None = None
    """The second text of a pair, else None."""

    label: str | tuple | float | None = None
    """A label; a tuple of labels for multi-label classification; a number for regression; None if it is to be predicted."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedWords(Example):
    """Words and a tag for each."""

    target = "tags"

    words: tuple
    """The words of a sentence."""

    tags: tuple | None = None
    """A tag per word: B-x and I-x for entities and O outside of them, or any others, such as parts of speech."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedText(Example):
    """A text and its labelled spans."""

    target = "spans"

    text: str
    """The text."""

    spans: tuple | None = None
    """`(start, end, label)` of every span, in characters, end exclusive; spans do not overlap."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """The labels of the spans."""
        return tuple(label for _, _, label in self.spans or ())


@dataclass(frozen=True)
class Question(Example):
    """A question and a text that may contain its answer."""

    target = "answers"

    id: str = field(metadata=_NOT_SHOWN)
    """Its unique id."""

    question: str
    """The question."""

    context: str
    """The text."""

    answers: tuple | None = None
    """`(start, text)` of every reference answer, the start in characters of the context; empty if there is no answer."""

    where: str = _where()

    def split_text(self) -> str:
        return self.context


@dataclass(frozen=True)
class ChoiceQuestion(Example):
    """A prompt and endings or answers to choose from."""

    target = "label"

    prompt: str
    """The question, or the text to continue."""

    choices: tuple
    """The endings or answers to choose from."""

    label: int | None = None
    """The index of the correct choice, from 0."""

    where: str = _where()


@dataclass(frozen=True)
class ScoredPair(Example):
    """Two texts and their similarity."""

    target = "score"

    first: str
    """One text."""

    second: str
    """The other text."""

    score: float | None = None
    """The similarity; None for a positive pair, or for one to be scored."""

    where: str = _where()


@dataclass(frozen=True)
class TextGroup(Example):
    """A query, a relevant text (the positive) and irrelevant texts (negatives)."""

    target = "scores"

    query: str
    """The query, or any text."""

    positive: str
    """The relevant text."""

    negatives: tuple = ()
    """Irrelevant texts."""

    scores: tuple | None = None
    """Scores of the positive and every negative by a teacher, such as a reranker; None without a teacher."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """None: the targets are texts."""
        return ()


@dataclass(frozen=True)
class RankedText(Example):
    """A query, a text, and the relevance of the text to the query."""

    target = "label"

    query: str
    """The query."""

    text: str
    """The text."""

    label: float | None = None
    """1 or 0 for relevant or irrelevant, a grade, or the score of a teacher; None if it is to be predicted."""

    where: str = _where()

    def labels(self) -> tuple[Any, ...]:
        """None: the targets are numbers."""
        return ()
