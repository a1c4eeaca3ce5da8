"""Recipes: the settings of a pretraining without its corpus and its budget, as YAML files, and the size that a budget allows."""

import importlib.resources
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.yaml_files import parse_yaml, read_yaml
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.memory import available_bytes
from keras_bert_rebuild.recipes.pretraining.example_settings import STEPS
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.settings import check_settings, setting, settings_from_dict, size_fields
from keras_bert_rebuild.recipes.step_costs import Work, embedding_params, num_params, step_memory, trained_flops
from keras_bert_rebuild.text.vocabulary import SPECIAL_TOKENS

# The recipes of the package, files of `presets`.
PRESETS = ("bert", "modern")

# Settings for the user or the machine, not for a recipe.
NOT_OF_A_RECIPE = ("steps", "minutes", "model", "init", "decay_from", "decay_step", "hosts", "host_index", "coordinator")

# Settings of every phase of a recipe; the user's value replaces them in all phases.
OF_PHASES = ("batch_size", "seq_len", "max_predictions")

# What a size of a vocabulary is, for errors.
OF_VOCABULARY = f"a whole number above {len(SPECIAL_TOKENS)}, the special tokens"

# The fraction of the FLOP/s of large matrix products that the training of a small encoder reaches.
UTILISATION = 0.4


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The content of a recipe's YAML file."""

    vocab_size: int = setting(30000, least=len(SPECIAL_TOKENS) + 1, words=OF_VOCABULARY)
    """Tokens of the vocabulary, learned from the training part of the corpus."""

    cased: bool = setting(False, words="true or false")
    """Whether the vocabulary keeps case and accents."""

    tokens_per_parameter: float = setting(20.0, least=0)
    """The minimum number of training tokens per parameter outside the embedding, which decides the size for a budget."""

    sizes: tuple[Mapping[str, Any], ...] = ()
    """Models to choose from, smallest first: each a dictionary with `model`, as in `PretrainSettings`, and settings that override
    those of `training` for this size."""

    training: Mapping[str, Any] = None  # type: ignore[assignment]
    """Fields of `PretrainSettings`; the steps of phases are shares."""

    def __post_init__(self) -> None:
        training = {} if self.training is None else self.training
        object.__setattr__(self, "training", training)
        if not isinstance(training, Mapping):
            raise ValueError(f"training must have settings of a pretraining run; got {training!r:.80}.")
        check_settings(self)
        if not isinstance(self.sizes, (list, tuple)) or not self.sizes:
            raise ValueError(f"sizes must be a list of at least one size, each with its model; got {self.sizes!r:.80}.")
        for i, size in enumerate(self.sizes):
            if not isinstance(size, Mapping) or "model" not in size:
                raise ValueError(f"a size must have a model; size {i} is {size!r:.80}.")
            size_fields(size["model"])
        for what, values in (("training", training), *((f"size {i}", size) for i, size in enumerate(self.sizes))):
            names = [name for name in NOT_OF_A_RECIPE if name in values and not (what != "training" and name == "model")]
            if names:
                raise ValueError(f"{what} must leave out {', '.join(names)}, which the call of a recipe decides.")
        self.settings(0, {"steps": STEPS})

    def settings(self, size: int | None, options: Mapping[str, Any]) -> PretrainSettings:
        """The settings of a run.

        Args:
            size: the number of a row of `sizes`; None if `options` has a model or a checkpoint.
            options: fields of `PretrainSettings`, with steps or minutes, which override those of the recipe. A field of phases is
                replaced in all of them.

        Raises:
            ValueError: the settings contradict each other.
        """
        values = {**self.training, **(self.sizes[size] if size is not None else {}), **options}
        if self.training.get("schedule") == "trapezoidal" and values.get("schedule") != "trapezoidal":
            values |= {name: None for name in ("decay_fraction", "decay_shape") if name not in options}
        if options.get("objective", "mlm") != self.training.get("objective", "mlm"):
            values |= {name: None for name in ("next_sentence", "masking", "mask_rate") if name not in options}
        for one, other in (("warmup_steps", "warmup_fraction"), ("warmup_fraction", "warmup_steps")):
            if options.get(one) is not None and other not in options:
                values[other] = None
        if values.get("phases") and "phases" not in options:
            own = {name: values.pop(name) for name in OF_PHASES if name in values}
            own = {name: value for name, value in own.items() if name in options}
            steps = values.get("steps") if values.get("minutes") is not None else values.pop("steps", None)
            values["phases"] = _phases(values["phases"], own, steps)
        return settings_from_dict(PretrainSettings, values, "a pretraining run")


