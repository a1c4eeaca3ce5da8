"""What is said twice is the same: lowest versions, the READMEs in two languages, the workflow."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def read(name):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / name, encoding="utf-8")
    return parser


TOX, SETUP = read("tox.ini"), read("setup.cfg")


def lines(text):
    return [line.split(";")[0].strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_lowest_versions_are_the_bounds_of_setup_cfg():
    needs = [SETUP["options"]["install_requires"], *SETUP["options.extras_require"].values()]
    bounds = {re.sub(r"\[.*\]", "", line).replace(">=", "==") for need in needs for line in lines(need)}
    lowest = lines((ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8"))
    assert lowest == sorted(bounds)


ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))


def test_both_have_the_same_blocks_of_code():
    blocks = [re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL) for text in (ENGLISH, CHINESE)]
    assert blocks[0] == blocks[1]


def test_both_have_the_same_headings_and_rows_of_tables():
    for start in ("## ", "|", "- "):
        counts = [sum(line.startswith(start) for line in text.splitlines()) for text in (ENGLISH, CHINESE)]
        assert counts[0] == counts[1] > 0, start


def test_both_have_the_same_figures_in_their_tables():
    rows = [[line for line in text.splitlines() if line.startswith("|")] for text in (ENGLISH, CHINESE)]
    for english, chinese in zip(*rows, strict=True):
        assert sorted(re.findall(r"\d[\d.,]*\d|\d", english)) == sorted(re.findall(r"\d[\d.,]*\d|\d", chinese)), english


def cells(page):
    """What the first table of a page that compares libraries says, by row and library."""
    table = page[page.index("\n| | here |") + 1 :].partition("\n\n")[0].splitlines()
    (_, *libraries), _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    return {(name, library): cell for name, *values in rows for library, cell in zip(libraries, values, strict=True)}


def test_the_readme_says_what_the_comparison_says():
    short, whole = cells(ENGLISH), cells((ROOT / "docs" / "comparison.md").read_text(encoding="utf-8"))
    both = short.keys() & whole.keys()
    assert {name for name, _ in both} >= {"FSDP, ZeRO", "Decoders", "Memory and time predicted"}
    assert {key: short[key] for key in both} == {key: whole[key] for key in both}


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_every_link_has_a_file(text):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
SCRIPT = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


ENVIRONMENTS = {section.partition(":")[2] for section in TOX.sections() if section.startswith("testenv:")}
FIRST = set(TOX["tox"]["env_list"].split(", "))


def job(name):
    """The part of the workflow that is a job."""
    return re.split(r"^  (?=\S)", WORKFLOW.partition("\njobs:\n")[2].partition(f"  {name}:\n")[2], maxsplit=1, flags=re.M)[0]


def commands(part):
    return re.findall(r"^          - (.*tox .+)$", part, re.M)


def named(text):
    """The environments of all commands of tox in a text."""
    return {name for names in re.findall(r"-e ([\w,]+)", text) for name in names.split(",")}


def test_there_are_at_most_ten_environments():
    assert len(ENVIRONMENTS) <= 10


def test_there_are_two_marks():
    declared = re.findall(r"^(\w+): ", SETUP["tool:pytest"]["markers"], re.M)
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    used = {mark for source in sources for mark in re.findall(r"pytest\.mark\.(\w+)", source)}
    assert declared == ["slow", "backend"]
    assert used - {"filterwarnings", "parametrize", "skipif", "timeout", "usefixtures"} == set(declared)


def test_a_push_has_at_most_six_jobs():
    assert len(commands(job("push"))) <= 6


@pytest.mark.parametrize("text", [SCRIPT, job("push")], ids=["ci", "push"])
def test_every_environment_that_ci_can_have_is_run(text):
    assert FIRST <= ENVIRONMENTS
    assert named(text) == ENVIRONMENTS - {"browser", "compilers"}


def test_mondays_run_what_a_push_leaves_out():
    assert {"tox -e tf -- tests", "tox -e jax -- tests", "tox -e lint -- tests/package"} <= set(commands(job("weekly")))
    for name in ("weekly", "versions"):
        assert named(job(name)) <= ENVIRONMENTS
        assert "if: github.event_name == 'schedule' ||" in job(name)


def test_every_folder_that_is_left_out_unless_named_is_named():
    texts = TOX["testenv:lint"]["commands"] + TOX["testenv:browser"]["commands"] + TOX["testenv:compilers"]["commands"] + WORKFLOW
    for folder in SETUP["tool:pytest"]["norecursedirs"].split()[1:]:
        assert (ROOT / "tests" / folder).is_dir()
        assert re.search(rf"tests(\{{/\}}|/){folder}", texts), folder


def test_every_file_and_folder_that_ci_and_tox_name_exists():
    (names,) = re.findall(r"tests/\{([^}]+)\}", SCRIPT)
    paths = re.findall(r"tests/([\w/]+(?:\.\w+)?)", (ROOT / "tox.ini").read_text(encoding="utf-8").replace("{/}", "/"))
    assert [name for name in (*names.split(","), *paths) if not (ROOT / "tests" / name).exists()] == []


def test_ci_knows_how_long_every_part_takes_and_has_time_for_all():
    minutes, known = (int(re.search(rf"^{name}=(\d+)$", SCRIPT, re.M)[1]) for name in ("minutes", "known"))
    seconds = re.findall(r"^part (\d+) -e \w+", SCRIPT, re.M)
    assert known + sum(map(int, seconds)) <= 60 * minutes <= 2400


def test_the_workflow_runs_every_python_that_setup_cfg_names_and_the_oldest_keras():
    python, keras = (re.search(rf"^ *{name}: \[(.+)\]", job("versions"), re.M)[1] for name in ("python", "keras"))
    assert re.findall(r"[\d.]+", python) == re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
    assert re.search(r"keras>=(\S+)", SETUP["options"]["install_requires"])[1] in re.findall(r"[\d.]+", keras)
