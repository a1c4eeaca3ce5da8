"""Collected first: the environment is the one that the suite expects."""

import importlib.util
import os

import keras
import pytest

pytestmark = pytest.mark.backend


def test_tensorflow_is_not_installed_where_the_suite_says_so():
    assert importlib.util.find_spec("tensorflow") is None or "WITHOUT_TENSORFLOW" not in os.environ


def test_the_backend_is_the_chosen_one():
    assert keras.backend.backend() == os.environ.get("KERAS_BACKEND", "tensorflow")
