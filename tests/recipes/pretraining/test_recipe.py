"""Recipes: the files of the package, settings that override those of a file, and the size that a budget allows."""

import importlib.resources
import re

import pytest
import yaml
from helpers.hostile_inputs import fault_of, mutations
from helpers.small_runs import RECIPE, write_recipe

from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.recipe import PRESETS, Recipe, choose_size, name_of, plan_of, read_recipe
from keras_bert_rebuild.recipes.step_costs import embedding_params, num_params

FILES = importlib.resources.files("keras_bert_rebuild.recipes.pretraining") / "presets"


@pytest.fixture
def recipe():
    return Recipe(**RECIPE)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_in_the_package_and_each_of_its_sizes_is_a_run(name):
    recipe = read_recipe(name)
    for size in range(len(recipe.sizes)):
        settings = recipe.settings(size, {"minutes": 30})
        sizes = settings.model_config(recipe.vocab_size, 0)
        assert sizes.num_params(settings.heads) > 0
        assert max(phase.seq_len for phase in settings.all_phases) <= sizes.max_length


def test_the_folder_of_presets_has_no_other_file():
    assert sorted(path.name for path in FILES.iterdir()) == sorted(f"{name}.yaml" for name in PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_has_a_line_on_where_it_comes_from(name):
    lines = (FILES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    above, missing = "", []
    for line in lines:
        key = re.match(r" {0,2}([a-z_0-9]+):", line)
        if key and key[1] != "training" and not above:
            missing.append(key[1])
        # A comment holds for the keys below it, up to a blank line; a list belongs to its key.
        above = line if line.lstrip().startswith("#") else "" if not line.strip() or line == "training:" else above
    assert missing == []


def test_the_recipe_of_2018_is_that_of_the_paper():
    settings = read_recipe("bert").settings(4, {"steps": 1_000_000})
    assert [(phase.steps, phase.batch_size, phase.seq_len) for phase in settings.all_phases] == [
        (900_000, 256, 128),
        (100_000, 256, 512),
    ]
    assert (settings.learning_rate, settings.beta_2, settings.weight_decay) == (1e-4, 0.999, 0.01)
    assert settings.warmup_of(settings.total_steps) == 10_000
    assert (settings.schedule, settings.next_sentence, settings.mask_rate) == ("linear", "nsp", 0.15)
    assert read_recipe("bert").settings(4, {"steps": 100, "packing": True}).next_sentence == "nsp"
    config = settings.model_config(30522, 0)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert config.num_params(("mlm", "nsp")) == 110_106_428


def test_the_modern_recipe_has_what_it_is_named_for():
    settings = read_recipe("modern").settings(0, {"minutes": 30})
    assert (settings.packing, settings.next_sentence, settings.mask_rate) == (True, "none", 0.3)
    config = settings.model_config(30000, 0)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0, 0)
    rows = [phase.batch_size * phase.seq_len for phase in settings.all_phases]
    assert rows == sorted(rows)
    lengths = [phase.seq_len for phase in settings.all_phases]
    assert lengths == sorted(lengths)


def test_an_option_wins_over_the_recipe(recipe):
    assert recipe.settings(0, {"steps": 4, "mask_rate": 0.2}).mask_rate == 0.2
    assert recipe.settings(0, {"steps": 4, "model": "tiny"}).model == "tiny"


def test_an_option_that_phases_have_replaces_it_in_all_of_them(recipe):
    phases = recipe.settings(0, {"steps": 8, "batch_size": 6, "seq_len": 20}).all_phases
    assert [(phase.steps, phase.batch_size, phase.seq_len) for phase in phases] == [(2, 6, 20), (6, 6, 20)]


def test_the_steps_of_phases_are_shares_of_the_steps_of_the_user(recipe):
    for steps in (1, 2, 3, 5, 100, 1001):
        assert recipe.settings(0, {"steps": steps}).total_steps == steps
    assert [phase.steps for phase in recipe.settings(0, {"steps": 1000}).all_phases] == [250, 750]


def test_another_schedule_takes_what_only_the_one_of_the_recipe_has_with_it(recipe):
    assert recipe.settings(0, {"steps": 4, "schedule": "cosine"}).decay_fraction is None


def test_a_size_may_have_settings_of_its_own():
    sizes = [{**RECIPE["sizes"][0], "learning_rate": 3e-3}, RECIPE["sizes"][1]]
    recipe = Recipe(**{**RECIPE, "sizes": sizes})
    rates = [recipe.settings(size, {"steps": 4}).learning_rate for size in (0, 1)]
    assert rates == [3e-3, 1e-2]
    assert recipe.settings(0, {"steps": 4, "learning_rate": 1e-5}).learning_rate == 1e-5


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"generator_size": 0.5}, "generator_size is for objective='electra'"),
        ({"objective": "xlnet"}, "packing must be left out with objective='xlnet'"),
        ({"lengths": [8]}, "lengths must be left out with packing"),
        ({"decay_fraction": 0.1, "schedule": "linear"}, "decay_fraction is for schedule='trapezoidal'"),
        ({"minutes": 3}, "minutes choose the number of steps"),
    ],
)
def test_an_option_that_the_recipe_cannot_have_is_refused_in_a_sentence(recipe, given, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        recipe.settings(0, {"steps": 4, **given})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vocab_size": 3}, "vocab_size must be a whole number above 104"),
        ({"cased": "no"}, "cased must be true or false"),
        ({"sizes": []}, "sizes must be a list of at least one size"),
        ({"sizes": [{"learning_rate": 1}]}, "a size must have a model"),
        ({"sizes": [{"model": {"width": 3}}]}, "fields of a BertConfig"),
        ({"tokens_per_parameter": -1}, "tokens_per_parameter must be"),
        ({"training": {"steps": 5}}, "training must leave out steps"),
        ({"training": {"minutes": 5, "hosts": 2}}, "training must leave out minutes, hosts"),
        ({"training": {"learning_rat": 5}}, "did you mean learning_rate"),
        ({"training": [1]}, "training must have settings"),
        ({"size": []}, "did you mean sizes"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_in_a_sentence_with_its_name(tmp_path, change, sentence):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **change}))
    with pytest.raises(ValueError, match=f"^the recipe .*own.yaml: .*{re.escape(sentence)}"):
        read_recipe(path)


