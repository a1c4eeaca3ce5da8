"""The optimizer of a pretraining run, from its settings."""

from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW, Lamb, StableAdamW
from keras_bert_rebuild.training.optimizers.muon import Muon
from keras_bert_rebuild.training.optimizers.path_patterns import layer_rates
from keras_bert_rebuild.training.optimizers.rate_schedules import ProgressSchedule, WarmupLinearDecay, WarmupStableDecay

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb, "stable_adamw": StableAdamW, "muon": Muon}


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
