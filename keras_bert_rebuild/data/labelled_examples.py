"""Examples of tasks: what a model is fine-tuned on and asked about."""

from dataclasses import dataclass, field


def _where():
    """Where an example comes from, such as "train.tsv, line 7", for errors; it makes no difference between examples."""
    return field(default="", compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class ClassifiedText:
    """A text, or a pair of texts, and what it is."""

    text: str
    """The text, or the first of the pair."""

    pair: str | None = None
    """The second text of the pair."""

    label: str | tuple | float | None = None
    """A label; a tuple of labels where a text may have several; a number for regression; None where it is to be told."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedWords:
    """Words and a tag for each."""

    words: tuple
    """The words of a sentence."""

    tags: tuple | None = None
    """A tag for each: B-x and I-x for entities, O outside of them, or any others, such as parts of speech."""

    where: str = _where()


@dataclass(frozen=True)
class TaggedText:
    """A text and the spans in it that have a label."""

    text: str
    """The text."""

    spans: tuple | None = None
    """`(start, end, label)` of every span, in characters, the end behind its last one; spans do not overlap."""

    where: str = _where()


@dataclass(frozen=True)
class Question:
    """A question and a text that may hold its answer."""

    id: str
    """What tells it from other questions."""

    question: str
    """The question."""

    context: str
    """The text."""

    answers: tuple | None = None
    """`(start, text)` of every answer that was given, the start in characters of the context; empty where it has none."""

    where: str = _where()


@dataclass(frozen=True)
class ChoiceQuestion:
    """A prompt and endings or answers to choose from."""

    prompt: str
    """What is asked or goes on."""

    choices: tuple
    """What there is to choose from."""

    label: int | None = None
    """The right one, from 0 on."""

    where: str = _where()


@dataclass(frozen=True)
class ScoredPair:
    """Two texts and how much they have in common."""

    first: str
    """One text."""

    second: str
    """The other text."""

    score: float | None = None
    """How alike they are; None for a pair that belongs together, or one to be scored."""

    where: str = _where()
