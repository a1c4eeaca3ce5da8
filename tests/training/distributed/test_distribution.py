"""What `distribute` chooses, the weights it shards, and its errors and warnings: uneven batches, devices that are not used."""

import re

import keras
import numpy as np
import pytest
from helpers.other_process import printed_json

from keras_bert_rebuild import BertConfig, build_model, distribute, pretrain
from keras_bert_rebuild.families.xlnet import XLNetConfig
from keras_bert_rebuild.models import devices_in_use
from keras_bert_rebuild.models.devices_in_use import check_even_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.distributed import distribution
from keras_bert_rebuild.training.distributed.distribution import KINDS, LAYOUT, OF_BACKEND, Distribution, axes_of

pytestmark = pytest.mark.backend

BACKEND = keras.config.backend()


def test_every_kind_is_available_on_some_backend():
    assert {kind for kinds, _ in OF_BACKEND.values() for kind in kinds} == {*KINDS} - {"auto"}


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_one_device_is_not_a_distribution(kind, monkeypatch):
    monkeypatch.delenv("KERAS_DISTRIBUTION_NUM_PROCESSES", raising=False)
    where = distribute(kind)
    assert (where.kind, where.devices, where.replicas, where.hosts, where.writes) == ("none", 1, 1, 1, True)
    with where:
        assert keras.distribution.distribution() is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("auto", *OF_BACKEND[BACKEND][0])])
def test_unsupported_kinds_are_refused_with_a_backend_that_supports_them(kind):
    with pytest.raises(ValueError, match=rf"distribute='{kind}' is not available on {BACKEND}: .*(KERAS_BACKEND=jax|'data')"):
        distribute(kind)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"kind": "tpu"}, "distribute must be one of 'auto', 'none', 'mirrored', 'data', 'sharded', 'model'; got 'tpu'"),
        (
            {"kind": "auto", "model_devices": 2},
            "model_devices is for distribute='model' or 'sharded'; got model_devices=2 with 'auto'",
        ),
    ],
)
def test_an_invalid_argument_is_named(told, sentence):
    with pytest.raises(ValueError, match=sentence):
        distribute(**told)


@pytest.mark.parametrize(
    ("replicas", "hosts", "rows"),
    [(8, 2, [(0, 2), (1, 2)]), (2, 2, [(0, 2), (1, 2)]), (1, 2, [(0, 1), (0, 1)]), (2, 4, [(0, 2), (0, 2), (1, 2), (1, 2)])],
)
def test_hosts_of_one_replica_read_the_same_rows(monkeypatch, replicas, hosts, rows):
    found = []
    for index in range(hosts):
        monkeypatch.setattr(distribution, "host_count", lambda: hosts)
        monkeypatch.setattr(distribution, "host_index", lambda index=index: index)
        where = Distribution("model", 8, replicas)
        found.append((where.data_index, where.data_count))
        assert where.writes == (index == 0)
    assert found == rows


def test_a_batch_that_replicas_cannot_share_is_refused():
    Distribution("data", 8, 8).check_batch("batch_size", 16)
    with pytest.raises(ValueError, match="batch_size must be a multiple of 8, the replicas of distribute='data'; got 12"):
        Distribution("data", 8, 8).check_batch("batch_size", 12)


def test_a_run_is_refused_before_anything_is_written(tmp_path):
    kind = {"jax": "mirrored"}.get(BACKEND, "data")
    with pytest.raises(ValueError, match="is not available on"):
        pretrain("no store", tmp_path / "run", distribute=kind)
    assert not (tmp_path / "run").exists()


def test_the_settings_of_a_host_are_not_part_of_the_run():
    told = PretrainSettings(hosts=2, host_index=1, coordinator="a:1").resolved()
    assert told == PretrainSettings().resolved()
    assert told["distribute"] == "auto"


@pytest.mark.backend("tensorflow")
def test_a_tpu_that_tensorflow_does_not_drive_is_refused(monkeypatch):
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4")
    with pytest.raises(ValueError, match="has a TPU, which this TensorFlow does not support: set KERAS_BACKEND=jax"):
        distribute()
    assert distribute("none").kind == "none"


@pytest.mark.backend("tensorflow")
def test_mirrored_replicas_do_not_accumulate(tmp_path):
    with pytest.raises(ValueError, match=r"gradient_accumulation_steps must be 1 with distribute='mirrored'.*; got 2"):
        pretrain("no store", tmp_path / "run", distribute="mirrored", gradient_accumulation_steps=2)


@pytest.fixture(scope="module")
def paths():
    sizes = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 11, "num_attention_heads": 2, "intermediate_size": 16}
    bert = build_model(BertConfig(**sizes, max_position_embeddings=8), ["mlm", "nsp"])
    xlnet = build_model(XLNetConfig(**{**sizes, "num_hidden_layers": 1}), [])
    return {weight.path: tuple(weight.shape) for model in (xlnet, bert) for weight in model.weights}


@pytest.mark.slow
def test_every_row_matches_in_a_model_and_no_weight_matches_two(paths):
    found = {path: [pattern for pattern, _ in LAYOUT if re.fullmatch(pattern, path)] for path in paths}
    assert all(len(patterns) <= 1 for patterns in found.values())
    assert {pattern for patterns in found.values() for pattern in patterns} == {pattern for pattern, _ in LAYOUT}


def test_all_weights_of_a_block_are_sharded_except_those_added_after_a_sum(paths):
    whole = {path.partition("-11-")[2] for path, shape in paths.items() if "-11-" in path and not any(axes_of(path, shape, 2))}
    norms = {f"{layer}-Norm/{name}" for layer in ("MultiHeadSelfAttention", "FeedForward") for name in ("gamma", "beta")}
    assert whole == {"MultiHeadSelfAttention/output/bias", "FeedForward/output/bias", *norms}


