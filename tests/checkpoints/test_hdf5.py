"""Damaged legacy .h5 files."""

import h5py
import numpy as np
import pytest

from keras_bert_rebuild.checkpoints.hdf5 import KerasH5, keras_bert_name

pytestmark = pytest.mark.backend

KERNEL = "layer/layer/kernel:0"


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file.attrs["layer_names"] = [b"layer"]
        file.create_group("layer").attrs["weight_names"] = [b"layer/kernel:0"]
        file.create_dataset(KERNEL, data=np.ones((2, 3), "float32"))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.zeros((2, 3), "float32")
    (tmp_path / "raw").write_bytes(bytes(24))
    return tmp_path / "model.h5"


def linked(file, folder):
    file[KERNEL] = h5py.ExternalLink("other.h5", "/secret")


def raw(file, folder):
    file.create_dataset(KERNEL, (2, 3), "float32", external=[(str(folder / "raw"), 0, 24)])


def virtual(file, folder):
    layout = h5py.VirtualLayout((2, 3), "float32")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (2, 3))
    file.create_virtual_dataset(KERNEL, layout)


def test_an_array_in_the_file_is_read(path):
    source = KerasH5(path, keras_bert_name)
    assert source.names == ["layer/kernel"]
    np.testing.assert_array_equal(source.read("layer/kernel"), np.ones((2, 3), "float32"))


@pytest.mark.parametrize("elsewhere", [linked, raw, virtual])
def test_an_array_in_another_file_is_refused(path, elsewhere):
    with h5py.File(path, "a") as file:
        del file[KERNEL]
        elsewhere(file, path.parent)
    with pytest.raises(ValueError, match=r"model\.h5 has .*kernel.* as a link to another file or name, which is refused"):
        KerasH5(path, keras_bert_name)


def test_a_damaged_architecture_is_one_sentence_with_the_file(path):
    with h5py.File(path, "a") as file:
        file.attrs["model_config"] = "{"
    with pytest.raises(ValueError, match=r"model\.h5 is damaged: "):
        KerasH5(path, keras_bert_name)
