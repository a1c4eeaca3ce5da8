"""The settings of a pretraining run that define its objective, its examples and its length."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES, MaskedTokens
from keras_bert_rebuild.recipes.settings import Phase, as_phase, setting

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
    """Size of the new model (tiny, mini, small, medium, base, large, transformer-base, transformer-big, electra-small,
    electra-base, electra-large, xlnet-base, xlnet-large) or the path of a config.json; in Python and YAML also the fields of a
    config."""

    init: str | None = None
    """Checkpoint to continue from, in any format that `from_pretrained` reads, instead of a new model (default: random weights)."""

    objective: str = setting("mlm", choices=tuple(OBJECTIVES))
    """Pretraining objective: mlm (masked language modelling with a sentence-pair task, BERT), electra (replaced token detection
    with a jointly trained generator) or xlnet (permutation language modelling)."""

    generator_size: float | None = setting(None, most=1)
    """Width of the ELECTRA generator as a fraction of the discriminator's (default: 1/3 for a width of 768, otherwise 1/4)."""

    discriminator_weight: float | None = setting(None, above=0)
    """Weight of the ELECTRA discriminator's loss (default: 50)."""

    steps: int | None = setting(None, least=1)
    """Optimizer steps (default: 100,000, or as many as fit into `minutes`)."""

    minutes: float | None = setting(None, above=0)
    """Train for this many minutes instead of a number of steps: speed is measured and the learning rate schedule ends with the
    time. Evaluation and compilation count; an interrupted run continues with the time that is left
    (default: a number of steps)."""

    batch_size: int = setting(32, least=1)
    """Examples per optimizer step, over all devices and micro-batches."""

    seq_len: int = setting(128, least=5)
    """Sequence length in tokens, including special tokens."""

    max_predictions: int | None = setting(None, least=1)
    """Maximum number of masked positions per example (default: just enough for `mask_rate`)."""

    phases: Sequence[Any] = ()
    """Consecutive phases of different sequence lengths, each with steps, batch_size, seq_len and optionally max_predictions,
    instead of the settings of these names: BERT trained 90 % of its steps at length 128 and the rest at 512. With `minutes`, the
    steps are shares of the time."""

    batch_warmup: Sequence[int] = setting((), each=1)
    """Batch size warm-up: smaller batch sizes to begin with, such as 8 16, each for an equal share of `batch_warmup_steps`; the
    learning rate stays the same (default: none)."""

    batch_warmup_steps: int | None = setting(None, least=1)
    """Optimizer steps of the batch size warm-up (default: a tenth of all steps; with `minutes`, always a tenth of the time)."""

    gradient_accumulation_steps: int = setting(1, least=1)
    """Micro-batches whose gradients are averaged for one optimizer step."""

    next_sentence: str | None = setting(None, choices=NEXT_SENTENCE)
    """Sentence-pair task: nsp (next sentence prediction), sop (sentence order prediction) or none (default: nsp; none with electra,
    xlnet or `packing`)."""

    masking: str | None = setting(None, choices=MASKING)
    """Unit of masking: token, whole_word, ngram (spans of up to three words) or span (of up to five words) (default: token; span
    with xlnet)."""

    mask_rate: float | None = setting(None, most=1)
    """Fraction of the tokens that are masked and predicted (default: 0.15; 1/6 with xlnet)."""

    short_seq_prob: float = setting(0.1, most=1)
    """Fraction of the examples that are shortened to a random length; with `packing` and without pairs, fraction of the full rows
    that are split in two."""

    packing: bool = False
    """Pack several sequences into each row, without attention between them, instead of padding."""

    lengths: Sequence[int] = setting((), each=None)
    """Bucket lengths to pad to, such as 32 64 96, so that a batch holds examples of similar length (default: pad every example to
    `seq_len`)."""

    @property
    def learned(self) -> MaskedTokens:
        """The objective, an object of `objectives`."""
        return OBJECTIVES[self.objective]

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """The phases with all numbers filled in: the given ones, or one phase after one for every size of `batch_warmup`."""
        phases = tuple(self.phases) or tuple(self._growing())
        return tuple(phase.with_predictions(self.mask_rate) for phase in phases)

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
