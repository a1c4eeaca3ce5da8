"""Users' files are regular ones, with values of expected types, below limits that have a reason; or an error of one sentence."""

import math
import os
import runpy
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import LIMITS, all_finite, check_limit, is_number, limit
from keras_bert_rebuild.files.reading import check_regular, check_values, is_of_type, parse_json, read_bytes, read_text, value_of


def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        for path, kind in ((tmp_path / "pipe", "a named pipe"), (tmp_path / "link", "a named pipe"), (tmp_path / "s", "a socket")):
            with pytest.raises(ValueError, match=f"expected a file at .*; it is {kind}"):
                read_bytes(path, "json_bytes")
    with pytest.raises(ValueError, match="it is a folder"):
        check_regular(tmp_path)
    with pytest.raises(ValueError, match="it is a device"):
        check_regular("/dev/zero")
    with pytest.raises(ValueError, match=r"a\\x00b is not a file name"):
        check_regular("a\0b")


def test_a_link_to_a_file_and_a_file_that_is_not_there_pass(tmp_path):
    (tmp_path / "file").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert check_regular(tmp_path / "link") == 3
    assert check_regular(tmp_path / "none") == 0
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none", "json_bytes")


def test_a_file_above_the_limit_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(ValueError, match=r"large must have at most 67,108,864 bytes; got 1,099,511,627,776\."):
        read_bytes(tmp_path / "large", "json_bytes")


def test_another_encoding_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{}", encoding="utf-16")
    with pytest.raises(ValueError, match=r"a\.json must be JSON in UTF-8; byte 0 is not; it begins like UTF-16\."):
        read_text(tmp_path / "a.json", "json_bytes", "JSON")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "f must be JSON in UTF-8: Expecting property name"),
        ("[" * 65 + "]" * 65, "the nesting of f must have at most 64 levels; got 65"),
        ('{"a":' * 65 + "1" + "}" * 65, "must have at most 64 levels"),
        ("[" * 200_000, "f must be JSON in UTF-8: maximum recursion depth"),
        ("9" * 5000, "Exceeds the limit"),
        ("[" + "[]," * 6_000_001 + "1]", r"f must have at most 6,000,000 values; got 12,000,00\d"),
    ],
)
def test_deep_long_and_broken_texts_are_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_json(text, "f")
    assert "\n" not in str(error.value)


def test_json_within_the_limits_is_read():
    assert parse_json("[" * 64 + "]" * 64, "f") is not None
    assert parse_json('{"a": [1, NULL]}'.replace("NULL", "null"), "f") == {"a": [1, None]}


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
