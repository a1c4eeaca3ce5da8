"""Settings of a run are the same from a file, options and Python; predicted positions follow from the masking rate."""

import dataclasses
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.small_corpus import FIRST, MASK, SPECIAL, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.cli.options import option_of
from keras_bert_rebuild.cli.parsers import parser_of
from keras_bert_rebuild.data.pretraining.masking import UNITS, mask_tokens, masking_units
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.data.random_numbers import keys
from keras_bert_rebuild.recipes.planning.plan import plan
from keras_bert_rebuild.recipes.pretraining.pretrain import training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.settings import SIZES, Phase


@pytest.mark.parametrize(("size", "millions"), [("tiny", 4.4), ("mini", 11.2), ("small", 28.8), ("medium", 41.4), ("base", 109.5)])
def test_sizes_have_the_published_number_of_parameters(size, millions):
    config = PretrainSettings(model=size).model_config(30522, 0)
    assert round(config.num_params(["pooler"]) / 1e6, 1) == millions
    assert config == BertConfig(**SIZES[size])


def test_defaults_are_resolved():
    resolved = PretrainSettings(steps=1000).resolved()
    assert resolved["warmup_steps"] == resolved["evaluate_steps"] == resolved["save_steps"] == 100
    assert resolved["phases"] == [{"steps": 1000, "batch_size": 32, "seq_len": 128, "max_predictions": 21}]
    assert yaml.safe_load(yaml.safe_dump(resolved)) == resolved


def test_paths_and_numpy_numbers_are_plain_in_the_file_of_a_run():
    given = {"model": Path("sizes.json"), "steps": np.int64(9), "learning_rate": np.float32(0.5), "lengths": [np.int64(64)]}
    resolved = PretrainSettings(**given).resolved()
    assert (resolved["model"], resolved["phases"][0]["steps"], resolved["learning_rate"]) == ("sizes.json", 9, 0.5)
    assert yaml.safe_load(yaml.safe_dump(resolved)) == resolved


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 100},
        {"steps": 100, "warmup_fraction": 0.3, "schedule": "trapezoidal"},
        {"minutes": 3, "schedule": "trapezoidal", "warmup_fraction": 0.3},
        {"minutes": 3, "phases": [{"steps": 90, "batch_size": 8, "seq_len": 8}, {"steps": 10, "batch_size": 4, "seq_len": 16}]},
        {"objective": "electra", "steps": 9, "batch_size": 8, "batch_warmup": [2, 4], "batch_warmup_steps": 4, "packing": True},
    ],
)
def test_the_file_of_a_run_holds_its_settings(settings):
    settings = PretrainSettings(**settings)
    resolved = settings.resolved()
    read = PretrainSettings.recorded({**resolved, "corpus": {"tokens": 9}, "probed": {}})
    again = {name: value for name, value in read.resolved().items() if value is not None}
    assert again == {name: resolved[name] for name in again}
    assert {name for name in resolved if resolved[name] is not None} - set(again) <= {"warmup_fraction"}


def test_every_setting_has_an_option_with_its_help():
    text = " ".join(parser_of("pretrain").format_help(everything=True).split())
    for field in dataclasses.fields(PretrainSettings):
        if field.name != "phases":  # of files alone
            assert re.search(f"{option_of(field.name)}[ ,]", text), field.name
    assert "micro-batches whose gradients are averaged" in text


