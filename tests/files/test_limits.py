"""Every limit is a number with a reason, and is used somewhere; values of other types than expected are one sentence."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import LIMITS, all_finite, check_limit, check_values, is_number, is_of_type, limit, value_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_stated_once_used_and_in_the_page(name):
    number, unit, why = LIMITS[name]
    assert number > 0
    assert unit
    assert why
    sources = [path for part in ("keras_bert_rebuild", "tests/hostile") for path in (ROOT / part).rglob("*.py")]
    of_config = name in BertConfig.__dataclass_fields__  # used by the name of the field
    used = of_config or [path for path in sources if path.name != "limits.py" and f'"{name}"' in path.read_text(encoding="utf-8")]
    assert used, f"nothing asks for {name}"
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {number:,} {unit} | {why} |\n" in page


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


# A type, values of it, and values that are not.
TYPES = [
    (int, [0, -1, 2**63 - 1, np.int64(3)], [True, 1.0, "1", None, 2**63, -(2**63)]),
    (float, [0, 0.5, -3, np.float32(1)], [float("inf"), float("nan"), 10**400, True, "0.5", None]),
    (bool, [True, False], [0, 1, "true", None]),
    (str, ["", "x"], [0, None, ["x"], b"x"]),
    (dict, [{}, {"a": 1}], [[], None, "x"]),
    (list[str], [[], ["a"]], [["a", 1], "ab", {"a": 1}, None]),
    (Sequence[float], [[], (0.5, 1)], [[None], [True], "12", 1.0]),
    (tuple[int, str], [[1, "a"]], [[1], [1, "a", 2], ["a", 1]]),
    (tuple[int, ...], [[], [1, 2]], [["a"], 1]),
    (Mapping[str, str | None], [{}, {"a": None}], [{"a": 1}, ["a"]]),
    (int | None, [None, 1], ["", 0.5]),
    (Literal["max", "sum"], ["max"], ["min", 1, None, []]),
    (Any, [None, 1, []], []),
]


@pytest.mark.parametrize(("expected", "right", "wrong"), TYPES, ids=[str(row[0]) for row in TYPES])
def test_a_value_is_of_a_type_or_not(expected, right, wrong):
    assert [value for value in right if not is_of_type(value, expected)] == []
    assert [value for value in wrong if is_of_type(value, expected)] == []


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (int | None, "a whole number"),
        (float, "a number"),
        (bool, "true or false"),
        (str | list[str], "a text or a list of texts"),
        (Sequence[float], "a list of numbers"),
        (tuple[int, str], "a list of 2 values"),
        (list[list[int]], "a list of lists of whole numbers"),
        (dict[str, bool], "true or false by name"),
        (dict | Literal[False], "an object or False"),
    ],
)
def test_the_sentence_says_file_key_type_and_value(expected, words):
    with pytest.raises(ValueError, match=rf"^a\.json must have {words} as width; got b'x'\.$"):
        value_of({"width": b"x"}, "width", expected, "a.json")


def test_a_missing_value_and_null_are_the_default_and_a_required_one_is_missed():
    assert value_of({"a": None}, "a", int, "a.json", 3) == value_of({}, "a", int, "a.json", 3) == 3
    with pytest.raises(ValueError, match=r"a\.json must have a text as name; it has none\."):
        check_values({}, {"name": str}, "a.json", required=["name"])


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_value_gets_an_answer(value):
    for expected, _, _ in TYPES:
        assert is_of_type(value, expected) in (True, False)
