"""What is known of a GPU that is only compiled for."""

import keras
import pytest
from helpers.pretended_device import PROCESSOR, pretend

pytestmark = pytest.mark.backend("jax")


def test_a_gpu_that_is_only_compiled_for_has_the_kernels_of_its_generation_without_a_trial(monkeypatch):
    from keras_bert_rebuild.kernels import jax_devices, jax_trials

    pretend(monkeypatch, PROCESSOR)
    monkeypatch.setattr(jax_trials, "_fault", lambda *_: pytest.fail("a trial cannot run"))
    query = keras.KerasTensor((2, 16, 2, 32), "bfloat16")

    def kernels():
        jax_trials.flash_is_right.cache_clear()
        return jax_devices.is_on_cuda(), jax_trials.has_flash(query, 0.1)

    assert kernels() == (False, False)
    with jax_devices.compiling_for_cuda(9.0):
        assert kernels() == (True, True)
        with jax_devices.compiling_for_cuda(7.0):
            assert kernels() == (True, False)
        assert kernels() == (True, True)
    assert kernels() == (False, False)
