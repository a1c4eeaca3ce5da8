"""Fixtures of all tests."""

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# A test that means a path and gives a name of the hub asks nobody. The client reads this when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"
# On a GPU the processes of pytest, and those that tests start, share its memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Verbs that are tested keep no compiled programs in the cache folder of the user. Processes of pytest inherit the name.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="keras-bert-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

if os.environ.get("QUICK_COMPILER") == "1":
    from helpers.other_process import QUICK

    os.environ.setdefault("XLA_FLAGS", QUICK)

import keras
import numpy as np
import pytest
from hypothesis import settings

import keras_bert_rebuild  # noqa: F401  registers the layers
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.device_settings import set_matmul_precision

# Digits are compared: a GPU shall multiply float32 as a processor does. On JAX a precision is part of every program, also where it
# changes nothing, so there a processor keeps its default.
EXACT_PRODUCTS = keras.backend.backend() != "jax" or traits.runs_on_accelerator()
if EXACT_PRODUCTS:
    set_matmul_precision("highest")
    os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"  # for processes that tests start

# A shell that starts the suite in the background makes it ignore interrupts, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Direct comparison with a peer runs where the peer is installed: tox -e parity. Golden files are compared everywhere.
collect_ignore_glob = [] if importlib.util.find_spec("transformers") else ["parity/*"]

# The first example compiles; and a suite that fails should fail again.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")


def freeze():
    """Keras collects garbage after every test: it need not look at permanent objects again."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    """The modules and tests themselves."""
    freeze()


def pytest_addoption(parser):
    parser.addoption("--first-cases", action="store_true", help="the first case of every parametrized test")


def first_cases(items):
    """The first case of every test, and all of those that ask for it."""
    cases = {}
    for item in items:
        every = any(mark.kwargs.get("all_cases") for mark in item.iter_markers("backend"))
        cases.setdefault((item.path, item.cls, item.name if every else item.originalname), item)
    return cases.values()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other backends; run slow ones first, so that no process waits for another's last test."""
    backend = keras.backend.backend()
    selected = [item for item in items if all(backend in (mark.args or [backend]) for mark in item.iter_markers("backend"))]
    if config.getoption("--first-cases"):
        selected = first_cases(selected)
    config.hook.pytest_deselected(items=[*{*items}.difference(selected)])
    items[:] = sorted(selected, key=lambda item: "slow" not in item.keywords)


@pytest.fixture(autouse=True, scope="module")
def _frozen_after_a_module():
    """What remains when the fixtures of a module are gone: lazy imports, compiled programs."""
    yield
    freeze()


@pytest.fixture(autouse=True)
def _fresh_state():
    """The same seed and float32 for every test, also after one, or a peer, that had set another."""
    keras.config.set_dtype_policy("float32")
    if EXACT_PRODUCTS:
        set_matmul_precision("highest")
    keras.utils.set_random_seed(7)
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


@pytest.fixture
def rng():
    return np.random.default_rng(11)
