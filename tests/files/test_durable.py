"""A file is complete, unchanged or absent, whoever else writes it."""

import contextlib
import errno
import os
import stat
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from keras_bert_rebuild.files.durable import mapped_array, naming_full_disk, write_file, write_text, written_file


def test_after_an_error_nothing_has_changed(tmp_path):
    (tmp_path / "a").write_text("before")
    with contextlib.suppress(EOFError), written_file(tmp_path / "a") as file:
        file.write(b"half")
        raise EOFError
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]


def test_a_link_planted_at_the_name_of_old_partial_files_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.writing").symlink_to("mine")
    (tmp_path / "a").symlink_to("mine")
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "a").is_symlink()


def test_partial_files_of_killed_writers_are_removed_and_other_files_stay(tmp_path):
    for name in (".a.0abcdef_.writing", ".a.b.0abcdef_.writing", ".a.note.writing"):
        (tmp_path / name).write_text("")
    write_text(tmp_path / "a", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.b.0abcdef_.writing", ".a.note.writing", "a"]


def test_a_file_keeps_its_permissions_and_a_new_one_has_the_default(tmp_path):
    (tmp_path / "a").write_text("")
    (tmp_path / "a").chmod(0o600)
    (tmp_path / "usual").write_text("")
    for name in ("a", "b"):
        write_text(tmp_path / name, "new")
    rights = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "b", "usual")]
    assert rights == [0o600, rights[2], rights[2]]


def test_a_full_disk_is_named_as_such(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device while writing .*a\.npy"):
        write_file(tmp_path / "a.npy", lambda file: file.write(b"1"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="while writing inner") as caught, naming_full_disk("outer"), naming_full_disk("inner"):
        raise OSError("HDF5: errno = 28, No space left on device")
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="other"), naming_full_disk("a"):
        raise OSError(errno.EIO, "other")


def _said_below_a_limit(path, rows, name, most):
    """The number and words of the error of a write under a limit of the system; None if the array is written."""
    import resource

    path.write_bytes(b"before")
    before = resource.getrlimit(getattr(resource, name))
    resource.setrlimit(getattr(resource, name), (most, before[1]))
    try:
        write_file(path, lambda file: np.save(file, np.ones((rows, 10), "uint8")))
    except OSError as error:
        return error.errno, error.strerror
    finally:
        resource.setrlimit(getattr(resource, name), before)


WITH_LIMITS = pytest.mark.skipif(os.name != "posix", reason="only POSIX has these limits")


@WITH_LIMITS
@settings(max_examples=30, deadline=None)
@given(rows=st.integers(0, 3000), most=st.integers(10, 20_000))
def test_an_array_is_written_whole_or_the_limit_of_the_system_is_named(tmp_path_factory, rows, most):
    path = tmp_path_factory.mktemp("limits") / "a.npy"
    said = _said_below_a_limit(path, rows, "RLIMIT_FSIZE", most)
    if 128 + 10 * rows <= most:
        assert said is None
        np.testing.assert_array_equal(np.load(path), np.ones((rows, 10), "uint8"))
    else:
        assert said == (errno.EFBIG, f"{os.strerror(errno.EFBIG)} while writing {path}")
        assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


@WITH_LIMITS
def test_too_many_open_files_are_named(tmp_path):
    said = _said_below_a_limit(tmp_path / "a.npy", 3, "RLIMIT_NOFILE", 4)
    assert said == (errno.EMFILE, f"{os.strerror(errno.EMFILE)} while writing {tmp_path / 'a.npy'}")


def test_half_a_surrogate_pair_is_escaped_as_in_json(tmp_path):
    write_text(tmp_path / "a.json", '"\udc80 é"')
    assert (tmp_path / "a.json").read_bytes() == rb'"\udc80 ' + "é".encode() + b'"'


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file"):
        write_text(tmp_path / "no" / "a", "")


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
