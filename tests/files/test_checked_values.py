"""Values from files against types: which are of a type, and the sentence for those that are not."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.files.checked_values import check_values, is_of_type, value_of

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
