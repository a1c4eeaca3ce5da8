"""A training resumed from a checkpoint ends with the bits of one that was never stopped."""

import shutil

import keras
import pytest
from helpers.pretraining_run import make_model, train
from helpers.small import compiled, small_model

from keras_bert_rebuild.training.state.train_state import TrainState

# On TensorFlow compiling a step takes minutes under load; `test_killed_runs` compiles a smaller model.
COMPILED = {
    "tensorflow": [False, pytest.param(True, marks=pytest.mark.exhaustive)],
    "jax": [True],
    "torch": [False],
}


@pytest.mark.slow
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
