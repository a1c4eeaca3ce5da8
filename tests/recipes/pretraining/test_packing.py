"""Pretraining on rows of several sequences: exact resumption, and a result for rows of one."""

import keras
import numpy as np
import pytest
from helpers import small_runs
from keras import ops

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

SETTINGS = {**small_runs.FOUR_STEPS, "packing": True}


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)


def test_the_result_takes_rows_of_one_sequence(whole):
    folder, rows, model = whole
    assert [tensor.name for tensor in model.inputs] == ["Input-Token", "Input-Segment", "Input-Masked"]
    loaded = from_pretrained(folder / "model", heads=["mlm"])
    ids = np.array([[1, 7, 8, 9, 2, 0]])
    given = [ids, ids * 0, ids * 0 + 1]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(each(given)) for each in (loaded, model)))
    assert rows[-1]["held_out_mlm_loss"] > 0
    assert rows[-1]["flop_utilisation"] > 0


@pytest.mark.slow(torch=True)
def test_a_stopped_run_ends_with_the_same_bits(whole, corpus, tmp_path):
    small_runs.check_resumption(whole, corpus, tmp_path / "run", SETTINGS)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("next_sentence", ["nsp", "sop"])
def test_a_stopped_run_on_pairs_ends_with_the_same_bits(next_sentence, corpus, tmp_path):
    settings = {**SETTINGS, "next_sentence": next_sentence}
    run = small_runs.whole_run(corpus, tmp_path / "whole", settings)
    folder, rows, model = run
    assert rows[-1]["held_out_pair_loss"] > 0
    assert 0 <= rows[-1]["pair_accuracy"] <= 1
    small_runs.check_resumption(run, corpus, tmp_path / "run", settings)
    assert [tensor.name for tensor in model.inputs] == ["Input-Token", "Input-Segment", "Input-Masked"]
    ids = np.array([[1, 7, 8, 2, 9, 2]])
    given = [ids, np.array([[0, 0, 0, 0, 1, 1]]), ids * 0 + 1]
    loaded = from_pretrained(folder / "model", heads=["mlm", next_sentence])
    for found, expected in zip(loaded(given), model(given), strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (found, expected)))


@pytest.mark.slow(torch=True)
def test_a_run_may_start_from_a_checkpoint(whole, corpus, tmp_path):
    folder, _, model = whole
    settings = {name: value for name, value in SETTINGS.items() if name != "model"}
    changes = {"init": str(folder / "model"), "learning_rate": 1e-30, "weight_decay": 0.0, "steps": 1, "ema": None}
    again = pretrain(corpus, tmp_path / "run", settings, **changes)
    for one, other in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)


@pytest.mark.slow(torch=True)
def test_a_discriminator_learns_from_packed_rows(corpus, tmp_path):
    model = pretrain(corpus, tmp_path / "run", SETTINGS, objective="electra", steps=2)
    assert [tensor.name for tensor in model.inputs][-1] == "Input-Mask"
    for name in ("model", "generator"):
        assert "Input-Mask" not in [tensor.name for tensor in from_pretrained(tmp_path / "run" / name).inputs]


def test_rows_are_fuller_than_those_of_one_sequence(corpus):
    real = {}
    for packing in (True, False):
        settings = PretrainSettings.from_dict({**SETTINGS, "packing": packing, "next_sentence": "none", "batch_size": 64})
        batches = training_batches(corpus, settings.all_phases[0], settings)
        real[packing] = sum(batches.work(batches.batch(0, index))[0].sum() for index in range(8))
    assert real[True] > 1.05 * real[False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": [8]}, r"lengths must be left out with packing, whose rows are full; got \[8\]"),
        ({"objective": "xlnet"}, "packing must be left out with objective='xlnet'"),
        ({"packing": 3}, "packing must be one of True, False; got 3"),
    ],
)
def test_settings_that_packing_cannot_have_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainSettings.from_dict({**SETTINGS, **settings})


def test_a_run_without_packing_has_the_settings_it_had_before():
    assert "packing" not in PretrainSettings().resolved()
    assert PretrainSettings(packing=True).resolved()["packing"] is True
    assert PretrainSettings(packing=True).heads == ("mlm",)
    assert PretrainSettings(packing=True, next_sentence="nsp").heads == ("mlm", "nsp")
