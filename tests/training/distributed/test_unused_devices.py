"""Choosing several devices and training outside their context warns once, and nothing else does."""

import json

import keras
import pytest
from helpers.other_process import finish, start

from keras_bert_rebuild.models import devices_in_use
from keras_bert_rebuild.training.distributed.distribution import Distribution

BACKEND = keras.config.backend()
KIND = {"tensorflow": "mirrored", "jax": "data"}.get(BACKEND)
on_two_devices = pytest.mark.skipif(BACKEND == "torch", reason="torch trains on one device")


@pytest.fixture(scope="module")
def told():
    """The output of `unused_devices.py`."""
    code, out, err = finish(start("unused_devices.py", devices=2))
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


@on_two_devices
@pytest.mark.slow(torch=True)
def test_a_training_outside_of_the_chosen_devices_warns_at_its_call(told):
    words = "distribute({!r}) was called but not entered, so this model trains on one device and not on 2: build, compile "
    words += "and train it inside `with distribute({!r}):`."
    expected = [[words.format(KIND, KIND), "unused_devices.py"]]
    assert told["forgotten"] == told["kept"] == expected
    if BACKEND == "jax":
        assert told["auto"] == [[words.format("auto", "auto"), "unused_devices.py"]]


@on_two_devices
@pytest.mark.slow(torch=True)
def test_nobody_else_is_warned(told):
    silent = ["nothing chosen", "once", "entered later", "after it", "one device", "entered", "one device entered"]
    silent += ["after pretrain", *(["set by Keras"] if BACKEND == "jax" else [])]
    assert [told[case] for case in silent] == [[]] * len(silent)
    assert "must be a multiple of 2" in told["pretrain"][0]


def test_entering_devices_forgets_what_was_chosen_before():
    devices_in_use.expect_use("data", 8)
    with Distribution("none"):
        assert devices_in_use._waiting == []
