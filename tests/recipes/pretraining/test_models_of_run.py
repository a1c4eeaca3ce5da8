"""The model of a run at its checkpoints."""

import keras
import numpy as np
import pytest
from helpers import small_runs

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.recipes.pretraining.models_of_run import models_of_run, steps_of_run
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    """The folder of a run of four steps with averaged weights."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    pretrain(corpus, folder, small_runs.FOUR_STEPS, save_steps=1, keep_checkpoints=9)
    return folder


def test_the_last_checkpoint_gives_the_weights_of_the_runs_model(run):
    assert steps_of_run(run) == [1, 2, 3, 4]
    given = {weight.path: keras.ops.convert_to_numpy(weight) for weight in from_pretrained(run / "model").weights}
    before = None
    for _, found in models_of_run(run):
        values = {weight.path: np.array(keras.ops.convert_to_numpy(weight)) for weight in found.weights}
        assert before is None or any((values[path] != before[path]).any() for path in values)
        before = values
    assert set(before) == set(given)
    for path, value in before.items():
        np.testing.assert_allclose(value, given[path], atol=1e-6, err_msg=path)


def test_steps_are_spread_over_the_run(run):
    assert steps_of_run(run, 3) == [1, 3, 4]
    assert steps_of_run(run, 2) == steps_of_run(run, 1) == [1, 4]
    assert [step for step, _ in models_of_run(run, [2])] == [2]


def test_a_folder_that_is_no_run_is_refused(run, tmp_path):
    with pytest.raises(ValueError, match=r"the folder of a pretraining with settings.yaml and checkpoints; .* has none"):
        steps_of_run(tmp_path)
    (tmp_path / "model").mkdir()
    with pytest.raises(ValueError, match="expected a finished run"):
        next(models_of_run(tmp_path / "other", [1]))
