"""`pytorch_model.bin`, where torch is installed."""

import importlib.util
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.checkpoints.torch_file import TorchFile

pytestmark = pytest.mark.backend

GOLDEN = Path(__file__).parents[1] / "golden" / "bert"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="only torch reads its pickles safely; tox -e torch has it"
)


def test_without_torch_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find_spec(name, *rest))
    with pytest.raises(
        ValueError, match=r"which only torch can read safely: install it \(pip install torch\), or save the model as"
    ):
        TorchFile(tmp_path / "pytorch_model.bin")


@needs_torch
@pytest.mark.parametrize("zipped", [True, False])
def test_all_versions_of_the_file_format_hold_the_same_values(tmp_path, zipped):
    import torch

    arrays = load_file(GOLDEN / "model.safetensors")
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    tensors["embeddings.position_ids"] = torch.arange(24)[None]
    torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    shutil.copy(GOLDEN / "config.json", tmp_path)
    source = TorchFile(tmp_path / "pytorch_model.bin")
    for name, array in arrays.items():
        assert (source.shape(name), source.dtype(name)) == (array.shape, "float32")
        np.testing.assert_array_equal(source.read(name), array)
    report = from_pretrained(tmp_path).load_report
    assert report.ignored == ["embeddings.position_ids"]
    (tmp_path / "pytorch_model.bin").write_bytes((tmp_path / "pytorch_model.bin").read_bytes()[:1000])
    with pytest.raises(ValueError, match="is not a PyTorch state dictionary, or is damaged"):
        from_pretrained(tmp_path)


@needs_torch
def test_bfloat16_is_read_as_float32(tmp_path):
    import torch

    torch.save({"a": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}, tmp_path / "pytorch_model.bin")
    source = TorchFile(tmp_path / "pytorch_model.bin")
    assert source.dtype("a") == "bfloat16"
    np.testing.assert_array_equal(source.read("a"), np.array([1.5, -2.0], "float32"))


@needs_torch
def test_parameters_are_read_like_other_tensors(tmp_path):
    import torch

    torch.save({"a": torch.nn.Parameter(torch.ones(3))}, tmp_path / "pytorch_model.bin")
    np.testing.assert_array_equal(TorchFile(tmp_path / "pytorch_model.bin").read("a"), np.ones(3, "float32"))


@needs_torch
def test_arrays_do_not_share_the_memory_of_the_file(tmp_path):
    import torch

    torch.save({"a": torch.ones(3)}, tmp_path / "pytorch_model.bin")
    source = TorchFile(tmp_path / "pytorch_model.bin")
    assert not np.shares_memory(source.read("a"), source.read("a"))


@needs_torch
def test_files_with_an_index_hold_the_same_as_one(tmp_path):
    import torch

    arrays = load_file(GOLDEN / "model.safetensors")
    files = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(arrays)}
    for file in set(files.values()):
        torch.save({name: torch.tensor(array) for name, array in arrays.items() if files[name] == file}, tmp_path / file)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
    shutil.copy(GOLDEN / "config.json", tmp_path)
    for path in (tmp_path, index):
        for one, other in zip(from_pretrained(GOLDEN).weights, from_pretrained(path).weights, strict=True):
            np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))
    torch.save({next(iter(arrays)): torch.zeros(2)}, tmp_path / "pytorch_model-00002-of-00002.bin")
    with pytest.raises(ValueError, match="is in two of the files listed in"):
        TorchFile(index)
    (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(ValueError, match=r"expected a PyTorch file at .*pytorch_model-00002-of-00002.bin; it does not exist"):
        from_pretrained(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.bin"}}))
    with pytest.raises(ValueError, match=r"lists \.\./elsewhere.bin, which is outside its folder"):
        from_pretrained(tmp_path)


class Filled:
    """Unpickled, it takes three gigabytes: torch allows a bytearray of any size."""

    def __reduce__(self):
        return (bytearray, (3 << 30,))


@needs_torch
@pytest.mark.parametrize("zipped", [True, False])
def test_a_number_that_would_allocate_memory_is_refused(tmp_path, zipped):
    import torch

    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Filled()}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"pytorch_model.bin .*: expected tensors; found a bytearray\."):
        TorchFile(path)


@needs_torch
@pytest.mark.parametrize("zipped", [True, False])
def test_a_list_of_tensors_that_is_too_long_is_refused_before_it_is_read(tmp_path, zipped):
    import torch

    path = tmp_path / "pytorch_model.bin"
    torch.save(dict.fromkeys(map(str, range(500_000))), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"the list of tensors.* must have at most 4,194,304 bytes"):
        TorchFile(path)
