"""The lowest versions are those that setup.cfg admits."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lines(text):
    return [line.split(";")[0].strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_lowest_versions_are_the_bounds_of_setup_cfg():
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg", encoding="utf-8")
    needs = [declared["options"]["install_requires"], *declared["options.extras_require"].values()]
    bounds = {re.sub(r"\[.*\]", "", line).replace(">=", "==") for need in needs for line in lines(need)}
    lowest = lines((ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8"))
    assert lowest == sorted(bounds)
