"""On TensorFlow a training on two replicas of a `MirroredStrategy` is the training on one device."""

import csv
import json

import hosts_run
import keras
import numpy as np
import pytest
import yaml
from other_process import finish, start

from keras_bert_rebuild import AdamW

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def two():
    """What `two_replicas.py` printed."""
    code, out, err = finish(start("two_replicas.py"))
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def test_two_replicas_have_the_losses_of_one_device(two):
    # Their parts of a batch have different numbers of labels, and the gradient is clipped.
    assert two["devices"] == [["none", 1, 1], ["mirrored", 2, 2]]
    assert set(two["copies"]) == {2}
    assert len(two["losses"]["one"]) == 20
    assert two["losses"]["one"][-1] < two["losses"]["one"][0] - 0.1
    np.testing.assert_allclose(two["losses"]["two"], two["losses"]["one"], rtol=0, atol=1e-4)


def test_two_replicas_report_the_means_over_the_labels_of_both(two):
    *batches, (one, both) = zip(*two["evaluated"].values(), strict=True)
    assert both == pytest.approx(one, rel=1e-6)
    for one, both in batches:  # after a batch Keras gives the mean of the accuracies of the replicas
        losses = {name: value for name, value in one.items() if name.endswith("loss")}
        assert {name: both[name] for name in losses} == pytest.approx(losses, rel=1e-6)


def test_the_same_seed_drops_the_same_on_two_replicas(two):
    assert two["again"] == two["losses"]["dropped"][:10]
    assert two["gone on"] == two["losses"]["dropped"][10:]
    assert abs(two["losses"]["dropped"][0] - two["losses"]["two"][0]) > 1e-3


def test_a_state_goes_from_one_device_to_two_replicas_and_back(two):
    one = two["losses"]["one"][10:]
    np.testing.assert_allclose(two["one after two"], one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(two["two after one"], one, rtol=0, atol=1e-4)


@pytest.fixture
def sum_before_clipping(monkeypatch):
    """The function of that name, as inside of the scope of two replicas."""
    from keras_bert_rebuild.training import tensorflow_replicas

    monkeypatch.setattr(tensorflow_replicas, "replica_count", lambda: 2)
    return tensorflow_replicas.sum_before_clipping


def test_an_optimizer_that_two_phases_are_compiled_with_sums_once(sum_before_clipping):
    optimizer = AdamW()
    sum_before_clipping(optimizer)
    apply = optimizer.apply
    sum_before_clipping(optimizer)
    assert optimizer.apply is apply


def test_the_optimizer_inside_a_loss_scale_optimizer_is_given_sums(sum_before_clipping):
    optimizer = keras.optimizers.LossScaleOptimizer(AdamW())
    sum_before_clipping(optimizer)
    assert optimizer.inner_optimizer._all_reduce_sum_gradients is list


@pytest.mark.exhaustive
def test_a_whole_run_with_averages_evaluation_and_checkpoints_ends(tmp_path):
    config, output = tmp_path / "settings.yaml", tmp_path / "run"
    changes = {"steps": 4, "ema": 0.9, "held_out": 0.3, "evaluation_steps": 1, "save_steps": 2, "jit_compile": False}
    config.write_text(yaml.safe_dump({**hosts_run.SETTINGS, **changes}))
    code, out, err = finish(start("two_replicas_run.py", "--config", config, "--output", output, "--distribute", "mirrored"))
    assert code == 0, err
    assert "wrote" in out
    (begun,) = yaml.safe_load((output / "versions.yaml").read_text())["starts"]
    assert (begun["distribute"], begun["devices"]) == ("mirrored", 2)
    with (output / "metrics.csv").open() as file:
        last = [*csv.DictReader(file)][-1]
    assert last["step"] == "4"
    assert 4 < float(last["loss"]) < 8
    assert 4 < float(last["held_out_loss"]) < 8
    assert (output / "model" / "model.safetensors").is_file()
