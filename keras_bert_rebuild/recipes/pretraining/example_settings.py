"""The settings of a pretraining run that define its objective, its examples and its length."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES, MaskedTokens
from keras_bert_rebuild.recipes.pretraining.setting_checks import above_zero, check_choices, check_fractions
from keras_bert_rebuild.recipes.settings import Phase, as_phase

NEXT_SENTENCE = ("nsp", "sop", "none")
MASKING = ("token", "whole_word", "ngram", "span")

# Steps of a run that sets no number. With minutes, phases divide this number by shares of the time.
STEPS = 100_000


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """The objective of a run, its examples and its length.

    Reference: Devlin et al., 2019, section 3.1 and appendix A.2, for the defaults; Smith et al., 2018
    (https://arxiv.org/abs/1711.00489), for batches that grow.
    """

    model: object = "base"
    """A size (tiny, mini, small, medium, base, large, transformer-base, transformer-big, electra-small, electra-base,
    electra-large, xlnet-base, xlnet-large), the path of a config.json, or the fields of a `BertConfig`."""

    init: str | None = None
    """A checkpoint to start from, anything that `from_pretrained` reads; its sizes then replace `model`."""

    objective: str = "mlm"
    """What is learned: "mlm", masked tokens and a second task, as BERT, or "electra", a discriminator of tokens that a generator
    replaced, both of them new, or "xlnet", tokens in random orders, each from those before it, by a new XLNet."""

    generator_size: float | None = None
    """With "electra", the width of the generator as a fraction of the model's; None: 1/3 for a width of 768, else 1/4."""

    discriminator_weight: float | None = None
    """With "electra", the factor of the discriminator's loss; None: 50."""

    steps: int | None = None
    """Optimizer steps; None: 100,000, or as many as `minutes` have room for."""

    minutes: float | None = None
    """Minutes of the run instead of steps: it measures its speed, and the rate is 0 when they are over. They count everything from
    the call on, evaluations and compilation too, and continue where a stopped run was."""

    batch_size: int = 32
    """Examples per optimizer step, of all micro-batches together."""

    seq_len: int = 128
    """Tokens of an example, special ones included."""

    max_predictions: int | None = None
    """Maximum number of positions to predict in an example; None: as many as `mask_rate` needs, plus one."""

    phases: Sequence[Any] = ()
    """Consecutive phases of different lengths, each with steps, batch_size, seq_len and max_predictions, instead of these four:
    BERT had 90 % of the steps at 128 and the rest at 512. With `minutes` their steps are shares of the time."""

    batch_warmup: Sequence[int] = ()
    """Batch sizes of the beginning, such as [8, 16], in equal shares of `batch_warmup_steps`, before `batch_size`; the rate is not
    changed by them."""

    batch_warmup_steps: int | None = None
    """Optimizer steps with the sizes of `batch_warmup`; None: a tenth of all. With `minutes`, always a tenth of the time."""

    gradient_accumulation_steps: int = 1
    """Micro-batches per optimizer step, all with the same weight, however many labels they have."""

    next_sentence: str | None = None
    """The second task: "nsp", "sop" or "none"; None: "nsp", and none with "electra", "xlnet" or packing."""

    masking: str | None = None
    """What is masked as a whole: "token", "whole_word", "ngram", spans of up to three words, or "span", of up to five; None:
    "token", and "span" with "xlnet"."""

    mask_rate: float | None = None
    """Fraction of the tokens to predict; None: 0.15, and 1/6 with "xlnet"."""

    short_seq_prob: float = 0.1
    """Fraction of the examples that are cut to a random length; with packing, of full rows that are cut in two."""

    packing: bool = False
    """Fill every row with several sequences that do not see each other, instead of padding; without a second task."""

    lengths: Sequence[int] = ()
    """Lengths to pad to if many examples are shorter than `seq_len`, such as [32, 64, 96]: each batch then has examples of about
    the same length. Empty: all are padded to `seq_len`."""

    @property
    def learned(self) -> MaskedTokens:
        """The objective, an object of `objectives`."""
        return OBJECTIVES[self.objective]

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """The phases with all numbers filled in: the given ones, or one phase after one for every size of `batch_warmup`."""
        given = tuple(self.phases) or tuple(self._growing())
        return tuple(phase.with_predictions(self.mask_rate) for phase in given)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of all phases together; with `minutes`, the sum of their shares."""
        return sum(phase.steps for phase in self.all_phases)

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the model, as `build_model` takes them."""
        return self.learned.heads(self)

    def _growing(self):
        """Phases with growing batches and examples of one length."""
        steps = self.steps or STEPS
        whole = Phase(steps=steps, batch_size=self.batch_size, seq_len=self.seq_len, max_predictions=self.max_predictions)
        ends = [round(self._warmup_of(steps) * i / max(len(self.batch_warmup), 1)) for i in range(len(self.batch_warmup) + 1)]
        for size, start, end in zip(self.batch_warmup, ends, ends[1:], strict=False):
            if end > start:
                yield replace(whole, steps=end - start, batch_size=size)
        yield replace(whole, steps=steps - ends[-1])

    def _warmup_of(self, steps):
        """Optimizer steps with smaller batches."""
        return steps // 10 if self.batch_warmup_steps is None else self.batch_warmup_steps

    def _check_examples(self):
        """Refuse settings that are not usable.

        Raises:
            ValueError: there is one.
        """
        objectives = {"objective": tuple(OBJECTIVES), "next_sentence": NEXT_SENTENCE, "masking": MASKING, "packing": (True, False)}
        check_choices(self, objectives)
        check_fractions(self, {"mask_rate": 1, "short_seq_prob": 1, "generator_size": 1}, optional=("generator_size",))
        above_zero(self, ("discriminator_weight", "minutes"), optional=True)
        for name in ("phases", "lengths", "batch_warmup"):
            if not isinstance(getattr(self, name), (list, tuple)):
                raise ValueError(f"{name} must be a list; got {getattr(self, name)!r}.")
        for name, low in (("lengths", None), ("batch_warmup", 1)):
            values = getattr(self, name)
            if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) and (low is None or n >= low) for n in values):
                raise ValueError(f"{name} must be whole numbers{'' if low is None else f' of at least {low}'}; got {values!r}.")
            object.__setattr__(self, name, tuple(values))
        object.__setattr__(self, "phases", tuple(as_phase(phase, i) for i, phase in enumerate(self.phases)))
        if self.minutes is not None and self.steps is not None:
            raise ValueError(f"minutes choose the number of steps; got minutes={self.minutes} and steps={self.steps}.")
        self._check_batch_warmup()
        self.learned.check(self)

    def _check_batch_warmup(self):
        if not self.batch_warmup:
            if self.batch_warmup_steps is not None:
                raise ValueError(
                    f"batch_warmup_steps needs the sizes in batch_warmup; got {self.batch_warmup_steps} steps and no size."
                )
            return
        if self.phases:
            raise ValueError(
                "batch_warmup must be left out with phases, which define their own batch sizes: start with smaller ones."
            )
        if self.minutes is not None and self.batch_warmup_steps is not None:
            raise ValueError(f"batch_warmup_steps must be left out with minutes; got {self.batch_warmup_steps}.")
        steps = self.steps or STEPS
        if not len(self.batch_warmup) <= self._warmup_of(steps) < steps:
            raise ValueError(
                f"batch_warmup_steps must be from {len(self.batch_warmup)}, one for each size of batch_warmup, to {steps - 1}, all "
                f"steps but one; got {self._warmup_of(steps)}."
            )
