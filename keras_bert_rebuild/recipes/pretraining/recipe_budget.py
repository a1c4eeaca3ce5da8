"""What a recipe makes of a budget on these devices: the size of the model, and what its training will be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.memory import available_bytes
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.recipe import Recipe
from keras_bert_rebuild.recipes.settings import size_fields
from keras_bert_rebuild.recipes.step_costs import Work, embedding_params, num_params, step_memory, trained_flops

# The fraction of the rate of large matrix products that a small encoder trains at.
UTILISATION = 0.4


@dataclass(frozen=True)
class RecipePlan:
    """What a training by a recipe is expected to be."""

    settings: PretrainSettings
    """Those of the run."""

    config: BertConfig
    """The model."""

    num_params: int
    """Its parameters."""

    steps: int
    """Optimizer steps; with a budget in minutes as many as the rate of the device promises."""

    tokens: int
    """Tokens of all steps."""

    passes: float
    """How often that is the corpus."""

    minutes: float
    """Minutes of training; with a number of steps as the rate of the device promises."""

    memory: int
    """Bytes of one device in a step of the largest phase."""

    available: int | None
    """Bytes that are free on this processor; None on an accelerator, or if the system does not say."""


def choose_size(recipe: Recipe, given: Mapping[str, Any], vocab_size: int, flops_per_second: float) -> int | None:
    """The number of the size that a recipe has for a budget.

    The largest size that sees at least `tokens_per_parameter` tokens for each of its parameters outside of the embedding; the first
    one if none does. With a model of the user's it is the last size with no more parameters; with a checkpoint there is none.

    Args:
        recipe: a `Recipe`.
        given: fields of `PretrainSettings` of the user, with minutes or steps.
        vocab_size: tokens of the vocabulary.
        flops_per_second: what the devices compute in a training.

    Reference: Hoffmann et al., 2022, table 3 (https://arxiv.org/abs/2203.15556), for tokens in proportion to parameters.
    """
    if given.get("init") is not None:
        return None

    def inner(size):
        settings = recipe.settings(size, {name: value for name, value in given.items() if name != "model"})
        return _inner_params(settings.model_config(vocab_size, 0), settings)

    if given.get("model") is not None:
        settings = recipe.settings(None, given)
        return recipe.size_like(_inner_params(settings.model_config(vocab_size, 0), settings), inner)

    def enough(size):
        settings = recipe.settings(size, given)
        tokens = _budget(settings, settings.model_config(vocab_size, 0), flops_per_second)[1]
        return tokens >= recipe.tokens_per_parameter * inner(size)

    return max((size for size in range(len(recipe.sizes)) if enough(size)), default=0)


def plan_of(
    settings: PretrainSettings, config: BertConfig, corpus_tokens: int, flops_per_second: float, devices: int
) -> RecipePlan:
    """The plan of a run.

    Args:
        settings: its `PretrainSettings`.
        config: the config of its model.
        corpus_tokens: tokens of the corpus.
        flops_per_second: what the devices compute in a training.
        devices: their number.
    """
    steps, tokens, seconds = _budget(settings, config, flops_per_second)
    largest = max(settings.all_phases, key=lambda phase: phase.batch_size * phase.seq_len)
    of_one = replace(settings, phases=(replace(largest, steps=1),), batch_warmup=(), batch_warmup_steps=None)
    accelerated = traits.runs_on_accelerator()
    rows = math.ceil(largest.batch_size / settings.gradient_accumulation_steps / devices)
    return RecipePlan(
        settings=settings,
        config=config,
        num_params=num_params(config, settings),
        steps=steps,
        tokens=tokens,
        passes=tokens / max(corpus_tokens, 1),
        minutes=settings.minutes or seconds / 60,
        memory=step_memory(config, of_one, "gpu" if accelerated else "cpu", rows).total,
        available=None if accelerated else available_bytes(),
    )


def model_of(settings: PretrainSettings) -> Mapping[str, Any]:
    """The fields of the model of settings, whatever names it, so that a folder can hold them."""
    return dict(size_fields(settings.model))


def _budget(settings, config, flops_per_second):
    """Steps, tokens and seconds of a run."""
    phases, total = settings.all_phases, settings.total_steps
    flops = [_flops(config, settings, phase) for phase in phases]
    if settings.minutes is None:
        counts = [phase.steps for phase in phases]
        seconds = sum(count * of for count, of in zip(counts, flops, strict=True)) / flops_per_second
    else:
        seconds = 60 * settings.minutes
        counts = [int(seconds * phase.steps / total * flops_per_second / of) for phase, of in zip(phases, flops, strict=True)]
    tokens = sum(count * phase.batch_size * phase.seq_len for count, phase in zip(counts, phases, strict=True))
    return max(sum(counts), 1), tokens, seconds


def _flops(config, settings, phase):
    """The operations of a step whose rows are full."""
    rows, length = phase.batch_size, phase.seq_len
    work = Work(rows * length, rows * length**2, round(rows * length * settings.mask_rate), rows)
    return sum(trained_flops(trained, work) for trained in settings.learned.models(config, settings))


def _inner_params(config, settings):
    """Parameters outside of the embedding."""
    return num_params(config, settings) - embedding_params(config)
