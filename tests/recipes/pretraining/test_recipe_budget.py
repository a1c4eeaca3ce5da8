"""The size that a budget allows, and the estimate of its training."""

import pytest
from helpers.small_recipe import RECIPE

from keras_bert_rebuild.recipes.pretraining.recipe import Recipe, choose_size, plan_of, read_recipe
from keras_bert_rebuild.recipes.step_costs import embedding_params, num_params

VOCAB = 10_000
RATE = 4e10


@pytest.fixture(scope="module")
def modern():
    return read_recipe("modern")


def plan(recipe, size, rate=RATE, **given):
    settings = recipe.settings(size, given)
    return plan_of(settings, settings.model_config(VOCAB, 0), 10**6, rate, 1)


def inner(recipe, size):
    settings = recipe.settings(size, {"steps": 1000})
    config = settings.model_config(VOCAB, 0)
    return num_params(config, settings) - embedding_params(config)


def test_the_sizes_of_the_presets_ascend():
    for name in ("bert", "modern"):
        recipe = read_recipe(name)
        sizes = [inner(recipe, size) for size in range(len(recipe.sizes))]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("minutes", [0.1, 3, 30, 300, 3000, 30_000])
def test_the_size_is_the_largest_that_sees_enough_tokens(modern, minutes):
    size = choose_size(modern, {"minutes": minutes}, VOCAB, RATE)
    ratios = [plan(modern, i, minutes=minutes).tokens / inner(modern, i) for i in range(len(modern.sizes))]
    enough = [i for i, ratio in enumerate(ratios) if ratio >= modern.tokens_per_parameter]
    assert size == max(enough, default=0)


def test_more_time_or_a_faster_device_never_has_a_smaller_model(modern):
    sizes = [choose_size(modern, {"minutes": minutes}, VOCAB, RATE) for minutes in (0.1, 1, 10, 100, 1000, 10**4, 10**6)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (0, len(modern.sizes) - 1)
    assert choose_size(modern, {"minutes": 100}, VOCAB, RATE) == choose_size(modern, {"minutes": 1}, VOCAB, 100 * RATE)


def test_a_number_of_steps_has_a_size_by_its_tokens_on_any_device(modern):
    found = {choose_size(modern, {"steps": 50_000}, VOCAB, rate) for rate in (1e9, 1e12, 1e15)}
    assert len(found) == 1


def test_a_model_of_the_user_has_the_settings_of_the_size_below_it(modern):
    fields = dict(modern.sizes[2]["model"])
    for change, expected in (
        ({}, 2),
        ({"num_hidden_layers": 8}, 2),
        ({"num_hidden_layers": 6}, 1),
        ({"hidden_size": 64, "num_attention_heads": 1}, 0),
    ):
        assert choose_size(modern, {"minutes": 1, "model": {**fields, **change}}, VOCAB, RATE) == expected
    assert choose_size(modern, {"minutes": 1, "init": "model"}, VOCAB, RATE) is None


def test_the_plan_has_the_tokens_of_the_minutes_at_the_rate():
    recipe = Recipe(**RECIPE)
    one, two = (plan(recipe, 0, minutes=minutes) for minutes in (1, 2))
    assert two.tokens == pytest.approx(2 * one.tokens, rel=1e-3)
    assert two.passes == pytest.approx(two.tokens / 10**6)
    assert (one.minutes, two.minutes) == (1, 2)
    back = plan(recipe, 0, steps=one.steps)
    assert back.minutes == pytest.approx(1, rel=0.3)  # the shares of the phases are of steps there, and of time here


def test_the_memory_is_that_of_the_largest_phase():
    recipe = Recipe(**RECIPE)
    small = plan(recipe, 0, steps=8, batch_size=2, seq_len=12).memory
    assert plan(recipe, 0, steps=8).memory > small
    assert plan(recipe, 0, steps=8).memory == plan(recipe, 0, steps=8, batch_size=4, seq_len=16).memory
