"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import keras_bert_rebuild

# Imports TensorFlow, and has no example.
LEFT_OUT = {"keras_bert_rebuild.models.checked_tf_dataset"}
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(keras_bert_rebuild.__path__, "keras_bert_rebuild.") if m.name not in LEFT_OUT
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    assert sum(bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) >= 10
