"""Everything that a saved file may name is registered with Keras once the package is imported."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_bert_rebuild
from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.training.losses import Perplexity, PretrainingLoss

pytestmark = pytest.mark.backend

PACKAGE = Path(keras_bert_rebuild.__file__).parent


def fresh(code, *arguments):
    """The JSON that a new process prints in its last line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def registered_name(decorator, definition):
    """The name under which a decorator registers a class or a function, or None if it does not."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) != "register_keras_serializable":
        return None
    arguments = [*decorator.args, None, None][:2] if isinstance(decorator, ast.Call) else [None, None]
    given = {"package": arguments[0], "name": arguments[1]}
    given |= {keyword.arg: keyword.value for keyword in getattr(decorator, "keywords", [])}
    package, name = (ast.literal_eval(value) if value is not None else None for value in given.values())
    return f"{package or 'Custom'}>{name or definition.name}"


def registrations(tree):
    """Every registered name of a file."""
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", []):
            if (name := registered_name(decorator, node)) is not None:
                yield name


def mentions(tree):
    """How often a file mentions Keras's function."""
    names = (getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(tree))
    return sum(name == "register_keras_serializable" for name in names)


def test_registrations_are_found_in_every_spelling():
    source = """
@keras.saving.register_keras_serializable(package="a")
class One: ...
@saving.register_keras_serializable("b", name="Other")
class Two: ...
@register_keras_serializable()
def three(): ...
@dataclass
class Four: ...
"""
    assert list(registrations(ast.parse(source))) == ["a>One", "b>Other", "Custom>three"]


@pytest.mark.slow(torch=True)
def test_a_new_process_that_imports_the_package_finds_every_registration():
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    names = {name for tree in trees for name in registrations(tree)}
    assert len(names) == sum(map(mentions, trees)) > 30  # nothing is registered in another way or twice
    assert {"keras_bert_rebuild>Perplexity", "keras_bert_rebuild>TokenEmbedding", "keras_bert_rebuild>gelu"} <= names
    code = (
        "import json, sys, keras, keras_bert_rebuild\n"
        "found = {name: keras.saving.get_registered_object(name) for name in json.loads(sys.argv[1])}\n"
        "print(json.dumps({name: value and value.__name__ for name, value in found.items()}))"
    )
    found = fresh(code, json.dumps(sorted(names)))
    assert found == {name: name.partition(">")[2] for name in names}


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.slow(torch=True)
def test_a_new_process_loads_a_model_compiled_with_perplexity(tmp_path, ending):
    config = BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=6
    )
    model = build_model(config, heads=["mlm"])
    model.compile(optimizer="sgd", loss=PretrainingLoss(), metrics=[Perplexity()])
    inputs = [np.arange(1, 7)[None] % 11, np.zeros((1, 6), "int32"), np.ones((1, 6), "int32")][: len(model.inputs)]
    labels = np.arange(6)[None]
    expected = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    model.save(tmp_path / f"model.{ending}")
    code = (
        "import json, sys, numpy as np, keras, keras_bert_rebuild\n"
        "model = keras.models.load_model(sys.argv[1])\n"
        "inputs = [np.array(array) for array in json.loads(sys.argv[2])]\n"
        "print(json.dumps(model.evaluate(inputs, np.arange(6)[None], verbose=0, return_dict=True)))"
    )
    found = fresh(code, tmp_path / f"model.{ending}", json.dumps([array.tolist() for array in inputs]))
    assert set(found) == set(expected) >= {"perplexity"}
    assert found["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-5)
