"""The environment is the one that the suite thinks it is."""

import importlib.util
import os


def test_tensorflow_is_not_installed_where_the_suite_says_so():
    if os.environ.get("WITHOUT_TENSORFLOW"):
        assert importlib.util.find_spec("tensorflow") is None
    else:
        assert os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow" or importlib.util.find_spec("keras")
