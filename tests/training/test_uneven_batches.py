"""A batch that two devices cannot share evenly is refused in one sentence, before a step uses it."""

import json

import keras
import numpy as np
import pytest
from helpers.other_process import finish, start

from keras_bert_rebuild.models.devices_in_use import check_even_batches

pytestmark = pytest.mark.backend

BACKEND = keras.config.backend()
SENTENCE = "a batch must have a multiple of 2 examples, the same number for each device; got {}: choose such a batch "
SENTENCE += "size, and drop an incomplete last batch."
on_two_devices = pytest.mark.skipif(BACKEND == "torch", reason="torch trains on one device")


@pytest.fixture(scope="module")
def tried():
    """The output of `uneven_batches.py`."""
    code, out, err = finish(start("uneven_batches.py", devices=2))
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


@on_two_devices
@pytest.mark.slow(torch=True)
def test_uneven_batches_are_one_sentence(tried):
    uneven = tried["uneven"]
    refused = {case: uneven.pop(case) for case in ("arrays", "a PyDataset", "a generator", "evaluation")}
    refused |= {"validation": uneven.pop("validation data")}
    assert refused == dict.fromkeys(refused, f"ValueError: {SENTENCE.format(3)}") | {
        "validation": f"ValueError: {SENTENCE.format(7)}"
    }
    assert uneven.pop("a validation split") == f"ValueError: {SENTENCE.format(1)}"
    assert tried["empty"] == dict.fromkeys(tried["empty"], f"ValueError: {SENTENCE.format(1)}")
    if BACKEND == "tensorflow":
        assert SENTENCE.format(3) in uneven.pop("a tf.data.Dataset")
        for case, got in uneven.items():  # predictions, and single batches, which every replica gets whole
            np.testing.assert_allclose(got, tried["whole"][case], rtol=0, atol=1e-5)
    else:
        assert uneven == dict.fromkeys(uneven, f"ValueError: {SENTENCE.format(3)}")


@on_two_devices
@pytest.mark.slow(torch=True)
def test_even_batches_take_the_steps_of_one_device(tried):
    for one, two in tried["even"].values():
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("examples", "batch_size", "split", "wrong"),
    [(64, None, 0.0, None), (63, None, 0.0, 31), (64, 7, 0.0, 7), (6, 32, 0.0, None), (20, 8, 0.1, None), (20, 8, 0.25, 7)],
)
def test_arrays_are_judged_by_the_batches_that_keras_will_cut(examples, batch_size, split, wrong):
    x = {"ids": np.zeros((examples, 3)), "segments": None}
    check_even_batches(1, x, batch_size, split)
    if wrong is None:
        check_even_batches(2, x, batch_size, split)
    else:
        with pytest.raises(ValueError, match=f"a multiple of 2 examples.*; got {wrong}:"):
            check_even_batches(2, x, batch_size, split)