def test_a_value_of_a_wrong_type_is_a_sentence_that_names_the_file(tmp_path):
    path, faults = tmp_path / "own.yaml", []
    good = {**RECIPE, "sizes": RECIPE["sizes"][:1], "training": {**RECIPE["training"], "objective": "mlm", "masking": "token"}}
    for where, mutated in mutations(good):
        path.write_text(yaml.safe_dump(mutated))

        def read():
            recipe = read_recipe(path)
            recipe.settings(0, {"steps": 8}).model_config(300, 0)

        fault = fault_of(read, str(path))
        faults += [] if fault is None else [f"{where}: {fault}"]
    assert faults == []


@pytest.mark.parametrize("values", [None, 3, "x", [], [["steps"]]])
def test_settings_are_by_name(values):
    with pytest.raises(ValueError, match="expected settings of a pretraining run, by name; got"):
        PretrainSettings.from_dict(values)


def test_a_recipe_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with pytest.raises(ValueError, match="one of bert, modern or the path of a YAML file; got 'modrn'"):
        read_recipe("modrn")


def test_a_file_is_read_as_it_is_written(tmp_path, recipe):
    path = write_recipe(tmp_path / "own.yaml")
    assert read_recipe(path).settings(0, {"steps": 9}) == recipe.settings(0, {"steps": 9})
    assert (name_of(path), name_of("modern")) == ("own", "modern")


def test_a_recipe_says_nothing_that_the_call_decides():
    for name in PRESETS:
        settings = read_recipe(name).settings(0, {"minutes": 1})
        assert settings.minutes == 1
        assert settings.distribute == PretrainSettings().distribute


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
