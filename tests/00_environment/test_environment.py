"""Collected first: the environment is the one that the suite expects, and its marks choose what they say."""

import importlib.util
import os

import keras
import pytest
from helpers.other_process import quick_flags


@pytest.mark.backend
def test_tensorflow_is_not_installed_where_the_suite_says_so():
    assert importlib.util.find_spec("tensorflow") is None or "WITHOUT_TENSORFLOW" not in os.environ


@pytest.mark.backend
def test_the_backend_is_the_chosen_one():
    assert keras.backend.backend() == os.environ.get("KERAS_BACKEND", "tensorflow")


# The compiler options of the tests are known to the installed version of XLA.


@pytest.mark.parametrize(
    ("version", "options"), [("0.6.2", 2), ("0.10.2", 2), ("0.11.0", 1), ("0.12.0.1", 1), ("1.0", 1), (None, 2)]
)
def test_options_that_a_version_does_not_know_are_left_out(version, options):
    assert len(quick_flags(version).split()) == options


# The marks choose what they say: see [tool:pytest] in setup.cfg.


@pytest.mark.parametrize("case", ["first", "second"])
def test_first_cases_leaves_out_further_ones(case, pytestconfig):
    assert case == "first" or not pytestconfig.getoption("--first-cases")


@pytest.mark.backend(all_cases=True)
@pytest.mark.parametrize("case", ["first", "second"])
def test_first_cases_retains_those_of_a_test_that_asks_for_it(case, request):
    cases = {item.name for item in request.session.items if item.originalname == request.node.originalname}
    assert len(cases) == 2 or len(request.session.items) == 1


def test_a_test_of_one_backend_runs_on_that_one(request):
    for item in request.session.items:
        for mark in item.iter_markers("backend"):
            assert not mark.args or keras.backend.backend() in mark.args, item
