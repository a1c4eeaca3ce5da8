"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil
import re

import keras
import pytest

import keras_bert_rebuild

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