def test_options_and_file_give_the_same_settings():
    line = "store --output run --steps 7 --learning-rate 1e-3 --remat --lengths 32 64 --jit-compile no --model tiny"
    args = parser_of("pretrain").parse_args(line.split())
    given = {f.name: v for f in dataclasses.fields(PretrainSettings) if (v := getattr(args, f.name, None)) is not None}
    file = yaml.safe_load(
        "steps: 7\nlearning_rate: 1e-3\nremat: true\nlengths: [32, 64]\njit_compile: false\nmodel: tiny\n"
    )  # YAML 1.1 reads 1e-3 as a string
    assert PretrainSettings.from_dict(given) == PretrainSettings.from_dict(file)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 3}, "got step; did you mean steps"),
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0; got 'fast'"),
        ({"next_sentence": "maybe"}, "next_sentence must be one of 'nsp', 'sop', 'none'; got 'maybe'"),
        ({"held_out": 0.9}, "held_out must be a number from 0 to 0.5"),
        (
            {"batch_size": 6, "gradient_accumulation_steps": 4},
            "must be a multiple of gradient_accumulation_steps=4; got 6",
        ),
        ({"phases": [{"steps": 1}]}, "a phase must have steps, batch_size and seq_len"),
        ({"phases": 3}, "phases must be a list"),
        ({"lengths": 3}, "lengths must be a list"),
        ({"lengths": [64, "96"]}, "lengths must be whole numbers; got"),
        ({"remat": "no"}, "remat must be one of True, False; got 'no'"),
        ({"log_to": "disk"}, "log_to must be one of 'tensorboard', 'mlflow', 'wandb', None; got 'disk'"),
    ],
)
def test_invalid_values_are_an_error(settings, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        PretrainSettings.from_dict(settings)


def test_a_model_that_is_neither_a_size_nor_a_file_is_an_error():
    with pytest.raises(
        ValueError,
        match=r"one of the sizes tiny, mini, .*transformer-base, transformer-big, electra-small, .*, or the config file",
    ):
        PretrainSettings(model="huge").model_config(100, 0)


# The number of predicted positions follows from the masking rate, unless another number is given.


WORDS = 20
TABLES = vocabulary_tables([*SPECIAL, *(f"w{i}" for i in range(WORDS)), *(f"##p{i}" for i in range(WORDS))])


def predictions(seq_len, mask_rate, **given):
    (phase,) = PretrainSettings(seq_len=seq_len, mask_rate=mask_rate, **given).all_phases
    return phase.max_predictions


def examples(seq_len, pieces=0.0, seed=0):
    """An example for every number of tokens without the special ones, two or three: ids, and where the tokens are."""
    contents = [(special, count) for special in (2, 3) for count in range(1, seq_len - special + 1)]
    rng = np.random.default_rng(seed)
    ids = rng.integers(FIRST, FIRST + WORDS, (len(contents), seq_len))
    ids += WORDS * (rng.random(ids.shape) < pieces)
    columns = np.arange(seq_len)
    return ids, np.array([(columns > special - 2) & (columns < special - 1 + count) for special, count in contents])


def chosen(ids, maskable, most, mask_rate, unit="token"):
    return mask_tokens(keys(3, 0, np.arange(len(ids))), ids, maskable, TABLES, most, unit, mask_rate)[1]


@given(st.integers(5, 150), st.floats(0, 1))
def test_no_example_of_any_length_has_fewer_than_the_rate_requires(seq_len, mask_rate):
    ids, maskable = examples(seq_len)
    found = chosen(ids, maskable, predictions(seq_len, mask_rate), mask_rate)
    np.testing.assert_array_equal(found, chosen(ids, maskable, seq_len, mask_rate))


@given(st.integers(5, 60), st.floats(0, 1), st.sampled_from(["whole_word", "ngram"]), st.floats(0, 0.8), st.integers(0, 99))
def test_words_and_spans_are_left_out_only_where_the_shortest_is_longer(seq_len, mask_rate, unit, pieces, seed):
    ids, maskable = examples(seq_len, pieces, seed)
    most = predictions(seq_len, mask_rate)
    found, without = (chosen(ids, maskable, limit, mask_rate, unit) for limit in (most, seq_len))
    units = masking_units(keys(3, 0, np.arange(len(ids))), ids, maskable, TABLES, UNITS[unit])
    for row in np.flatnonzero((found != without).any(axis=1)):
        sizes = np.unique(units[row][maskable[row]], return_counts=True)[1]
        assert sizes.min() > most
        assert not found[row].any()


@pytest.mark.parametrize("mask_rate", [0.15, 0.25, 0.4])
def test_the_batches_of_a_run_have_the_given_rate(mask_rate):
    settings = PretrainSettings(steps=8, seq_len=128, short_seq_prob=0, next_sentence="none", batch_size=16)
    settings = replace(settings, mask_rate=mask_rate)  # as `pretrain` merges single settings
    batches = training_batches(small_corpus(documents=4, passages=200), settings.all_phases[0], settings)
    inputs = [batches[i][0] for i in range(len(batches))]
    tokens = sum((ids >= FIRST).sum() + (ids == MASK).sum() for ids, _, _ in inputs)
    assert abs(sum(chosen.sum() for *_, chosen in inputs) / tokens - mask_rate) < 0.005


def test_a_given_number_is_used_at_any_rate_and_the_default_at_15_percent_is_unchanged():
    assert predictions(128, 0.4, max_predictions=20) == 20
    assert [predictions(length, 0.15) for length in (16, 64, 128, 512)] == [4, 11, 21, 78]
    assert predictions(32, 1.0) == 32


def test_every_phase_has_its_own_number():
    phases = [{"steps": 1, "batch_size": 4, "seq_len": 20}, Phase(steps=1, batch_size=4, seq_len=30, max_predictions=3)]
    settings = PretrainSettings(phases=phases, mask_rate=0.3)
    assert [phase.max_predictions for phase in settings.all_phases] == [7, 3]
    assert [phase["max_predictions"] for phase in settings.resolved()["phases"]] == [7, 3]
    assert [phase.max_predictions for phase in settings.phases] == [None, 3]


def test_a_plan_counts_the_predictions_of_the_rate():
    made = [plan("tiny", gpu="h100", seq_len=128, **given) for given in ({}, {"mask_rate": 0.4}, {"max_predictions": 53})]
    assert made[0].flops < made[1].flops == made[2].flops
