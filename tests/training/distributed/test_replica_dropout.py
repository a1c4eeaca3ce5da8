"""Two devices drop different values of their parts of a batch, in every layer and every step."""

import json

import keras
import numpy as np
import pytest
from helpers.other_process import finish, start

pytestmark = [
    pytest.mark.backend("jax", "tensorflow"),
    pytest.mark.slow(torch=True),
]


@pytest.fixture(scope="module")
def drawn():
    """The output of `replica_dropout.py`, as arrays by number of devices: steps of layers of parts."""
    code, out, err = finish(start("replica_dropout.py", devices=2))
    assert code == 0, err
    printed = json.loads(out.splitlines()[-1])
    return {kind: [{name: np.array(parts) for name, parts in step.items()} for step in steps] for kind, steps in printed.items()}


@pytest.mark.parametrize("layer", ["dropout", "rows", "attention"])
def test_two_devices_and_two_steps_draw_differently(drawn, layer):
    (a, b), (c, d) = (step[layer] for step in drawn["parts"])
    assert a.shape == b.shape
    assert len(a) == 16
    parts = [a, b, c, d]
    assert not any(np.array_equal(one, other) for i, one in enumerate(parts) for other in parts[:i])
    if layer == "dropout":
        # Half of two independent draws agree.
        agree = [np.mean(one == other) for i, one in enumerate(parts) for other in parts[:i]]
        np.testing.assert_allclose(agree, 0.5, atol=0.2)
        assert {*np.unique(parts)} == {0.0, 2.0}
    if layer == "rows":
        assert all(len(np.unique(row)) == 1 for part in parts for row in part)


@pytest.mark.backend("tensorflow")
def test_a_single_replica_draws_what_is_drawn_without_a_strategy(drawn):
    for one, none in zip(drawn["one"], drawn["none"], strict=True):
        for layer in one:
            np.testing.assert_array_equal(one[layer], none[layer])


@pytest.mark.skipif(keras.config.backend() != "jax", reason="replicas of TensorFlow draw for themselves")
def test_two_devices_of_jax_draw_what_one_draws(drawn):
    for parts, one in zip(drawn["parts"], drawn["one"], strict=True):
        for layer in one:
            np.testing.assert_allclose(np.concatenate(parts[layer]), one[layer][0], rtol=0, atol=1e-5)
