"""Models of transformers read here, and our models read by transformers."""

import cases
import numpy as np
import pytest
import torch
import transformers
from helpers.run_model import answers
from safetensors.numpy import load_file

from keras_bert_rebuild import from_pretrained, save_pretrained


@pytest.fixture(params=cases.CASES)
def theirs(request):
    return cases.make_model(request.param)


def test_outputs_agree(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    ours = from_pretrained(tmp_path)
    real = ids != theirs.config.pad_token_id
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), answers(ours, ids, segments), strict=True):
        if expected.shape[:2] == ids.shape:
            expected, got = expected[real], got[real]
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_written_files_equal_the_files_that_were_read(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    save_pretrained(from_pretrained(tmp_path / "theirs"), tmp_path / "ours")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours"))
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert array.dtype == after[name].dtype
        assert array.tobytes() == after[name].tobytes(), name


def test_transformers_reads_what_is_written(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    save_pretrained(from_pretrained(tmp_path / "theirs"), tmp_path / "ours")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert config.architectures == [type(theirs).__name__]
    again, info = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, segments = cases.make_inputs(theirs)
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), cases.outputs_of(again.eval(), ids, segments), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_shards_and_pickles_hold_the_same(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size=3000)
    (tmp_path / "bin").mkdir()
    theirs.config.save_pretrained(tmp_path / "bin")
    torch.save(theirs.state_dict(), tmp_path / "bin" / "pytorch_model.bin")
    one, *others = (from_pretrained(tmp_path / folder) for folder in ("one", "many", "bin"))
    for other in others:
        for a, b in zip(one.weights, other.weights, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
