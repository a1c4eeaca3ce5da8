"""The examples run and print what they promise."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_summary_prints_the_totals_of_its_docstring(capsys):
    module = load("01_summary.py")
    module.main()
    assert module.__doc__.split("then\n")[1].strip("\n") in capsys.readouterr().out


def test_toy_sentences_are_learnt():
    assert load("02_toy_sentences.py").main() >= 0.9


def test_a_classifier_learns():
    assert load("03_classifier.py").main() >= 0.85


def test_text_becomes_batches_that_can_be_made_again():
    assert load("04_text_to_batches.py").main() == (True, "unaffable")


def test_every_example_states_command_time_and_expected_output():
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert f"Command: python examples/{path.name}\nTime: " in text
        assert "Expected output: " in text
        assert len(text.splitlines()) <= 80