@pytest.mark.parametrize(
    ("path", "shape", "devices", "axes"),
    [
        ("Embedding-Token/embeddings", (30528, 768), 4, ("model", None)),
        ("Embedding-Token/embeddings", (30522, 768), 4, (None, "model")),
        ("Embedding-Token/embeddings", (30522, 766), 4, (None, None)),
        ("MLM-Sim/bias", (30522,), 4, (None,)),
        ("Encoder-12-FeedForward/output/kernel", (3072, 768), 8, ("model", None)),
        ("Embedding-Position/embeddings", (512, 768), 4, (None, None)),
        ("Encoder-1-FeedForward-Norm/gamma", (768,), 4, (None,)),
    ],
)
def test_a_weight_is_sharded_along_the_first_axes_that_divide_it(path, shape, devices, axes):
    assert axes_of(path, shape, devices) == axes


@pytest.mark.parametrize(
    ("path", "shape", "devices", "axes"),
    [
        ("Embedding-Token/embeddings", (30522, 768), 1, (None, "batch")),
        ("Embedding-Token/embeddings", (30528, 768), 2, ("model", "batch")),
        ("Encoder-1-FeedForward/intermediate/kernel", (768, 3072), 1, ("batch", None)),
        ("Encoder-1-FeedForward/intermediate/kernel", (768, 3072), 2, ("batch", "model")),
        ("Encoder-1-FeedForward/intermediate/bias", (3072,), 2, ("model",)),
        ("a/layer/of/the/user/kernel", (6, 40), 1, (None, "batch")),
        ("NSP/bias", (2,), 1, (None,)),
    ],
)
def test_replicas_that_share_weights_divide_the_first_remaining_dimension(path, shape, devices, axes):
    assert axes_of(path, shape, devices, owners=8) == axes


KIND = {"tensorflow": "mirrored", "jax": "data"}.get(BACKEND)
on_two_devices = pytest.mark.skipif(BACKEND == "torch", reason="torch trains on one device")


@pytest.fixture(scope="module")
def told():
    """What `two_devices.py` prints of unused devices."""
    return printed_json("two_devices.py", "unused", devices=2)


@on_two_devices
@pytest.mark.slow(torch=True)
def test_a_training_outside_of_the_chosen_devices_warns_at_its_call(told):
    words = "distribute({!r}) was called but not entered, so this model trains on one device and not on 2: build, compile "
    words += "and train it inside `with distribute({!r}):`."
    expected = [[words.format(KIND, KIND), "two_devices.py"]]
    assert told["forgotten"] == told["kept"] == expected
    if BACKEND == "jax":
        assert told["auto"] == [[words.format("auto", "auto"), "two_devices.py"]]


@on_two_devices
@pytest.mark.slow(torch=True)
def test_nobody_else_is_warned(told):
    silent = ["nothing chosen", "once", "entered later", "after it", "one device", "entered", "one device entered"]
    silent += ["after pretrain", *(["set by Keras"] if BACKEND == "jax" else [])]
    assert [told[case] for case in silent] == [[]] * len(silent)
    assert "must be a multiple of 2" in told["pretrain"][0]


def test_entering_devices_forgets_what_was_chosen_before():
    devices_in_use.expect_use("data", 8)
    with Distribution("none"):
        assert devices_in_use._waiting == []


SENTENCE = "a batch must have a multiple of 2 examples, the same number for each device; got {}: choose such a batch "


SENTENCE += "size, and drop an incomplete last batch."


@pytest.fixture(scope="module")
def tried():
    """What `two_devices.py` prints of uneven batches."""
    return printed_json("two_devices.py", "uneven", devices=2)


@on_two_devices
@pytest.mark.slow(torch=True)
def test_uneven_batches_are_one_sentence(tried):
    uneven = tried["uneven"]
    refused = {case: uneven.pop(case) for case in ("arrays", "a PyDataset", "a generator", "evaluation")}
    refused |= {"validation": uneven.pop("validation data")}
    assert refused == dict.fromkeys(refused, f"ValueError: {SENTENCE.format(3)}") | {
        "validation": f"ValueError: {SENTENCE.format(7)}"
    }
    assert uneven.pop("a validation split") == f"ValueError: {SENTENCE.format(1)}"
    assert tried["empty"] == dict.fromkeys(tried["empty"], f"ValueError: {SENTENCE.format(1)}")
    if BACKEND == "tensorflow":
        assert SENTENCE.format(3) in uneven.pop("a tf.data.Dataset")
        for case, got in uneven.items():  # predictions, and single batches, which every replica gets whole
            np.testing.assert_allclose(got, tried["whole"][case], rtol=0, atol=1e-5)
    else:
        assert uneven == dict.fromkeys(uneven, f"ValueError: {SENTENCE.format(3)}")


@on_two_devices
@pytest.mark.slow(torch=True)
def test_even_batches_take_the_steps_of_one_device(tried):
    for one, two in tried["even"].values():
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("examples", "batch_size", "split", "wrong"),
    [(64, None, 0.0, None), (63, None, 0.0, 31), (64, 7, 0.0, 7), (6, 32, 0.0, None), (20, 8, 0.1, None), (20, 8, 0.25, 7)],
)
def test_arrays_are_judged_by_the_batches_that_keras_will_cut(examples, batch_size, split, wrong):
    x = {"ids": np.zeros((examples, 3)), "segments": None}
    check_even_batches(1, x, batch_size, split)
    if wrong is None:
        check_even_batches(2, x, batch_size, split)
    else:
        with pytest.raises(ValueError, match=f"a multiple of 2 examples.*; got {wrong}:"):
            check_even_batches(2, x, batch_size, split)
