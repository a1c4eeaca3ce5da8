"""The settings of a pretraining run that define how weights are updated: the optimizer and its learning rate schedule."""

from dataclasses import dataclass

from keras_bert_rebuild.recipes.pretraining.setting_checks import above_zero, check_choices, check_fractions

OPTIMIZERS = ("adamw", "lamb", "stable_adamw", "muon")
SCHEDULES = ("linear", "cosine", "one_minus_sqrt", "trapezoidal")
DECAY_SHAPES = ("linear", "one_minus_sqrt")

# Defaults of a trapezoidal schedule.
DECAY_FRACTION, DECAY_SHAPE = 0.2, "one_minus_sqrt"

# Default of a run in minutes.
WARMUP_FRACTION = 0.1

# Left out of a run's file at these values, so that files from before these settings existed still match.
BEFORE = {
    "schedule": "linear",
    "beta_2": 0.999,
    **dict.fromkeys(("warmup_fraction", "decay_fraction", "decay_shape", "decay_from", "decay_step", "minutes")),
}


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """The optimizer and its schedule.

    Reference: Devlin et al., 2019, appendix A.2, for the defaults; Hägele et al., 2024, for those of the trapezoidal schedule.
    """

    optimizer: str = "adamw"
    """"adamw"; "lamb", for large batches; "stable_adamw", which limits steps after a jump of the gradient; or "muon", orthogonal
    steps for the matrices of the blocks and AdamW for the rest, at the rates of AdamW."""

    learning_rate: float = 1e-4
    """The maximum rate."""

    beta_2: float = 0.999
    """Decay of the second moment."""

    schedule: str = "linear"
    """How the rate falls to 0: after the warm-up, "linear", "cosine" or "one_minus_sqrt"; or only in the end, "trapezoidal"."""

    warmup_steps: int | None = None
    """Optimizer steps of rising rate; None: a tenth of all, at most 10,000."""

    warmup_fraction: float | None = None
    """Fraction of the run with a rising rate, instead of steps; with `minutes` None is 0.1."""

    decay_fraction: float | None = None
    """With "trapezoidal", the fraction of the run in which the rate falls; None: 0.2."""

    decay_shape: str | None = None
    """With "trapezoidal", how it falls: "linear" or "one_minus_sqrt"; None: "one_minus_sqrt"."""

    decay_from: str | None = None
    """The folder of a trapezoidal run: continue it from a checkpoint with the fall of the rate, in another folder and with its
    settings. `steps` are those of both together; None: as many as give the fall its fraction."""

    decay_step: int | None = None
    """The optimizer step of that checkpoint; None: the newest one before the rate falls. Keep them with `keep_checkpoints`."""

    weight_decay: float = 0.01
    """Fraction of a weight that is subtracted at a rate of 1; biases and norms are not decayed."""

    layer_decay: float = 1.0
    """Rate of a block, as a fraction of that of the block above it."""

    clip_norm: float | None = 1.0
    """Maximum norm of the gradient of all weights; None for no limit."""

    ema: float | None = None
    """Momentum of the moving average of the weights, such as 0.999; the average is evaluated and saved."""

    def _check_optimizer(self):
        """Refuse settings that are not usable.

        Raises:
            ValueError: there is one.
        """
        check_choices(self, {"optimizer": OPTIMIZERS, "schedule": SCHEDULES, "decay_shape": (*DECAY_SHAPES, None)})
        fractions = dict.fromkeys(("layer_decay", "weight_decay", "ema", "beta_2", "warmup_fraction", "decay_fraction"), 1)
        check_fractions(self, fractions, optional=("ema", "warmup_fraction", "decay_fraction"))
        above_zero(self, ("learning_rate",))
        above_zero(self, ("clip_norm",), optional=True)
        if self.beta_2 == 1:
            raise ValueError(f"beta_2 must be below 1; got {self.beta_2}.")
        if self.warmup_steps is not None and self.warmup_fraction is not None:
            raise ValueError(
                f"the warm-up must have warmup_steps or warmup_fraction; got {self.warmup_steps} steps and {self.warmup_fraction}."
            )
        for name in ("decay_fraction", "decay_shape"):
            if self.schedule != "trapezoidal" and self.decay_from is None and getattr(self, name) is not None:
                raise ValueError(f"{name} is for schedule='trapezoidal'; got {getattr(self, name)!r} with {self.schedule!r}.")
        if self.decay_step is not None and self.decay_from is None:
            raise ValueError(f"decay_step is a step of the run in decay_from; got {self.decay_step} and no run.")

    def warmup_of(self, steps: int) -> int:
        """Warm-up steps of a run with this number of optimizer steps."""
        if self.warmup_fraction is not None:
            return round(self.warmup_fraction * steps)
        return min(steps // 10, 10_000) if self.warmup_steps is None else min(self.warmup_steps, steps)

    @property
    def rise_of_minutes(self) -> float:
        """The warm-up as a fraction of a run in minutes."""
        return WARMUP_FRACTION if self.warmup_fraction is None else self.warmup_fraction

    @property
    def fall(self) -> tuple[float, str]:
        """The decay of a trapezoidal run: its fraction of the run, and its shape."""
        return DECAY_FRACTION if self.decay_fraction is None else self.decay_fraction, self.decay_shape or DECAY_SHAPE