def read_recipe(recipe: str | os.PathLike[str]) -> Recipe:
    """A recipe of the package or of a file.

    Args:
        recipe: "bert", "modern", or the path of a YAML file with the fields of `Recipe`.

    Raises:
        ValueError: there is no such recipe, or it is invalid.
    """
    if recipe in PRESETS:
        text = (importlib.resources.files(__package__) / "presets" / f"{recipe}.yaml").read_text(encoding="utf-8")
        values = parse_yaml(text, f"{recipe}.yaml")
    elif not Path(recipe).is_file():
        raise ValueError(f"a recipe must be one of {', '.join(PRESETS)} or the path of a YAML file; got {os.fspath(recipe)!r:.80}.")
    else:
        values = read_yaml(recipe)
    try:
        return settings_from_dict(Recipe, values, "a recipe")
    except ValueError as error:
        raise ValueError(f"the recipe {os.fspath(recipe)}: {error}") from None


def name_of(recipe: str | os.PathLike[str]) -> str:
    """The name of a recipe, as recorded in the folder of a training."""
    return str(recipe) if recipe in PRESETS else Path(recipe).stem


def _phases(phases, own, steps):
    """The phases of a recipe with the user's values, and with numbers of steps instead of shares if `steps` is given."""
    if not isinstance(phases, (list, tuple)) or not all(isinstance(phase, Mapping) for phase in phases):
        return phases  # the settings refuse them
    phases = [{**phase, **own} for phase in phases]
    if steps is None:
        return phases
    shares = [phase.get("steps") for phase in phases]
    if not all(is_number(share) and share > 0 for share in shares):
        return phases
    ends = [round(steps * sum(shares[: i + 1]) / sum(shares)) for i in range(len(shares))]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [{**phase, "steps": count} for phase, count in zip(phases, counts, strict=True) if count]


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


def choose_size(recipe: Recipe, options: Mapping[str, Any], vocab_size: int, flops_per_second: float) -> int | None:
    """The index of the size that a recipe chooses for a budget.

    It is the largest size that trains on at least `tokens_per_parameter` tokens for each of its parameters outside the embedding,
    or the first if none does. If the user gives a model, it is the last size with at most as many parameters; None for checkpoints.

    Args:
        recipe: a `Recipe`.
        options: the user's fields of `PretrainSettings`, with minutes or steps.
        vocab_size: tokens of the vocabulary.
        flops_per_second: operations per second of all devices in training.

    Reference: Hoffmann et al., 2022, table 3 (https://arxiv.org/abs/2203.15556), for tokens in proportion to parameters.
    """
    if options.get("init") is not None:
        return None

    def inner(size):
        settings = recipe.settings(size, {name: value for name, value in options.items() if name != "model"})
        return _inner_params(settings.model_config(vocab_size, 0), settings)

    if options.get("model") is not None:
        settings = recipe.settings(None, options)
        parameters = _inner_params(settings.model_config(vocab_size, 0), settings)
        return max((size for size in range(len(recipe.sizes)) if inner(size) <= parameters), default=0)

    def enough(size):
        settings = recipe.settings(size, options)
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
        memory=step_memory(config, of_one, "gpu" if accelerated else "cpu", rows, devices).total,
        available=None if accelerated else available_bytes(),
    )


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
