"""TensorFlow checkpoints read without TensorFlow."""

import errno
import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from keras_bert_rebuild.checkpoints import leveldb_table
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint, write_tensorflow_checkpoint

pytestmark = pytest.mark.backend

_spec = importlib.util.spec_from_file_location("write_checkpoint", Path(__file__).with_name("write_checkpoint.py"))
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
write_checkpoint = _module.write_checkpoint


@pytest.fixture
def arrays(rng):
    names = [f"bert/encoder/layer_{i}/{part}/kernel" for i in range(6) for part in ("query", "key", "value")]
    arrays = {name: rng.normal(size=(3, 4)).astype("float32") for name in names}
    return {
        **arrays,
        "global_step": np.array(7, "int64"),
        "empty": np.zeros((0, 3), "float32"),
        "a/vector": np.arange(300, dtype="int32"),
    }


@pytest.fixture
def prefix(tmp_path, arrays):
    write_checkpoint(tmp_path / "model.ckpt", arrays)
    return tmp_path / "model.ckpt"


def test_every_array_is_read(prefix, arrays):
    checkpoint = TensorFlowCheckpoint(prefix)
    assert checkpoint.names == sorted(arrays)
    for name, array in arrays.items():
        assert checkpoint.shape(name) == array.shape
        got = checkpoint.read(name)
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001", ".meta", None])
def test_a_checkpoint_is_found_by_its_folder_or_any_of_its_files(prefix, ending):
    path = prefix.parent if ending is None else f"{prefix}{ending}"
    assert TensorFlowCheckpoint(path).prefix == prefix


def test_a_missing_file_is_one_sentence(tmp_path, prefix):
    with pytest.raises(ValueError, match="expected a checkpoint at"):
        TensorFlowCheckpoint(tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match="expected a folder with one checkpoint"):
        TensorFlowCheckpoint(Path(__file__).parent)
    prefix.with_name(prefix.name + ".data-00000-of-00001").unlink()
    with pytest.raises(ValueError, match="which is missing"):
        TensorFlowCheckpoint(prefix).read("a/vector")


def test_a_short_data_file_is_one_sentence(prefix):
    data = prefix.with_name(prefix.name + ".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-100])
    checkpoint = TensorFlowCheckpoint(prefix)
    last = checkpoint.names[-1]
    with pytest.raises(ValueError, match=f"is damaged: {last}"):
        checkpoint.read(last)


def test_an_unsupported_dtype_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"stores float32, .*; a/vector is bfloat16: choose another dtype"):
        write_tensorflow_checkpoint(tmp_path / "model.ckpt", [("a/vector", np.ones(3, ml_dtypes.bfloat16))])


def test_a_changed_byte_of_the_index_is_noticed(prefix):
    index = prefix.with_name(prefix.name + ".index")
    content = bytearray(index.read_bytes())
    content[20] ^= 4
    index.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is damaged: a checksum does not match"):
        TensorFlowCheckpoint(prefix)


@pytest.mark.parametrize("checksums", [True, False])
def test_damaged_files_are_refused_or_read_and_never_crash(prefix, checksums, monkeypatch):
    index = prefix.with_name(prefix.name + ".index")
    good = index.read_bytes()
    if not checksums:  # as if somebody had made the checksums agree
        monkeypatch.setattr(leveldb_table, "masked_crc", lambda data: AnyNumber())
    rng = np.random.default_rng(3)
    for _ in range(300):
        bad = bytearray(good)
        kind = rng.integers(3)
        if kind == 0:
            bad = bad[: rng.integers(len(bad))]
        else:
            for at in rng.integers(0, len(bad), rng.integers(1, 4)):
                bad[at] = rng.integers(256)
        index.write_bytes(bytes(bad))
        try:
            checkpoint = TensorFlowCheckpoint(prefix)
            for name in checkpoint.names:
                checkpoint.read(name)
        except ValueError:
            pass


class AnyNumber:
    """Equals every number."""

    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.backend("tensorflow")
def test_a_checkpoint_that_tensorflow_wrote_is_read_as_tensorflow_reads_it(tmp_path, arrays):
    import tensorflow as tf

    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "tf.ckpt"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=[arrays[n] for n in names]
    )
    theirs, ours = tf.train.load_checkpoint(str(tmp_path / "tf.ckpt")), TensorFlowCheckpoint(tmp_path / "tf.ckpt")
    assert ours.names == sorted(theirs.get_variable_to_shape_map())
    for name in ours.names:
        np.testing.assert_array_equal(ours.read(name), theirs.get_tensor(name))


@pytest.mark.backend("tensorflow")
def test_tensorflow_reads_what_the_tests_write(prefix, arrays):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    assert reader.get_variable_to_shape_map() == {name: list(array.shape) for name, array in arrays.items()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error_that_says_so(tmp_path):
    (tmp_path / "a.ckpt.data-00000-of-00001").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        write_tensorflow_checkpoint(tmp_path / "a.ckpt", [("kernel", np.zeros((100, 100), "float32"))])
    assert caught.value.errno == errno.ENOSPC
