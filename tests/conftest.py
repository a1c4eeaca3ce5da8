"""Fixtures of all tests."""

import gc
import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pytest
from hypothesis import settings

import keras_bert_rebuild  # noqa: F401  registers the layers

# Direct comparison with a peer runs where the peer is: tox -e parity. Its golden files are compared everywhere.
collect_ignore_glob = [] if importlib.util.find_spec("transformers") else ["parity/*"]

# The first example compiles; and a suite that fails should fail again.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")

# After every test Keras collects garbage; what is imported by now is none.
gc.collect()
gc.freeze()


def pytest_collection_modifyitems(items):
    """Leave the TensorFlow tests out on the other backends."""
    if keras.backend.backend() == "tensorflow":
        return
    items[:] = [item for item in items if "tensorflow" not in item.keywords]


@pytest.fixture(autouse=True)
def _fresh_state():
    """The same seed and float32 for every test."""
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(7)
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


@pytest.fixture
def rng():
    return np.random.default_rng(11)
