"""Users' files: only regular ones are opened; JSON and arrays are values, or an error of one sentence."""

import os
import socket
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from keras_bert_rebuild.files.reading import check_regular, mapped_array, parse_json, read_bytes, read_text


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


DTYPES = ["float32", "float16", "int8", "uint16", "uint32", "uint64", "int64"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("arrays") / "values.npy"


@settings(max_examples=60, deadline=None)
@given(
    values=st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_side=0, max_dims=3))), columns=st.booleans()
)
def test_what_numpy_saved_is_mapped(path, values, columns):
    np.save(path, np.asfortranarray(values) if columns else values)
    with open(path, "rb") as file:
        found = mapped_array(file, values.dtype, (None, *values.shape[1:]))
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def saved(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24)


HEADERS = [
    *("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, \n", "{'descr': '<f4', 'fortran_order': False, 'shape': (6L,), }"),
    *("(" * 300, "-" * 9000 + "1", r"{'descr': '\d'}", "'''", "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n"),
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 90 + ",), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }\n",
]


@settings(max_examples=150, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=300), st.binary(max_size=300).map(saved), st.text("{}()'descrshapf4<,: \n").map(str.encode).map(saved)
    )
)
@pytest.mark.filterwarnings("error")
def test_anything_else_is_one_sentence(path, content):
    path.write_bytes(content)
    with open(path, "rb") as file, pytest.raises(ValueError, match=r"^expected .*values\.npy (is damaged|has) .*\.$") as error:
        mapped_array(file, "float32", (3, 2))
    assert "\n" not in str(error.value)


for header in HEADERS:
    test_anything_else_is_one_sentence = example(saved(header.encode()))(test_anything_else_is_one_sentence)


@pytest.mark.parametrize(("dtype", "shape"), [("int32", (3, 2)), ("float32", (2, 3)), ("float32", (6,)), (">f4", (3, 2))])
def test_another_dtype_or_shape_is_refused(path, dtype, shape):
    np.save(path, np.zeros((3, 2), "float32"))
    with (
        open(path, "rb") as file,
        warnings.catch_warnings(action="error"),
        pytest.raises(ValueError, match="expected an array of dtype"),
    ):
        mapped_array(file, dtype, shape)
