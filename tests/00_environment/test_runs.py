"""The marks choose what they say: see [tool:pytest] in setup.cfg."""

import keras
import pytest


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
