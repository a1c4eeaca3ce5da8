"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import keras
import pytest

import keras_bert_rebuild

# Modules that import a backend are tested on that backend.
BACKENDS = {
    "models.checked_tf_dataset": "tensorflow",
    "kernels.jax_dropout": "jax",
    "kernels.jax_asynchronous": "jax",
    "kernels.jax_dense": "jax",
    "kernels.jax_devices": "jax",
    "kernels.jax_products": "jax",
    "kernels.jax_flash": "jax",
    "kernels.jax_flash_blocks": "jax",
    "kernels.jax_flash_kernels": "jax",
    "kernels.jax_flash_merged": "jax",
    "kernels.jax_trials": "jax",
    "kernels.jax_norm": "jax",
    "kernels.jax_gradients": "jax",
    "kernels.jax_kernels": "jax",
    "kernels.jax_segments": "jax",
    "kernels.torch_asynchronous": "torch",
    "training.distributed.jax_hosts": "jax",
    "kernels.tensorflow_adam": "tensorflow",
    "kernels.tensorflow_dropout": "tensorflow",
    "kernels.tensorflow_gradients": "tensorflow",
    "kernels.tensorflow_kernels": "tensorflow",
    "kernels.tensorflow_norm": "tensorflow",
    "kernels.tensorflow_pipelines": "tensorflow",
    "kernels.torch_adam": "torch",
    "kernels.torch_gradients": "torch",
    "kernels.torch_graphs": "torch",
    "kernels.torch_kernels": "torch",
    "kernels.tensorflow_replicas": "tensorflow",
    "recipes.planning.device_compiler": "jax",
}
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(keras_bert_rebuild.__path__, "keras_bert_rebuild.")
    if BACKENDS.get(m.name.removeprefix("keras_bert_rebuild.")) in (None, keras.backend.backend())
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    assert sum(bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) >= 10
