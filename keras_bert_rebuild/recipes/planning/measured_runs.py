"""Finished pretraining runs as data points of a scaling law: parameters, tokens and held-out loss."""

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.run_folder import read_yaml
from keras_bert_rebuild.recipes.settings import size_fields
from keras_bert_rebuild.recipes.step_costs import num_params

# What must be equal for losses to be comparable.
COMPARED = ("objective", "next_sentence", "masking", "mask_rate", "packing", "held_out", "corpus", "vocabulary")


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run."""

    folder: str
    """Its folder."""

    parameters: int
    """Parameters of all models that it trained, including embedding tables and heads."""

    tokens: int
    """Tokens that it was trained on, without padding."""

    loss: float
    """Held-out loss after the last step, in nats: of the masked tokens, or with "electra" the sum of both losses."""


def measured_runs(folders: Sequence[str | os.PathLike[str]]) -> tuple[list[MeasuredRun], PretrainSettings, int]:
    """Read finished runs.

    Args:
        folders: the folders of runs on one corpus with one objective.

    Returns:
        The runs, the settings of the largest of them, and the size of their vocabulary.

    Raises:
        ValueError: a folder has no finished run, the runs are not comparable, or one occurs twice.
    """
    read = [_read(Path(folder)) for folder in folders]
    if len({Path(folder).resolve() for folder in folders}) < len(read):
        raise ValueError("expected every run of a scaling law once; got a folder twice.")
    first = read[0]
    for run, _, facts in read[1:]:
        differing = [name for name in COMPARED if facts[name] != first[2][name]]
        if differing:
            listed = "; ".join(f"{name} is {printable(facts[name])} and {printable(first[2][name])}" for name in differing)
            raise ValueError(f"expected runs on one corpus with one objective; in {run.folder} and {first[0].folder} {listed}.")
    largest = max(read, key=lambda found: (found[0].parameters, found[0].tokens))
    return [run for run, _, _ in read], largest[1], first[2]["vocabulary"]


def _read(folder):
    """A run, its settings, and what must be equal."""
    if not (folder / "settings.yaml").is_file() or not (folder / "metrics.csv").is_file():
        raise ValueError(f"expected the folder of a pretraining run, with settings.yaml and metrics.csv; {folder} has none.")
    values = read_yaml(folder / "settings.yaml")
    corpus = values.get("corpus")
    if not isinstance(corpus, dict) or not isinstance(corpus.get("vocabulary"), int):
        raise ValueError(f"{folder / 'settings.yaml'} must be the settings of a pretraining run; it names no corpus.")
    settings = PretrainSettings.recorded(values)
    config = _config(folder, settings, corpus["vocabulary"])
    tokens, loss = _outcome(folder, settings)
    facts = {name: getattr(settings, name, None) for name in COMPARED}
    facts |= {"corpus": corpus.get("sha256"), "vocabulary": corpus["vocabulary"]}
    return MeasuredRun(str(folder), num_params(config, settings), tokens, loss), settings, facts


def _config(folder: Path, settings: PretrainSettings, vocabulary: int) -> BertConfig:
    file = folder / "model" / "config.json"
    fields: Any = size_fields(str(file)) if file.is_file() else settings.learned.fields(size_fields(settings.model))
    return BertConfig.from_dict({**fields, "vocab_size": vocabulary})


def _outcome(folder, settings):
    """The tokens of a run, and its last held-out loss."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = "held_out_loss" if settings.objective == "electra" else "held_out_mlm_loss"
    if not (folder / "model").is_dir() or not rows:
        raise ValueError(f"a scaling law needs finished runs; {folder} has no model yet: run its command again to resume it.")
    if not rows[-1].get(column):
        raise ValueError(f"a scaling law needs held-out losses; {folder / 'metrics.csv'} has no {column} after the last step.")
    try:
        return sum(int(row["tokens"]) for row in rows), float(rows[-1][column])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder / 'metrics.csv'} must have whole numbers as tokens and a number as {column}.") from None
