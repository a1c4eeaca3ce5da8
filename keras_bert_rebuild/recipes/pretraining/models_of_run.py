"""The models of a pretraining run: the one that it starts with, and those at its checkpoints."""

import os
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.safetensors_files import SafetensorsFiles
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.training.state.checkpoint import read_checkpoint
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder


def starting_model(corpus, settings):
    """The model of a run, not yet compiled.

    Args:
        corpus: the `TokenCorpus` of the run.
        settings: its `PretrainSettings`.

    Raises:
        ValueError: a checkpoint does not match the corpus, or an example has more tokens than the model has positions.
    """
    tables = vocabulary_tables(corpus.vocabulary)
    if settings.init is None:
        config = settings.model_config(len(corpus.vocabulary), tables.pad_id)
        check_positions("the model", config, settings)
        return settings.learned.build(config, settings)
    # Not strict: a checkpoint may lack these heads; a warning names what is newly initialised.
    model = from_pretrained(settings.init, heads=settings.heads, strict=False)
    config = model.config
    for what, found, expected in (
        ("tokens in its vocabulary", config.vocab_size, len(corpus.vocabulary)),
        ("the id of padding", config.pad_token_id, tables.pad_id),
    ):
        if found != expected:
            raise ValueError(f"{settings.init} must match the store: expected {expected} as {what}; got {found}.")
    check_positions(settings.init, config, settings)
    if not settings.packing:
        return model
    packed = settings.learned.build(config, settings)
    for weight, value in zip(packed.weights, model.weights, strict=True):
        weight.assign(value)
    packed.load_report = model.load_report
    return packed


def check_positions(name, config, settings):
    """Refuse examples of more tokens than a model has positions.

    Args:
        name: what the model is called in the error.
        config: its `BertConfig`.
        settings: `PretrainSettings`.

    Raises:
        ValueError: a phase has longer examples.
    """
    longest = max(phase.seq_len for phase in settings.all_phases)
    if longest > config.max_length:
        raise ValueError(f"{name} has {config.max_length} positions; a phase has examples of {longest} tokens.")


def steps_of_run(run: str | os.PathLike[str], maximum: int | None = None) -> list[int]:
    """The optimizer steps of a run's checkpoints, in ascending order.

    Args:
        run: the folder of a pretraining.
        maximum: the number of steps to return, at least 2: the first, the last, and others spread evenly; None for all.

    Raises:
        ValueError: the folder is not the folder of a run, or it has no checkpoint.
    """
    run = Path(run)
    batches = CheckpointFolder(run / "checkpoints").steps() if (run / "settings.yaml").is_file() else []
    if not batches:
        raise ValueError(
            f"expected the folder of a pretraining with settings.yaml and checkpoints; {run} has none. "
            "The setting keep_checkpoints of a run says how many it keeps."
        )
    accumulation = _accumulation(run)
    steps = [step // accumulation for step in batches if step % accumulation == 0]
    if maximum is None or len(steps) <= maximum:
        return steps
    places = np.linspace(0, len(steps) - 1, max(maximum, 2)).round().astype(int)
    return [steps[place] for place in places]


def models_of_run(run: str | os.PathLike[str], steps: list[int] | None = None) -> Iterator[tuple[int, keras.Model]]:
    """Iterate over pairs of an optimizer step and the model after that step.

    All pairs have the same model object, whose weights each iteration replaces with those of the next checkpoint, or with their
    moving averages if the run has them.

    Args:
        run: the folder of a finished pretraining, with its `model/`.
        steps: some of `steps_of_run`; None for all.

    Raises:
        ValueError: the run has no model yet, a checkpoint is damaged, or its weights do not match the model.
    """
    run = Path(run)
    if not (run / "model").is_dir():
        raise ValueError(f"expected a finished run, whose folder has a model with settings and vocabulary; {run} has no model/.")
    model = from_pretrained(run / "model")
    accumulation = _accumulation(run)
    for step in steps_of_run(run) if steps is None else steps:
        checkpoint = read_checkpoint(run / "checkpoints" / f"step-{step * accumulation:08d}")
        _assign(model, checkpoint.arrays(), checkpoint.path)
        yield step, model


def _accumulation(run):
    return int(read_yaml(run / "settings.yaml").get("gradient_accumulation_steps", 1))


def _assign(model: keras.Model, arrays: SafetensorsFiles, path: Path) -> None:
    """Assign the weights of a checkpoint to a model, plus the offsets of their moving averages."""
    names = set(arrays.names)
    for weight in model.weights:
        name = f"weights/{weight.path}"
        if name not in names or tuple(arrays.shape(name)) != tuple(weight.shape):
            found = tuple(arrays.shape(name)) if name in names else "none"
            raise ValueError(
                f"{path} must have the weights of its run's model: expected {weight.path} {tuple(weight.shape)}; got {found}."
            )
        value = arrays.read(name)
        offset = f"optimizer/{weight.path}/average_offset"
        weight.assign(value if offset not in names else value + arrays.read(offset).astype(value.dtype))
