"""Arrays that are mapped: as NumPy wrote them, or an error of one sentence, whatever the header is."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from keras_bert_rebuild.files.npy import mapped_array

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
