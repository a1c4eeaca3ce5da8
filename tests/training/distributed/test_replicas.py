"""A training on many devices or hosts of JAX, or two replicas of TensorFlow, equals that on one device."""

import csv
import signal
import socket
import time

import keras
import numpy as np
import pytest
import yaml
from helpers.hostile_inputs import only_exhaustive
from helpers.killed_runs import SETTINGS
from helpers.other_process import finish, printed_json, start

from keras_bert_rebuild import AdamW, AdamWarmup
from keras_bert_rebuild.kernels import replica_count
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.training.distributed.hosts import EXIT_CODE
from keras_bert_rebuild.training.optimizers.whole_batch import LossScaleOptimizer, whole_batch_optimizer

pytestmark = pytest.mark.backend


@pytest.fixture(scope="module")
def eight():
    """A training on one, eight and two by four devices."""
    return printed_json("trainings_on_devices.py", "eight", devices=8)


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("kind", ["data", "model"])
def test_eight_devices_have_the_losses_of_one_with_dropout_too(eight, kind):
    assert eight["devices"] == [["none", 1, 1], ["data", 8, 8], ["model", 8, 2]]
    assert len(eight["losses"]["one"]) == 20
    assert eight["losses"]["one"][-1] < eight["losses"]["one"][0] - 0.1
    np.testing.assert_allclose(eight["losses"][kind], eight["losses"]["one"], rtol=0, atol=1e-4)


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("kind", ["data", "model"])
def test_eight_devices_report_the_means_over_the_labels_of_all(eight, kind):
    for one, all_ in zip(eight["evaluated"]["one"], eight["evaluated"][kind], strict=True):
        assert all_ == pytest.approx(one, rel=1e-6)


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_the_same_seed_drops_the_same(eight):
    assert eight["again"] == eight["losses"]["data"][:10]


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_a_state_resumes_on_another_number_of_devices(eight):
    one = eight["losses"]["one"][10:]
    np.testing.assert_allclose(eight["one after data"], one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(eight["model after one"], one, rtol=0, atol=1e-4)


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
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


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_a_model_trained_on_many_devices_works_outside_of_their_scope(eight):
    assert eight["probabilities"] == pytest.approx(3)  # the losses of three examples


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_when_a_host_is_killed_the_other_stops_and_both_resume_to_the_losses_of_one_device(eight, tmp_path):
    config, output = tmp_path / "settings.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(SETTINGS))

    def hosts(death, *kind):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = ["--settings", config, "--output", output, "--distribute", *kind]
        options += ["--hosts", 2, "--coordinator", f"127.0.0.1:{port}"]
        deaths = [-1, death]
        return [start("killed_runs.py", "host", deaths[i], "SIGKILL", *options, "--host-index", i, devices=2) for i in range(2)]

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


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_queries_see_the_texts_of_all_devices():
    trained = printed_json("trainings_on_devices.py", "retrieval", devices=8)
    assert [trained[name]["devices"] for name in ("one", "several", "chunks")] == [1, 8, 8]
    assert all(rows % 8 == 0 for rows in trained["several"]["rows"])
    for name in ("several", "chunks"):
        assert trained[name]["losses"] == pytest.approx(trained["one"]["losses"], rel=1e-5)
        assert trained[name]["weights"] == pytest.approx(trained["one"]["weights"], rel=1e-5)


@pytest.mark.backend("jax")
@pytest.mark.slow(torch=True)
def test_weights_cut_over_devices_take_the_steps_of_muon_and_stable_adamw():
    differences = printed_json("trainings_on_devices.py", "optimizers", devices=4)
    assert differences.keys() == {"muon", "stable_adamw"}
    assert max(differences.values()) < 1e-6


@pytest.fixture(scope="module")
def two():
    """A training on one and two replicas."""
    return printed_json("trainings_on_devices.py", "replicas")


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
def test_two_replicas_have_the_losses_of_one_device(two):
    # Their parts of a batch have different numbers of labels, and the gradient is clipped.
    assert two["devices"] == [["none", 1, 1], ["mirrored", 2, 2]]
    assert set(two["copies"]) == {2}
    assert len(two["losses"]["one"]) == 20
    assert two["losses"]["one"][-1] < two["losses"]["one"][0] - 0.1
    np.testing.assert_allclose(two["losses"]["two"], two["losses"]["one"], rtol=0, atol=1e-4)


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
def test_two_replicas_report_the_means_over_the_labels_of_both(two):
    *batches, (one, both) = zip(*two["evaluated"].values(), strict=True)
    assert both == pytest.approx(one, rel=1e-6)
    for one, both in batches:  # after a batch Keras reports the mean of the accuracies of the replicas
        losses = {name: value for name, value in one.items() if name.endswith("loss")}
        assert {name: both[name] for name in losses} == pytest.approx(losses, rel=1e-6)


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
def test_the_same_seed_drops_the_same_on_two_replicas(two):
    assert two["again"] == two["losses"]["dropped"][:10]
    assert two["gone on"] == two["losses"]["dropped"][10:]
    assert abs(two["losses"]["dropped"][0] - two["losses"]["two"][0]) > 1e-3


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
def test_a_state_moves_from_one_device_to_two_replicas_and_back(two):
    one = two["losses"]["one"][10:]
    np.testing.assert_allclose(two["one after two"], one, rtol=0, atol=1e-4)
    np.testing.assert_allclose(two["two after one"], one, rtol=0, atol=1e-4)


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
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


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.usefixtures("_as_two")
@pytest.mark.parametrize("setting", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_an_optimizer_that_clips_each_replica_alone_is_refused(setting):
    optimizer = keras.optimizers.Adam(**{setting: 2})
    for given in (optimizer, keras.optimizers.LossScaleOptimizer(optimizer)):
        with pytest.raises(ValueError, match=f"expected AdamW, Lamb or AdamWarmup .*; got Adam with {setting}=2"):
            whole_batch_optimizer(given)


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.usefixtures("_as_two")
def test_an_optimizer_of_the_whole_batch_is_compiled_as_it_is():
    for optimizer in (AdamW(global_clipnorm=1.0), AdamWarmup(10, 1, clipnorm=1.0), keras.optimizers.Adam(), "adam"):
        assert whole_batch_optimizer(optimizer) is optimizer


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.usefixtures("_as_two")
def test_the_loss_scale_depends_on_all_replicas():
    inner = AdamW(global_clipnorm=1.0)
    by_policy, scaled = (whole_batch_optimizer(each, True) for each in (inner, keras.optimizers.LossScaleOptimizer(inner, 8.0)))
    assert (type(by_policy), type(scaled)) == (LossScaleOptimizer, LossScaleOptimizer)
    assert by_policy.inner_optimizer is scaled.inner_optimizer is inner
    assert scaled.initial_scale == 8.0
    assert whole_batch_optimizer(scaled, True) is scaled


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.usefixtures("_as_two")
@pytest.mark.parametrize("optimizer", [AdamW(gradient_accumulation_steps=2), AdamWarmup(9, 1, gradient_accumulation_steps=2)])
def test_accumulation_on_several_replicas_is_refused_in_one_sentence(optimizer):
    sentence = r"gradient_accumulation_steps must be None under distribute\('mirrored'\), .*; got 2: "
    with pytest.raises(ValueError, match=sentence):
        optimizer.build([keras.Variable([1.0])])
    with pytest.raises(ValueError, match=sentence):
        whole_batch_optimizer(keras.optimizers.Adam(gradient_accumulation_steps=2))


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
def test_one_device_compiles_with_the_given_optimizer():
    for optimizer in (keras.optimizers.Adam(clipnorm=1.0), keras.optimizers.LossScaleOptimizer(AdamW())):
        assert whole_batch_optimizer(optimizer, True) is optimizer


@pytest.mark.backend("tensorflow")
@pytest.mark.slow(torch=True)
@only_exhaustive
def test_a_whole_run_with_averages_evaluation_and_checkpoints_succeeds(tmp_path):
    config, output = tmp_path / "settings.yaml", tmp_path / "run"
    changes = {"steps": 4, "ema": 0.9, "held_out": 0.3, "evaluation_steps": 1, "save_steps": 2, "jit_compile": False}
    config.write_text(yaml.safe_dump({**SETTINGS, **changes}))
    options = ["--settings", config, "--output", output, "--distribute", "mirrored"]
    code, out, err = finish(start("trainings_on_devices.py", "pretrain", *options))
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


@pytest.fixture(scope="module")
def drawn():
    """What two devices drop, as arrays by number of devices: steps of layers of parts."""
    printed = printed_json("two_devices.py", "dropout", devices=2)
    return {kind: [{name: np.array(parts) for name, parts in step.items()} for step in steps] for kind, steps in printed.items()}


@pytest.mark.backend("jax", "tensorflow")
@pytest.mark.slow(torch=True)
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


@pytest.mark.backend("jax", "tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_a_single_replica_draws_what_is_drawn_without_a_strategy(drawn):
    for one, none in zip(drawn["one"], drawn["none"], strict=True):
        for layer in one:
            np.testing.assert_array_equal(one[layer], none[layer])


@pytest.mark.backend("jax", "tensorflow")
@pytest.mark.slow(torch=True)
@pytest.mark.skipif(keras.config.backend() != "jax", reason="replicas of TensorFlow draw for themselves")
def test_two_devices_of_jax_draw_what_one_draws(drawn):
    for parts, one in zip(drawn["parts"], drawn["one"], strict=True):
        for layer in one:
            np.testing.assert_allclose(np.concatenate(parts[layer]), one[layer][0], rtol=0, atol=1e-5)
