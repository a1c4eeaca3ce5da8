"""The workflow asks for what there is."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")


def listed(name):
    """The values of every list of this name in the workflow."""
    return {word.strip(' "') for line in re.findall(rf"^ *{name}: \[(.+)\]", WORKFLOW, re.M) for word in line.split(",")}


def test_the_workflow_runs_environments_of_tox_and_all_that_tox_runs_by_itself():
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    there = {section.partition(":")[2] for section in tox.sections() if section.startswith("testenv:")}
    assert {name.strip() for name in tox["tox"]["env_list"].split(",")} <= listed("environment") <= there


def test_the_workflow_runs_every_python_that_setup_cfg_names_and_the_oldest_keras():
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg", encoding="utf-8")
    assert listed("python") == set(re.findall(r"Python :: (3\.\d+)", declared["metadata"]["classifiers"]))
    assert re.search(r"keras>=(\S+)", declared["options"]["install_requires"])[1] in listed("keras")
