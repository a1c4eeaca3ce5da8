"""Thousands of hostile files: each is answered or refused in one sentence, in little time and memory, and nothing in it is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.hostile_inputs import only_exhaustive
from hostile.attacks import numbers
from hostile.pool import Pool

from keras_bert_rebuild.files.limits import limit

TESTS = Path(__file__).parents[1]
# Each process of pytest-xdist has a part of the inputs.
PARTS = 16


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, "-m", "hostile.samples", folder], check=True, env=environment)
    return folder


def judged(names, samples, folder):
    """The verdicts that break the promise, as lines."""
    mark, scratch = folder / "mark", folder / "scratch"
    scratch.mkdir()
    wrong, refused = [], 0
    with Pool(samples, scratch, mark, limit("seconds"), limit("memory_bytes")) as pool:
        for name in names:
            verdict = pool.judge(name)
            refused += verdict.outcome == "refused"
            assert verdict.outcome == "answered" or not name.endswith("-good"), verdict
            if verdict.outcome not in ("answered", "refused"):
                wrong.append(f"{name}: {verdict.outcome} ({verdict.seconds:.1f} s, {verdict.growth / 1e6:.0f} MB)")
            assert not mark.exists(), f"{name} ran something"
    assert refused > len(names) / 3
    return wrong


@pytest.mark.slow(torch=True)
@pytest.mark.backend("torch")  # files of torch are among them
def test_a_part_of_the_hostile_files_is_answered_or_refused_and_nothing_is_run(samples, tmp_path):
    assert judged(numbers(part=20), samples, tmp_path) == []


def test_the_set_has_the_stated_size():
    assert len(numbers()) >= 6000


@only_exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_all_hostile_files_are_answered_or_refused_and_nothing_is_run(samples, tmp_path, part):
    names = numbers()[part::PARTS]
    wrong = judged(names, samples, tmp_path)
    print(f"{len(names)} inputs, {len(wrong)} not as promised")
    assert wrong == []
