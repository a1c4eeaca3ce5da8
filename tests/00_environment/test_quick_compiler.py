"""The compiler options of the tests are known to the installed version of XLA."""

import pytest
from helpers.quick_compiler import quick_flags


@pytest.mark.parametrize(
    ("version", "options"), [("0.6.2", 2), ("0.10.2", 2), ("0.11.0", 1), ("0.12.0.1", 1), ("1.0", 1), (None, 2)]
)
def test_options_that_a_version_does_not_know_are_left_out(version, options):
    assert len(quick_flags(version).split()) == options
