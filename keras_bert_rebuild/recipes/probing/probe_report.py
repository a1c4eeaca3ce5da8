"""The scores of the probes of a run, next to their baselines."""

import os

from keras_bert_rebuild.recipes.metrics_table import read_curves
from keras_bert_rebuild.recipes.probing.baselines import BASELINES, read_baselines


def probe_report(folder: str | os.PathLike[str]) -> list[str]:
    """A line for each probe of a run: its last score and its baselines."""
    baselines = read_baselines(folder)
    curves = read_curves(folder) if baselines else {}
    lines = []
    for facts in baselines:
        if curves.get(facts["column"]):
            beside = ", ".join(f"{words} {facts[key]:.3f}" for key, words in BASELINES.items() if key in facts)
            metric = facts["column"].rpartition("_")[2]
            lines.append(f"probe    {facts['name']}: {metric} {curves[facts['column']][-1][1]:.3f} ({beside})")
    return lines
