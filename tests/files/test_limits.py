"""Every limit is a number with a reason, and is used somewhere; finite numbers, and nothing else that looks like one."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import LIMITS, all_finite, check_limit, is_number, limit

ROOT = Path(__file__).parents[2]
TABLE = runpy.run_path(str(ROOT / "docs" / "hooks" / "pages.py"))["limits_table"]()


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_stated_once_used_and_in_the_table_of_the_site(name):
    number, unit, why = LIMITS[name]
    assert number > 0
    assert unit
    assert why
    sources = [path for part in ("keras_bert_rebuild", "tests/hostile") for path in (ROOT / part).rglob("*.py")]
    of_config = name in BertConfig.__dataclass_fields__  # used by the name of the field
    used = of_config or [path for path in sources if path.name != "limits.py" and f'"{name}"' in path.read_text(encoding="utf-8")]
    assert used, f"nothing asks for {name}"
    assert f"| `{name}` | {number:,} {unit} | {why} |\n" in TABLE


def test_values_at_a_limit_pass_and_values_above_are_one_sentence():
    check_limit("yaml_depth", limit("yaml_depth"), "a.yaml")
    with pytest.raises(ValueError, match=r"^a\.yaml must have at most 32 levels; got 33\.$"):
        check_limit("yaml_depth", 33, "a.yaml")
    with pytest.raises(ValueError, match=r"got a number of 3\d\d hexadecimal digits"):
        check_limit("vocab_size", 10**400, "vocab_size")


@pytest.mark.parametrize("value", [0, -1.5, 10**300, np.float32(2), np.int64(3)])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", 1j, math.nan, math.inf, 10**400, np.float32("nan")])
def test_what_is_no_finite_number(value):
    assert not is_number(value)


def test_one_value_makes_an_array_not_finite():
    array = np.full((3, 4), 1e38, "float32")
    assert all_finite(array)
    for value in (np.nan, np.inf, -np.inf):
        array[1, 2] = value
        assert not all_finite(array)
    assert not all_finite(np.array([np.inf, -np.inf], "float16"))
