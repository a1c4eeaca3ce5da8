"""Two models compared step by step, in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain import comparison_formats
from keras_bert_rebuild.explain.accounting import Explanation
from keras_bert_rebuild.explain.anatomy_words import CHANGED, NONE, ONLY_FIRST, ONLY_SECOND, SAME, facts_of
from keras_bert_rebuild.explain.explanation import explain
from keras_bert_rebuild.explain.record import Record


@dataclass(frozen=True)
class Change:
    """A fact that differs between both models."""

    subject: str
    """Its subject, such as "positions"."""

    first: str
    """In A; "none" if A has no such part."""

    second: str
    """Of B."""

    roles: tuple
    """The steps that implement it, see `StepPair.role`."""


@dataclass(frozen=True)
class StepPair:
    """A step of both models, matched by the layer that computes it."""

    role: str
    """The name of that layer, without `Encoder-{n}-`."""

    part: str
    """Embedding, encoder block, heads, or other layers."""

    first: tuple
    """The `StepAccount`s of A: empty if it has no such step, several if its blocks differ in it."""

    second: tuple
    """Those of B."""

    status: str
    """"same", "changed", "only in A" or "only in B". A step with equal numbers but different words is changed."""

    @property
    def article(self) -> int | None:
        """Its step in the article; None if the article's model does not have it."""
        return (self.first or self.second)[0].article

    @property
    def name(self) -> str:
        """Its name, or both if they differ."""
        return " → ".join(dict.fromkeys(steps[0].name for steps in (self.first, self.second) if steps))

    def amounts(self, name: str) -> tuple[int, int]:
        """A number of both, 0 for a model without the step; see `Comparison.totals`."""
        return _amount(self.first, name), _amount(self.second, name)


@dataclass(frozen=True)
class Comparison(Record):
    """Two models, A and B, step by step, for the same batch. Prints as a table; a notebook shows Markdown."""

    first: Explanation
    """A."""

    second: Explanation
    """B."""

    names: tuple
    """Names of A and B."""

    changes: tuple
    """`Change`s: facts in which B differs from A."""

    steps: tuple
    """`StepPair`s in the order of A; a step of B alone comes before the next common step."""

    def totals(self, name: str) -> tuple[int, int]:
        """A total of both models.

        Args:
            name: "params", "bytes", "forward", "train" or "kept", as in `Explanation`, or "memory", the bytes of a training step:
                weights, gradients, the two moments of Adam, and activations saved for the backward pass.
        """
        return _amount(self.first.steps, name), _amount(self.second.steps, name)

    def ratio(self, name: str) -> float | None:
        """The total of B divided by that of A; None if that of A is 0."""
        first, second = self.totals(name)
        return second / first if first else None

    def to_tables(self, width: int = 100) -> Any:
        """Tables of totals, changes in words and steps, for `rich`."""
        return comparison_formats.as_tables(self, width)

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        return comparison_formats.as_markdown(self)

    def to_json(self) -> dict[str, Any]:
        """The numbers and words, without rounding."""
        return comparison_formats.comparison_values(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


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
    """Compare two models: their parameters, operations and memory step by step, and their differences in words.

    Args:
        first, second: A and B, each a `BertConfig` or a model, see `explain`.
        heads: names of the heads of configs; empty to compare bare encoders. Models have their own heads.
        batch: texts per batch.
        length: tokens per text; None for the smaller of both maximum lengths.
        predictions: tokens per text that MLM heads predict; None for all.
        dtype: dtype policy for bytes; None for the policy of each model, or float32.
        names: names of A and B; None for their families.

    Returns:
        A `Comparison`: `changes`, `steps`, `totals("params")`, `ratio("params")`.

    Raises:
        ValueError: as `explain`, or `length` is too long for one of them.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> comparison = compare(BertConfig(), BertConfig(hidden_act="relu"))
    >>> [(change.subject, change.first, change.second) for change in comparison.changes]
    [('feed-forward', 'gelu, 3,072 wide', 'relu, 3,072 wide')]
    >>> [step.name for step in comparison.steps if step.status == "changed"], comparison.ratio("params")
    (['Feed-forward'], 1.0)
    """
    models = [(each, tuple(heads) if isinstance(each, BertConfig) else None) for each in (first, second)]
    return compare_given(models, names, batch=batch, length=length, predictions=predictions, dtype=dtype)


def compare_given(models: Sequence[tuple[Any, Any]], names: Sequence[str] | None = None, **options: Any) -> Comparison:
    """`compare` for models with different heads.

    Args:
        models: two pairs, each a config and the names of its heads, or a model and None.
        names, **options: see `compare`.
    """
    configs = [explain(each, heads).config for each, heads in models]
    names = tuple(names or (config.family for config in configs))
    limits = [config.max_length for config in configs]
    length = options.get("length")
    if length is not None and length > min(limits):
        shorter = names[limits.index(min(limits))]
        raise ValueError(f"length must be at most {min(limits):,}, the maximum of {shorter}; got {length:,}.")
    options["length"] = min(limits) if length is None else length
    first, second = (explain(each, heads, **options) for each, heads in models)
    changes = tuple(_changes(first, second))
    return Comparison(first, second, names, changes, tuple(_pairs(first.steps, second.steps, changes)))


def _changes(first, second):
    facts, second_facts = ({fact.subject: fact for fact in facts_of(each.config.encoder(), each.heads)} for each in (first, second))
    for subject in _merged(list(facts), list(second_facts)):
        words = [of[subject].words if subject in of else NONE for of in (facts, second_facts)]
        if words[0] != words[1]:
            yield Change(subject, *words, (facts.get(subject) or second_facts[subject]).roles)


def _pairs(first, second, changes):
    ours, theirs = _by_role(first), _by_role(second)
    touched = {role for change in changes for role in change.roles}
    for part in dict.fromkeys(step.part for step in (*first, *second)):
        roles = _merged(*([role for name, role in of if name == part] for of in (ours, theirs)))
        for role in roles:
            pair = ours.get((part, role), ()), theirs.get((part, role), ())
            if not all(pair):
                status = ONLY_FIRST if pair[0] else ONLY_SECOND
            else:
                status = CHANGED if role in touched or _numbers(pair[0]) != _numbers(pair[1]) else SAME
            yield StepPair(role, part, *pair, status)


def _by_role(steps):
    """Part and role of a step to the steps that share them, a tuple."""
    steps_of = {}
    for step in steps:
        role = step.layer.partition(", ")[0].rpartition("{n}-")[2]
        steps_of[step.part, role] = (*steps_of.get((step.part, role), ()), step)
    return steps_of


def _merged(ours, theirs):
    """All of ours in order, with each item that only they have before the next common one."""
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
