"""The optimizer of a pretraining run and its learning rate schedule: their settings, and how they are made from these."""

from dataclasses import dataclass

from keras_bert_rebuild.recipes.settings import setting
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW, Lamb, StableAdamW
from keras_bert_rebuild.training.optimizers.muon import Muon
from keras_bert_rebuild.training.optimizers.path_patterns import layer_rates
from keras_bert_rebuild.training.optimizers.rate_schedules import ProgressSchedule, WarmupLinearDecay, WarmupStableDecay

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb, "stable_adamw": StableAdamW, "muon": Muon}
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

    optimizer: str = setting("adamw", choices=tuple(OPTIMIZERS))
    """Optimizer: adamw; lamb for large batches; stable_adamw, which clips updates after sudden jumps of the gradient; muon,
    orthogonalised updates for the matrices of the blocks and AdamW for the rest."""

    learning_rate: float = setting(1e-4, above=0)
    """Peak learning rate."""

    beta_2: float = setting(0.999, most=1)
    """Exponential decay rate of the second-moment estimates (Adam's beta 2)."""

    schedule: str = setting("linear", choices=SCHEDULES)
    """Learning rate schedule: linear, cosine or one_minus_sqrt decay after the warm-up, or trapezoidal (warm-up, constant,
    decay)."""

    warmup_steps: int | None = setting(None, least=0)
    """Steps of linear learning rate warm-up (default: a tenth of the steps, at most 10,000)."""

    warmup_fraction: float | None = setting(None, most=1)
    """Learning rate warm-up as a fraction of the run, instead of `warmup_steps` (default: 0.1 with `minutes`)."""

    decay_fraction: float | None = setting(None, most=1)
    """Fraction of the run in which a trapezoidal schedule decays (default: 0.2)."""

    decay_shape: str | None = setting(None, choices=DECAY_SHAPES)
    """Shape of that decay: linear or one_minus_sqrt (default: one_minus_sqrt)."""

    decay_from: str | None = None
    """Folder of a run with a trapezoidal schedule: start the decay from one of its checkpoints, with its settings, in a new folder;
    `steps` then counts both runs together (default: none)."""

    decay_step: int | None = setting(None, least=0)
    """Step of the checkpoint to decay from; older ones exist only as far as `keep_checkpoints` kept them (default: the last one
    before the decay)."""

    weight_decay: float = setting(0.01, most=1)
    """Weight decay (decoupled, as in AdamW); biases and normalisation parameters are not decayed."""

    layer_decay: float = setting(1.0, most=1)
    """Layer-wise learning rate decay: each block learns at this fraction of the rate of the block above it; 1 for none."""

    clip_norm: float | None = setting(1.0, above=0)
    """Maximum global gradient norm."""

    ema: float | None = setting(None, most=1)
    """Decay rate of an exponential moving average of the weights, such as 0.999; the averaged weights are evaluated and saved
    (default: no averaging)."""

    def _check_optimizer(self):
        """Refuse settings that are not usable.

        Raises:
            ValueError: there is one.
        """
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


def rate_schedule(settings):
    """The learning rate of a run as a function of the number of completed optimizer steps."""
    peak, shape = settings.learning_rate, settings.schedule
    if settings.minutes is not None:
        rise = settings.rise_of_minutes
        fall, shape = settings.fall if shape == "trapezoidal" else (1 - rise, shape)
        return ProgressSchedule(peak, rise, fall, shape)
    total = settings.total_steps
    warmup = settings.warmup_of(total)
    if shape == "linear":
        return WarmupLinearDecay(peak, warmup, total)
    fall = total - warmup
    if shape == "trapezoidal":
        fraction, shape = settings.fall
        fall = min(round(fraction * total), fall)  # both may have been rounded up
    return WarmupStableDecay(peak, warmup, fall, total, shape)


def make_optimizer(model, settings, schedule=None):
    """The optimizer of a run, not yet built.

    Args:
        model: the model to train; with a `layer_decay` other than 1, each block has its own learning rate.
        settings: `PretrainSettings`.
        schedule: the learning rate; None for a new `rate_schedule`.
    """
    accumulation = settings.gradient_accumulation_steps
    products = {"products": "bfloat16" if settings.dtype == "mixed_bfloat16" else "float32"} if settings.optimizer == "muon" else {}
    return OPTIMIZERS[settings.optimizer](
        schedule or rate_schedule(settings),
        weight_decay=settings.weight_decay,
        beta_2=settings.beta_2,
        rate_multipliers=None if settings.layer_decay == 1 else layer_rates(model, settings.layer_decay),
        ema_momentum=settings.ema,
        global_clipnorm=settings.clip_norm,
        gradient_accumulation_steps=None if accumulation == 1 else accumulation,
        **products,
    )
