"""A training resumed from a checkpoint ends with the bits of one that was never stopped."""

import shutil

import keras
import numpy as np
import pytest
from helpers.exhaustive import EXHAUSTIVE
from helpers.pretraining_run import make_model, train
from helpers.small import compiled, small_model

from keras_bert_rebuild.kernels.traits import draws_dropout_from_the_process
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds
from keras_bert_rebuild.training.state.train_state import TrainState

pytestmark = pytest.mark.backend

# On TensorFlow compiling a step takes minutes under load; `test_killed_runs` compiles a smaller model.
COMPILED = {
    "tensorflow": [False, True] if EXHAUSTIVE else [False],
    "jax": [True],
    "torch": [False],
}


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("jit_compile", COMPILED[keras.backend.backend()])
def test_three_steps_and_three_more_are_six_steps(tmp_path, jit_compile):
    whole = train(tmp_path / "whole", 6, every_steps=3, jit_compile=jit_compile).newest()
    shutil.copytree(tmp_path / "whole" / "step-00000003", tmp_path / "parts" / "step-00000003")
    keras.utils.clear_session()
    compiled(small_model(dropout_rate=0.1), optimizer=keras.optimizers.Adam())  # automatic names have other numbers now
    parts = train(tmp_path / "parts", 6, jit_compile=jit_compile, workers=2).newest()
    assert parts.step == whole.step == 6
    assert parts.arrays().names == whole.arrays().names
    different = [n for n in whole.arrays().names if whole.arrays().read(n).tobytes() != parts.arrays().read(n).tobytes()]
    assert different == []
    assert parts.sha256 == whole.sha256


def test_the_run_of_these_tests_has_all_kinds_of_state():
    kinds = {name.rsplit("/", 1)[1] for name in TrainState(make_model()).names if not name.startswith("weights/")}
    # The rate is a function of the iteration.
    assert kinds == {"momentum", "velocity", "average_offset", "gradient_accumulator", "iteration", "seed_generator"}


def losses_of_steps(seed, steps, initial_step=0):
    """The loss of every step of a model that learns nothing: a fingerprint of the step's dropout."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    data = np.ones((4, 64), "float32"), np.ones((4, 1), "float32")
    seeds = TorchStepSeeds(seed, initial_step)
    return model.fit(*data, batch_size=4, epochs=steps, verbose=0, callbacks=[seeds]).history["loss"]


def test_every_step_has_its_own_dropout():
    losses = losses_of_steps(seed=3, steps=6)
    assert len(set(losses)) == 6
    assert losses_of_steps(seed=3, steps=6) == losses
    if draws_dropout_from_the_process():  # elsewhere it is in the state of the layer
        assert losses_of_steps(seed=3, steps=2, initial_step=4) == losses[4:]
        assert not set(losses_of_steps(seed=4, steps=6)) & set(losses)
