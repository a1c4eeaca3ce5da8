"""The optimizer of a pretraining run, from its settings."""

from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW, Lamb
from keras_bert_rebuild.training.optimizers.path_patterns import layer_rates
from keras_bert_rebuild.training.optimizers.warmup_linear_decay import WarmupLinearDecay

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


def rate_schedule(settings):
    """The rate of a run as a function of the optimizer steps done before."""
    warmup, total = settings.resolved()["warmup_steps"], settings.total_steps
    return WarmupLinearDecay(settings.learning_rate, min(warmup, total), total)


def make_optimizer(model, settings):
    """The optimizer of a run, not yet built.

    Args:
        model: the model to train; `layer_decay` other than 1 gives each of its blocks its own rate.
        settings: `PretrainSettings`.
    """
    accumulation = settings.gradient_accumulation_steps
    return OPTIMIZERS[settings.optimizer](
        rate_schedule(settings),
        weight_decay=settings.weight_decay,
        rate_multipliers=None if settings.layer_decay == 1 else layer_rates(model, settings.layer_decay),
        ema_momentum=settings.ema,
        global_clipnorm=settings.clip_norm,
        gradient_accumulation_steps=None if accumulation == 1 else accumulation,
    )
