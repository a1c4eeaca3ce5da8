"""On JAX a training on many devices or hosts equals the training on one device."""

import csv
import json
import signal
import socket
import time

import numpy as np
import pytest
import yaml
from helpers import hosts_run
from helpers.other_process import finish, start

from keras_bert_rebuild.training.distributed.hosts import EXIT_CODE

pytestmark = [
    pytest.mark.backend("jax"),
    pytest.mark.slow(torch=True),
]


@pytest.fixture(scope="module")
def eight():
    """The output of `eight_devices.py`."""
    code, out, err = finish(start("eight_devices.py", devices=8))
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("kind", ["data", "model"])
def test_eight_devices_have_the_losses_of_one_with_dropout_too(eight, kind):
    assert eight["devices"] == [["none", 1, 1], ["data", 8, 8], ["model", 8, 2]]
    assert len(eight["losses"]["one"]) == 20
    assert eight["losses"]["one"][-1] < eight["losses"]["one"][0] - 0.1
    np.testing.assert_allclose(eight["losses"][kind], eight["losses"]["one"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["data", "model"])
def test_eight_devices_report_the_means_over_the_labels_of_all(eight, kind):
    for one, all_ in zip(eight["evaluated"]["one"], eight["evaluated"][kind], strict=True):
        assert all_ == pytest.approx(one, rel=1e-6)


def test_the_same_seed_drops_the_same(eight):
    assert eight["again"] == eight["losses"]["data"][:10]


def test_a_state_resumes_on_another_number_of_devices(eight):
    one = eight["losses"]["one"][10:]
    np.testing.assert_allclose(eight["one after data"], one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(eight["model after one"], one, rtol=0, atol=1e-4)


def test_every_device_has_a_quarter_of_the_weights_and_moments_of_the_table(eight):
    assert not eight["cut on data"]
    sizes = {path: np.prod(part) * 4 == np.prod(whole) for path, (whole, part) in eight["parts"].items()}
    assert all(sizes.values())
    of_block = ["query", "key", "value"]
    weights = [f"MultiHeadSelfAttention/{name}/{kind}" for name in of_block for kind in ("kernel", "bias")]
    weights += ["MultiHeadSelfAttention/output/kernel", "FeedForward/intermediate/kernel", "FeedForward/intermediate/bias"]
    weights = [f"Encoder-{i}-{name}" for i in (1, 2) for name in [*weights, "FeedForward/output/kernel"]]
    weights += ["Embedding-Token/embeddings", "MLM-Sim/bias"]
    moments = [f"AdamW/{path.replace('/', '_')}_{kind}" for path in weights for kind in ("momentum", "velocity")]
    assert sizes.keys() == {*weights, *moments}


def test_a_model_trained_on_many_devices_works_outside_of_their_scope(eight):
    assert eight["probabilities"] == pytest.approx(3)  # the losses of three examples


def test_when_a_host_is_killed_the_other_stops_and_both_resume_to_the_losses_of_one_device(eight, tmp_path):
    config, output = tmp_path / "settings.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(hosts_run.SETTINGS))

    def hosts(death, *kind):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = ["--settings", config, "--output", output, "--distribute", *kind]
        options += ["--hosts", 2, "--coordinator", f"127.0.0.1:{port}"]
        deaths = [-1, death]
        return [start("hosts_run.py", deaths[i], "SIGKILL", *options, "--host-index", i, devices=2) for i in range(2)]

    other, killed = hosts(12, "data")
    assert finish(killed)[0] == -signal.SIGKILL
    began = time.monotonic()
    code, _, err = finish(other)
    assert code == EXIT_CODE
    last = err.strip().splitlines()[-1]
    assert "a step failed on host 0 of 2, as it does if another host has stopped: " in last
    assert last.endswith("; the same command on all hosts resumes from the last checkpoint.")
    assert "Traceback" not in err
    assert time.monotonic() - began < 20
    assert sorted(path.name for path in (output / "checkpoints").glob("[!.]*")) == ["step-00000005", "step-00000010"]

    # Every weight of the table is now split over both hosts.
    ended = [finish(process) for process in hosts(-1, "model", "--model-devices", 4)]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert "wrote" in ended[0][1]
    assert "wrote" not in ended[1][1]
    with (output / "metrics.csv").open() as file:
        rows = [*csv.DictReader(file)]
    np.testing.assert_allclose([float(row["loss"]) for row in rows], eight["pretrained"]["loss"], rtol=0, atol=1e-4)
    assert [int(row["tokens"]) for row in rows] == eight["pretrained"]["tokens"]
    starts = yaml.safe_load((output / "versions.yaml").read_text())["starts"]
    assert [(start["distribute"], start["devices"], start["hosts"]) for start in starts] == [("data", 4, 2), ("model", 4, 2)]
    assert (output / "model" / "model.safetensors").is_file()


def test_queries_see_the_texts_of_all_devices():
    code, out, err = finish(start("retrieval_devices.py", devices=8))
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])
    assert [found[name]["devices"] for name in ("one", "several", "chunks")] == [1, 8, 8]
    assert all(rows % 8 == 0 for rows in found["several"]["rows"])
    for name in ("several", "chunks"):
        assert found[name]["losses"] == pytest.approx(found["one"]["losses"], rel=1e-5)
        assert found[name]["weights"] == pytest.approx(found["one"]["weights"], rel=1e-5)


def test_weights_cut_over_devices_take_the_steps_of_muon_and_stable_adamw():
    code, out, err = finish(start("sharded_optimizers.py", devices=4))
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])
    assert found.keys() == {"muon", "stable_adamw"}
    assert max(found.values()) < 1e-6
