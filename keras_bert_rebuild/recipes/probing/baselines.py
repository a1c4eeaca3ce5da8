"""The baselines of probes, recorded once per run, in `probes.yaml` of its folder."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.recipes.metrics_table import LARGEST
from keras_bert_rebuild.recipes.probing.probes import Probes
from keras_bert_rebuild.recipes.run_folder import read_yaml, write_yaml
from keras_bert_rebuild.training.distributed.hosts import check_agreement, host_index

FILE = "probes.yaml"
# Keys of the file, and their names in reports and charts.
BASELINES = {"majority": "most frequent label", "bag_of_words": "bag of words", "start": "before training"}


def record_baselines(probes: Probes, folder: str | os.PathLike[str], step: int, again: bool = False) -> None:
    """Write the baselines of probes and the scores of the initial weights, unless they are recorded already.

    Args:
        probes: the probes of the run.
        folder: the folder of the run.
        step: the optimizer step that the run starts at.
        again: compute the scores even if they are recorded, so that compilation happens now.
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
    """The recorded baselines of each probe of a run; empty for a run without probes.

    Raises:
        ValueError: the file is not a list of baselines.
    """
    file = Path(folder) / FILE
    found = read_yaml(file).get("probes", []) if file.is_file() else []
    if not isinstance(found, list) or not all(_is_described(facts) for facts in found):
        raise ValueError(f"{file} must have a list of probes with names, columns and numbers.")
    return found


def _is_described(facts):
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), str) for name in ("name", "column")):
        return False
    return all(is_number(facts[key]) and abs(facts[key]) <= LARGEST for key in BASELINES if key in facts)
