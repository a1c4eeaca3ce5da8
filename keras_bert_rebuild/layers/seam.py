"""The one point where something outside of the layers replaces how they compute.

A seam is a method of a layer, or a function, whose body is its plain form: the equation, in `keras.ops`. Two things can replace
it:

- A kernel of the backend, attached for the whole process (`keras_bert_rebuild.kernels`), computes the same in another way. The
  first one whose condition holds for the arguments runs.
- A rule of the current `Execution` holds in a block of code: for interventions, rows without padding, attention maps. It gets the
  function that it replaces, kernels included, so rules compose; the last one is the outermost.

Without kernels and rules a seam is its plain form.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# A function of what it replaces, and of the arguments of the seam, the layer first.
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Execution:
    """How layers compute: frozen and hashable, so that it can be the key of a compiled function. By default it adds nothing."""

    rules: tuple[tuple[Callable[..., Any], Rule], ...] = ()
    """Pairs of a seam and a rule, such as `(MultiHeadSelfAttention.attend, rule)`."""

    step: Any = field(default=None, compare=False)
    """The training, test or prediction step that runs; None outside of one."""

    def follows(self, outer: "Execution") -> bool:
        """Whether this one is made of another by adding rules, if any."""
        return self.rules[: len(outer.rules)] == outer.rules

    def __or__(self, other: "Execution") -> "Execution":
        return Execution(self.rules + other.rules, self.step if other.step is None else other.step)

    @functools.cached_property
    def by_seam(self) -> dict[Callable[..., Any], list[Rule]]:
        """The rules of each seam, from the innermost to the outermost."""
        rules_by_seam: dict[Callable[..., Any], list[Rule]] = {}
        for replaced, rule in self.rules:
            rules_by_seam.setdefault(replaced, []).append(rule)
        return rules_by_seam


PLAIN = Execution()
_NOW = contextvars.ContextVar("execution", default=PLAIN)


def execution() -> Execution:
    """The execution that layers called here follow. A new thread begins with the default."""
    return _NOW.get()


@contextlib.contextmanager
def following(one: Execution) -> Iterator[None]:
    """Layers called in this block, by this thread, follow this execution alone: for what an earlier call computes later."""
    token = _NOW.set(one)
    try:
        yield
    finally:
        _NOW.reset(token)


def executing(*rules: tuple[Callable[..., Any], Rule], step: Any = None) -> contextlib.AbstractContextManager[None]:
    """Layers called in this block, by this thread, follow these rules in addition to the current ones.

    Args:
        *rules: pairs of a seam and a rule.
        step: the step that runs in this block; None for that of the outer one.
    """
    return following(_NOW.get() | Execution(rules, step))


@dataclass(frozen=True)
class Kernel:
    """Another way to compute a seam, with the same values and gradients."""

    function: Rule
    """A function of what it replaces, and of the arguments of the seam."""
    applies: Callable[..., bool]
    """Whether it supports the arguments of the seam."""
    passes: tuple[Callable[..., Any], ...] = ()
    """Other seams that it computes itself: under rules for one of them, and in classes that override one, it does not run."""


def attach(replaced: Callable[..., Any], kernel: Kernel) -> None:
    """Let a kernel compute a seam in this process, after those attached before, if none of them applies.

    Args:
        replaced: the seam.
        kernel: the kernel.
    """
    replaced.kernels.append(kernel)  # type: ignore[attr-defined]


def kernel_of(replaced: Callable[..., Any], *args: Any, **kwargs: Any) -> Kernel | None:
    """The kernel that would compute a seam here for these arguments; None for the plain form."""
    return next((kernel for kernel in replaced.kernels if _runs(kernel, args, kwargs)), None)  # type: ignore[attr-defined]


def seam(plain: Callable[..., Any]) -> Any:
    """Make a seam of a method or a function.

    Args:
        plain: its plain form.
    """
    kernels: list[Kernel] = []

    @functools.wraps(plain)
    def call(*args, **kwargs):
        rules = _NOW.get().rules
        if rules:
            compute = functools.partial(_computed, plain, kernels)
            for rule in _NOW.get().by_seam.get(call, ()):
                compute = functools.partial(rule, compute)
            return compute(*args, **kwargs)
        return _computed(plain, kernels, *args, **kwargs) if kernels else plain(*args, **kwargs)

    vars(call).update(kernels=kernels)
    return call


def _computed(plain, kernels, *args, **kwargs):
    """By the first of the kernels that applies, which gets the others as what it replaces; or in the plain form."""
    for i, kernel in enumerate(kernels, 1):
        if _runs(kernel, args, kwargs):
            return kernel.function(functools.partial(_computed, plain, kernels[i:]), *args, **kwargs)
    return plain(*args, **kwargs)


def _runs(kernel, args, kwargs):
    by_seam = _NOW.get().by_seam if kernel.passes else {}
    for passed in kernel.passes:
        if passed in by_seam or getattr(type(args[0]), passed.__name__, passed) is not passed:
            return False
    return kernel.applies(*args, **kwargs)
