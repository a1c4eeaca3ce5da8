"""The workflow uses environments and versions that exist."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")


def job(name):
    """The part of the workflow that is a job."""
    return re.split(r"^  (?=\S)", WORKFLOW.partition("\njobs:\n")[2].partition(f"  {name}:\n")[2], maxsplit=1, flags=re.M)[0]


def listed(name, part):
    """The values of a list in a part of the workflow, on one line or a line each."""
    line = re.search(rf"^ *{name}: \[(.+)\]", part, re.M)
    values = line[1].split(", ") if line else re.findall(r"^          - (\S+)$", part, re.M)
    return [value.strip('"') for value in values]


def environments():
    """The environments of tox, and those of its four runs: `tox`, `tox -m quick`, `tox -m full`, `tox -m weekly`."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    labels = dict(line.split(" = ") for line in tox["tox"]["labels"].strip().splitlines())
    names = lambda text: {name.strip() for name in text.split(",")}  # noqa: E731
    there = {section.partition(":")[2] for section in tox.sections() if section.startswith("testenv:")}
    return there, names(tox["tox"]["env_list"]), *(names(labels[name]) for name in ("quick", "full", "weekly"))


def test_a_push_runs_tox_and_tox_full_in_at_most_six_jobs():
    there, first, _, full, _ = environments()
    jobs = listed("environments", job("push"))
    assert len(jobs) <= 6
    assert first | full <= {name for names in jobs for name in names.split(",")} <= there


def test_mondays_run_what_a_push_leaves_out():
    *_, weekly = environments()
    assert weekly <= set(listed("environment", job("weekly")))
    for name in ("weekly", "versions"):
        assert "if: github.event_name == 'schedule' ||" in job(name)


def test_the_full_and_the_weekly_run_have_every_other_environment_that_ci_can_run():
    there, first, quick, full, weekly = environments()
    assert quick <= there
    assert not first & full | first & weekly | full & weekly
    # A browser, a TPU compiler, other versions, an hour.
    assert there - first - full - weekly - quick == {"browser", "tpu", "cuda", "lowest", "coverage", "soak"}


def test_ci_runs_both_and_fails_where_either_does():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pip install --quiet tox && run\nstatus=$?" in script
    assert "in $(python3 -m tox -q -l -m full)" in script
    assert 'run -e "$environment" || status=1' in script


def test_ci_knows_how_long_every_environment_takes_and_has_time_for_all():
    *_, full, _ = environments()
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    seconds = dict(re.findall(r"\[([\w-]+)\]=(\d+)", script))
    minutes, known = (int(re.search(rf"^{name}=(\d+)$", script, re.M)[1]) for name in ("minutes", "known"))
    assert set(seconds) == full
    assert known + sum(map(int, seconds.values())) <= 60 * minutes <= 2400


def test_the_workflow_runs_every_python_that_setup_cfg_names_and_the_oldest_keras():
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg", encoding="utf-8")
    versions = job("versions")
    assert listed("python", versions) == re.findall(r"Python :: (3\.\d+)", declared["metadata"]["classifiers"])
    assert re.search(r"keras>=(\S+)", declared["options"]["install_requires"])[1] in listed("keras", versions)
