"""What the scores of probes are compared with: recorded once, in `probes.yaml` of the folder of a run."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.probing.probes import Probes
from keras_bert_rebuild.recipes.run_folder import read_yaml, write_yaml
from keras_bert_rebuild.training.distributed.hosts import check_agreement, host_index

FILE = "probes.yaml"
# From keys of the file to what they are called in a report and in charts.
BASELINES = {"majority": "most frequent label", "bag_of_words": "bag of words", "start": "before training"}


def record_baselines(probes: Probes, folder: str | os.PathLike[str], step: int, again: bool = False) -> None:
    """Write the baselines of probes, and their scores for the weights that the run starts with, unless they are known.

    Args:
        probes: those of the run.
        folder: its folder.
        step: the optimizer step that it starts at.
        again: measure them also if they are known, so that whatever has to be compiled is compiled now.
    """
    file = Path(folder) / FILE
    known = file.is_file()
    check_agreement({f"whether there is {file}": known})
    if known and not again:
        return
    scores = probes.scores()
    if host_index() == 0 and not known:
        facts = [{**facts, "start": scores[facts["column"]]} for facts in probes.baselines()]
        write_yaml(file, {"step": step, "probes": facts})


def read_baselines(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """What the file in the folder of a run says of each probe; empty for a run without probes.

    Raises:
        ValueError: it is not such a file.
    """
    file = Path(folder) / FILE
    found = read_yaml(file).get("probes", []) if file.is_file() else []
    if not isinstance(found, list) or not all(_is_described(facts) for facts in found):
        raise ValueError(f"{file} must have a list of probes with names, columns and numbers.")
    return found


def _is_described(facts):
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), str) for name in ("name", "column")):
        return False
    return all(is_number(facts[key]) for key in BASELINES if key in facts)
