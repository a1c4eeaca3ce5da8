"""Devices that share the weights: what each holds, and that trainings of all kinds take the steps of one device."""

import shutil
import signal

import numpy as np
import pytest
import yaml
from helpers.killed_runs import SETTINGS
from helpers.other_process import finish, printed_json, start
from helpers.trainings_on_devices import SHARDED, VARIANTS

from keras_bert_rebuild.recipes.metrics_table import read_curves

pytestmark = [pytest.mark.backend("jax"), pytest.mark.slow(torch=True)]


@pytest.fixture(scope="module")
def sharded():
    """Trainings on one device, on eight that share the weights, and on four by two."""
    return printed_json("trainings_on_devices.py", "sharded", devices=8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", [kind for kind in SHARDED if kind != "one"])
def test_devices_that_share_the_weights_take_the_steps_of_one(sharded, variant, kind):
    losses = {kind: trained["losses"] for kind, trained in sharded[variant].items()}
    assert len(set(losses["one"])) > 3
    np.testing.assert_allclose(losses[kind], losses["one"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_of_eight_devices_holds_an_eighth_of_weights_and_optimizer(sharded, variant):
    whole, part = sharded[variant]["sharded"]["held"]
    assert whole == sharded[variant]["one"]["held"][0]
    assert part == pytest.approx(whole / 8, rel=0.1)


def test_a_checkpoint_of_eight_devices_resumes_on_one_two_and_four(tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump(SETTINGS))

    def started(death, folder, devices, *kind):
        options = ["--settings", config, "--output", folder, "--distribute", *kind]
        return start("killed_runs.py", "host", death, "SIGKILL", *options, devices=devices)

    assert finish(started(-1, tmp_path / "one", 1, "none"))[0] == 0
    assert finish(started(12, tmp_path / "eight", 8, "sharded"))[0] == -signal.SIGKILL
    expected = [loss for _, loss in read_curves(tmp_path / "one")["loss"]]
    for devices, kind in ((1, ["none"]), (2, ["sharded"]), (4, ["sharded", "--model-devices", 2])):
        folder = tmp_path / str(devices)
        shutil.copytree(tmp_path / "eight", folder)
        code, _, err = finish(started(-1, folder, devices, *kind))
        assert code == 0, err
        np.testing.assert_allclose([loss for _, loss in read_curves(folder)["loss"]], expected, rtol=0, atol=1e-5)
