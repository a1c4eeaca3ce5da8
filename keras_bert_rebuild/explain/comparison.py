"""Two models compared step by step: what changed, in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.accounting import Explanation
from keras_bert_rebuild.explain.anatomy_words import CHANGED, NONE, ONLY_FIRST, ONLY_SECOND, SAME, facts_of
from keras_bert_rebuild.explain.explanation import explain


@dataclass(frozen=True)
class Change:
    """What is said of both models, in different words."""

    subject: str
    """What it is about, such as "positions"."""

    first: str
    """Of A; "none" if it has no such part."""

    second: str
    """Of B."""

    roles: tuple
    """The steps that compute it, as `StepPair.role`."""


@dataclass(frozen=True)
class StepPair:
    """A step of both models, found by the layer that computes it."""

    role: str
    """The name of that layer, without `Encoder-{n}-`."""

    part: str
    """Embedding, encoder block, heads, or other layers."""

    first: tuple
    """The `StepAccount`s of A: none if it has no such step, several if its blocks differ in it."""

    second: tuple
    """Those of B."""

    status: str
    """"same", "changed", "only in A" or "only in B". Equal numbers are a change if other words are said of the step."""

    @property
    def article(self) -> int | None:
        """Its number in the article; None if the article's model does not have it."""
        return (self.first or self.second)[0].article

    @property
    def name(self) -> str:
        """Its name, or both if they differ."""
        return " → ".join(dict.fromkeys(steps[0].name for steps in (self.first, self.second) if steps))

    def amounts(self, name: str) -> tuple[int, int]:
        """A number of both, 0 without the step; see `Comparison.totals`."""
        return _amount(self.first, name), _amount(self.second, name)


@dataclass(frozen=True)
class Comparison:
    """Two models, A and B, step by step, for the same batch. It prints as a table, and in a notebook as Markdown."""

    first: Explanation
    """A."""

    second: Explanation
    """B."""

    names: tuple
    """What A and B are called."""

    changes: tuple
    """`Change`s: what is said of B in other words than of A."""

    steps: tuple
    """`StepPair`s, in the order of A; a step that only B has comes before the next one that both have."""

    def totals(self, name: str) -> tuple[int, int]:
        """A number of both models.

        Args:
            name: "params", "bytes", "forward", "train" or "kept", as of an `Explanation`, or "memory", the bytes of a step of
                training: weights, gradients and the two moments of Adam, and what is retained for the backward pass.
        """
        return _amount(self.first.steps, name), _amount(self.second.steps, name)

    def ratio(self, name: str) -> float | None:
        """That of B, divided by that of A; None if A has none."""
        first, second = self.totals(name)
        return second / first if first else None

    def __str__(self) -> str:
        from keras_bert_rebuild.explain.comparison_formats import as_text

        return as_text(self)

    def _repr_markdown_(self):
        from keras_bert_rebuild.explain.comparison_formats import as_markdown

        return as_markdown(self)


def compare(
    first: keras.Model | BertConfig,
    second: keras.Model | BertConfig,
    heads: Sequence[str] = (),
    *,
    batch: int = 1,
    length: int | None = None,
    predictions: int | None = None,
    dtype: str | None = None,
    names: Sequence[str] | None = None,
) -> Comparison:
    """What changes from one model to another: step by step in parameters, operations and memory, and in words.

    Args:
        first, second: A and B, each a `BertConfig` or a model, as for `explain`.
        heads: for configs, names of heads of both; none for the encoders alone. Models have their own.
        batch: texts of a batch.
        length: tokens of each; None for as many as both take.
        predictions: tokens of each that MLM heads predict; None for all.
        dtype: dtype policy for the bytes; None for that of each model, or float32.
        names: what A and B are called; None for their families.

    Returns:
        A `Comparison`: `changes`, `steps`, `totals("params")`, `ratio("params")`.

    Raises:
        ValueError: as `explain`; or a text is too long for one of them.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> comparison = compare(BertConfig(), BertConfig(hidden_act="relu"))
    >>> [(change.subject, change.first, change.second) for change in comparison.changes]
    [('feed-forward', 'gelu, 3,072 wide', 'relu, 3,072 wide')]
    >>> [step.name for step in comparison.steps if step.status == "changed"], comparison.ratio("params")
    (['Feed-forward'], 1.0)
    """
    given = [(each, tuple(heads) if isinstance(each, BertConfig) else None) for each in (first, second)]
    return compare_given(given, names, batch=batch, length=length, predictions=predictions, dtype=dtype)


def compare_given(given: Sequence[tuple[Any, Any]], names: Sequence[str] | None = None, **options: Any) -> Comparison:
    """`compare` for heads that differ.

    Args:
        given: two pairs of a config and the names of its heads, or of a model and None.
        names, **options: as for `compare`.
    """
    configs = [explain(each, heads).config for each, heads in given]
    names = tuple(names or (config.family for config in configs))
    limits = [config.max_length for config in configs]
    length = options.get("length")
    if length is not None and length > min(limits):
        shorter = names[limits.index(min(limits))]
        raise ValueError(f"length must be at most {min(limits):,}, the maximum of {shorter}; got {length:,}.")
    options["length"] = min(limits) if length is None else length
    first, second = (explain(each, heads, **options) for each, heads in given)
    changes = tuple(_changes(first, second))
    return Comparison(first, second, names, changes, tuple(_pairs(first.steps, second.steps, changes)))


def _changes(first, second):
    facts, others = ({fact.subject: fact for fact in facts_of(each.config.encoder(), each.heads)} for each in (first, second))
    for subject in _merged(list(facts), list(others)):
        words = [of[subject].words if subject in of else NONE for of in (facts, others)]
        if words[0] != words[1]:
            yield Change(subject, *words, (facts.get(subject) or others[subject]).roles)


def _pairs(first, second, changes):
    ours, theirs = _by_role(first), _by_role(second)
    touched = {role for change in changes for role in change.roles}
    for part in dict.fromkeys(step.part for step in (*first, *second)):
        roles = _merged(*([role for found, role in of if found == part] for of in (ours, theirs)))
        for role in roles:
            pair = ours.get((part, role), ()), theirs.get((part, role), ())
            if not all(pair):
                status = ONLY_FIRST if pair[0] else ONLY_SECOND
            else:
                status = CHANGED if role in touched or _numbers(pair[0]) != _numbers(pair[1]) else SAME
            yield StepPair(role, part, *pair, status)


def _by_role(steps):
    """Part and role of a step to the steps that have both, a tuple."""
    found = {}
    for step in steps:
        role = step.layer.partition(", ")[0].removeprefix("Encoder-{n}-")
        found[step.part, role] = (*found.get((step.part, role), ()), step)
    return found


def _merged(ours, theirs):
    """All of ours in their order, and what only they have, each before the next one there that both have."""
    merged = list(ours)
    for i, each in enumerate(theirs):
        if each not in merged:
            later = next((other for other in theirs[i:] if other in ours), None)
            merged.insert(len(merged) if later is None else merged.index(later), each)
    return merged


def _numbers(steps):
    return [(step.formula, step.numbers, step.params, step.runs, step.forward, step.kept) for step in steps]


def _amount(steps, name):
    if name == "memory":
        return 4 * _amount(steps, "bytes") + _amount(steps, "kept")
    return sum(getattr(step, name) for step in steps)
