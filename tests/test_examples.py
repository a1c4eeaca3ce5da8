"""The examples run and print their expected output."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import keras
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.slow(torch=True)


def on(backend):
    """An example works on every backend; those that take longest to compile run on torch, which compiles nothing."""
    return pytest.mark.skipif(keras.config.backend() != backend, reason=f"run on {backend}")


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@on("tensorflow")
def test_the_summary_prints_the_totals_of_its_docstring(capsys):
    module = load("01_summary.py")
    module.main()
    assert module.__doc__.split("then\n")[1].strip("\n") in capsys.readouterr().out


@on("tensorflow")
def test_toy_sentences_are_learnt():
    assert load("02_toy_sentences.py").main() >= 0.9


@on("tensorflow")
def test_a_classifier_learns():
    assert load("03_classifier.py").main() >= 0.85


@on("tensorflow")
def test_text_becomes_batches_that_can_be_made_again():
    assert load("04_text_to_batches.py").main() == (True, "unaffable")


@on("tensorflow")
def test_checkpoints_round_trip_through_other_formats():
    assert load("05_checkpoints.py").main() == 0.0


@on("torch")
def test_a_classifier_is_fine_tuned_from_files():
    accuracy, label = load("06_finetune.py").main()
    assert accuracy >= 0.7
    assert label == "keras"


@on("tensorflow")
def test_served_vectors_are_the_same():
    assert load("07_embed_and_serve.py").main() < 1e-5


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


def test_every_example_states_command_time_and_expected_output():
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"^Command: python examples/{path.name}(| \[FOLDER OF A CHECKPOINT\])\nTime: ", text, re.MULTILINE)
        assert "Expected output: " in text
        assert len(text.splitlines()) <= 80
