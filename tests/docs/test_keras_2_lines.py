"""The page on migrating from Keras 2: every old line fails as the page says, and the new line under it runs."""

import re
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "from-keras-2.md").read_text(encoding="utf-8")

# Titles of lines that are refused, and of new ones that run, on these backends alone.
OLD_ON = {
    "TensorFlow's functions in the graph": {"tensorflow"},
    "tensorflow.python.keras": {"tensorflow"},
    "Lists from generators": {"tensorflow"},
    "Batches padded each by itself": {"tensorflow"},
    "A metric that gives one number": {"tensorflow", "torch"},
}
NEW_ON = {"K.gradients": {"tensorflow"}}

# What the page must cover, in its order.
NAMED = (
    ".output_shape",
    "K.function",
    "import keras.backend as K, in a Lambda",
    "model.add_loss(tensor)",
    "Lists from generators",
    "Batches padded each by itself",
    "lr=",
    "K.set_value(optimizer.lr)",
    "Names of weights",
    "A Lambda in a saved file",
    "period=",
    "sample_weight_mode=",
    "tensorflow.python.keras",
    "multi_gpu_model",
    "K.gradients",
)


class Case(NamedTuple):
    """A block of the page."""

    title: str
    old: str
    new: str
    error: str
    """The name of the exception, or several with "or", and behind a colon what it says, with "..." for what is left out."""


def cases():
    found = []
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        title = section.split("\n", 1)[0]
        for diff, error in re.findall(r"^```diff\n(.*?)^```\n\n```text\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL):
            found.append(Case(title, _side(diff, "-"), _side(diff, "+"), error))
    return found


def _side(diff, sign):
    """The program of one side: its own lines and the unchanged ones."""
    lines = [line for line in diff.splitlines() if not line or line[0] in (sign, " ")]
    return "\n".join(line[2:] for line in lines)


CASES = cases()


def run(code, folder, monkeypatch):
    """The names defined after the model of the page and one block of it have run, in a separate folder."""
    monkeypatch.chdir(folder)
    keras.utils.set_random_seed(1)
    namespace = {"__name__": "__main__"}
    (setup,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(setup, "the model of the page", "exec"), namespace)
    exec(compile(code, "a line of the page", "exec"), namespace)
    return namespace


def matches(said, error):
    """Whether an error is the one that the page states."""
    name, _, text = said.partition(": ")
    pattern = ".*".join(re.escape(part.strip()) for part in text.split("..."))
    message = re.sub(r"\x1b\[\d+m", "", str(error))
    return type(error).__name__ in name.split(" or ") and (not text or re.fullmatch(pattern, message, re.DOTALL))


def skip_but_on(backends):
    if backends is not None and keras.config.backend() not in backends:
        pytest.skip(f"the line is of {' and '.join(sorted(backends))}")


# For the order of a generator, and a Lambda that does not support masks, which the page explains.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*shuffle=True"),
    pytest.mark.filterwarnings(r"ignore:[\s\S]*does not support masking"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_an_old_line_is_refused_as_the_page_says(case, tmp_path, monkeypatch):
    skip_but_on(OLD_ON.get(case.title))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(case.old, tmp_path, monkeypatch)
    assert matches(case.error, caught.value), f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_new_line_runs(case, tmp_path, monkeypatch):
    skip_but_on(NEW_ON.get(case.title))
    run(case.new, tmp_path, monkeypatch)


def test_the_page_has_every_required_line():
    titles = [case.title for case in CASES]
    assert {*NAMED} <= {*titles}
    assert {*OLD_ON, *NEW_ON} <= {*titles}


def test_every_block_has_the_error_of_keras_for_the_old_line():
    assert PAGE.count("```diff") == PAGE.count("```text") == len(CASES) > 20
    for title in re.findall(r"^### (.+)$", PAGE, re.MULTILINE):
        assert title in {case.title for case in CASES}


def test_the_new_lines_mean_the_same_as_the_old_ones(tmp_path, monkeypatch):
    new = {case.title: case.new for case in CASES}
    found = run(new[".output_shape"], tmp_path, monkeypatch)
    assert (found["rows"], found["width"]) == (8, 16)
    found = run(new["K.function"], tmp_path, monkeypatch)
    assert found["values"].shape == (4, 8, 16)
    np.testing.assert_array_equal(found["values"], keras.Model(found["inputs"], found["output"]).predict(found["x"]))
    found = run(new["K.set_value(optimizer.lr)"], tmp_path, monkeypatch)
    assert float(found["model"].optimizer.learning_rate) == np.float32(1e-5)
    found = run(new["predict_classes"], tmp_path, monkeypatch)
    assert found["classes"].shape == (4,)
