"""On TensorFlow a training on two replicas of a `MirroredStrategy` equals the training on one device."""

import csv
import json

import keras
import numpy as np
import pytest
import yaml
from helpers import hosts_run
from helpers.exhaustive import only_exhaustive
from helpers.other_process import finish, start

from keras_bert_rebuild import AdamW, AdamWarmup
from keras_bert_rebuild.kernels import replica_count
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.training.optimizers.whole_batch import LossScaleOptimizer, of_whole_batch

pytestmark = [pytest.mark.backend("tensorflow"), pytest.mark.slow(torch=True)]


@pytest.fixture(scope="module")
def two():
    """The output of `two_replicas.py`."""
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
    for one, both in batches:  # after a batch Keras reports the mean of the accuracies of the replicas
        losses = {name: value for name, value in one.items() if name.endswith("loss")}
        assert {name: both[name] for name in losses} == pytest.approx(losses, rel=1e-6)


def test_the_same_seed_drops_the_same_on_two_replicas(two):
    assert two["again"] == two["losses"]["dropped"][:10]
    assert two["gone on"] == two["losses"]["dropped"][10:]
    assert abs(two["losses"]["dropped"][0] - two["losses"]["two"][0]) > 1e-3


def test_a_state_moves_from_one_device_to_two_replicas_and_back(two):
    one = two["losses"]["one"][10:]
    np.testing.assert_allclose(two["one after two"], one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(two["two after one"], one, rtol=0, atol=1e-4)


def test_a_step_is_skipped_where_the_gradient_of_any_replica_is_not_finite(two):
    first, overflowed, last = two["scaled"]
    assert overflowed["weights"] == first["weights"]
    assert (overflowed["scale"], overflowed["steps"]) == (first["scale"] / 2, first["steps"])
    assert last["weights"] != first["weights"]
    assert last["steps"] == first["steps"] + 1


@pytest.fixture
def _as_two():
    """Simulates the scope of two replicas."""
    with executing((replica_count, lambda replaced: 2)):
        yield


@pytest.mark.usefixtures("_as_two")
@pytest.mark.parametrize("setting", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_an_optimizer_that_clips_each_replica_alone_is_refused(setting):
    optimizer = keras.optimizers.Adam(**{setting: 2})
    for given in (optimizer, keras.optimizers.LossScaleOptimizer(optimizer)):
        with pytest.raises(ValueError, match=f"expected AdamW, Lamb or AdamWarmup .*; got Adam with {setting}=2"):
            of_whole_batch(given)


@pytest.mark.usefixtures("_as_two")
def test_an_optimizer_of_the_whole_batch_is_compiled_as_it_is():
    for optimizer in (AdamW(global_clipnorm=1.0), AdamWarmup(10, 1, clipnorm=1.0), keras.optimizers.Adam(), "adam"):
        assert of_whole_batch(optimizer) is optimizer


@pytest.mark.usefixtures("_as_two")
def test_the_loss_scale_depends_on_all_replicas():
    inner = AdamW(global_clipnorm=1.0)
    by_policy, given = of_whole_batch(inner, True), of_whole_batch(keras.optimizers.LossScaleOptimizer(inner, 8.0), True)
    assert (type(by_policy), type(given)) == (LossScaleOptimizer, LossScaleOptimizer)
    assert by_policy.inner_optimizer is given.inner_optimizer is inner
    assert given.initial_scale == 8.0
    assert of_whole_batch(given, True) is given


@pytest.mark.usefixtures("_as_two")
@pytest.mark.parametrize("optimizer", [AdamW(gradient_accumulation_steps=2), AdamWarmup(9, 1, gradient_accumulation_steps=2)])
def test_accumulation_on_several_replicas_is_refused_in_one_sentence(optimizer):
    sentence = r"gradient_accumulation_steps must be None under distribute\('mirrored'\), .*; got 2: "
    with pytest.raises(ValueError, match=sentence):
        optimizer.build([keras.Variable([1.0])])
    with pytest.raises(ValueError, match=sentence):
        of_whole_batch(keras.optimizers.Adam(gradient_accumulation_steps=2))


def test_one_device_compiles_with_the_given_optimizer():
    for optimizer in (keras.optimizers.Adam(clipnorm=1.0), keras.optimizers.LossScaleOptimizer(AdamW())):
        assert of_whole_batch(optimizer, True) is optimizer


@only_exhaustive
def test_a_whole_run_with_averages_evaluation_and_checkpoints_succeeds(tmp_path):
    config, output = tmp_path / "settings.yaml", tmp_path / "run"
    changes = {"steps": 4, "ema": 0.9, "held_out": 0.3, "evaluation_steps": 1, "save_steps": 2, "jit_compile": False}
    config.write_text(yaml.safe_dump({**hosts_run.SETTINGS, **changes}))
    code, out, err = finish(start("two_replicas_run.py", "--settings", config, "--output", output, "--distribute", "mirrored"))
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
