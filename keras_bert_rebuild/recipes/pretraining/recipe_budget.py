"""The size of the model that a recipe trains with a budget on these devices, and an estimate of its training."""

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

# The fraction of the FLOP/s of large matrix products that the training of a small encoder reaches.
UTILISATION = 0.4


@dataclass(frozen=True)
class RecipePlan:
    """The estimate of a training by a recipe."""

    settings: PretrainSettings
    """The settings of the run."""

    config: BertConfig
    """The config of the model."""

    num_params: int
    """Its parameters."""

    steps: int
    """Optimizer steps; with a budget in minutes, an estimate from the speed of the devices."""

    tokens: int
    """Tokens of all steps."""

    passes: float
    """These tokens as a multiple of the corpus: the number of epochs."""

    minutes: float
    """Minutes of training; with a number of steps, an estimate from the speed of the devices."""

    memory: int
    """Bytes of one device in a step of the largest phase."""

    available: int | None
    """Bytes of free memory on this CPU; None on an accelerator, or if the system does not report it."""


def choose_size(recipe: Recipe, given: Mapping[str, Any], vocab_size: int, flops_per_second: float) -> int | None:
    """The index of the size that a recipe chooses for a budget.

    It is the largest size that trains on at least `tokens_per_parameter` tokens for each of its parameters outside the embedding,
    or the first if none does. If the user gives a model, it is the last size with at most as many parameters; None for checkpoints.

    Args:
        recipe: a `Recipe`.
        given: the user's fields of `PretrainSettings`, with minutes or steps.
        vocab_size: tokens of the vocabulary.
        flops_per_second: operations per second of all devices in training.

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
        flops_per_second: operations per second of all devices in training.
        devices: number of devices.
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
    """The model of settings as plain config fields, however it is given, so that a folder can record it."""
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
