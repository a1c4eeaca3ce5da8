"""A whole training by a recipe: its folder, its score, and resumption at any stage."""

import functools
import os
import signal

import keras
import numpy as np
import pytest
import yaml
from helpers.small_recipe import RECIPE, write_recipe, write_text

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.recipes.pretraining import pretrain_recipe as module
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.masked_score import masked_score
from keras_bert_rebuild.recipes.pretraining.pretrain_recipe import Quiet, pretrain_recipe
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

# Whole trainings.
pytestmark = pytest.mark.slow

trained = functools.partial(pretrain_recipe, steps=4, processes=1, evaluate_steps=2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("corpus") / "text.txt")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("recipe") / "small.yaml")


@pytest.fixture(scope="module")
def whole(corpus, recipe, tmp_path_factory):
    """The folder of an uninterrupted training, and its result."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return folder, trained(corpus, folder, recipe)


def weights_of(folder):
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in from_pretrained(folder / "run" / "model").weights}


def assert_same(folder, other):
    ours, theirs = weights_of(folder), weights_of(other)
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        np.testing.assert_array_equal(value, theirs[path], err_msg=path)
    assert (folder / "vocab.txt").read_bytes() == (other / "vocab.txt").read_bytes()
    assert (folder / "score.yaml").read_text() == (other / "score.yaml").read_text()


def test_the_folder_has_all_that_was_made(whole):
    folder, result = whole
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [
        "recipe.yaml",
        "run",
        "score.yaml",
        "tokens",
        "vocab.txt",
    ]
    assert result.folder == folder / "run" / "model"
    trained_weights = {weight.path: keras.ops.convert_to_numpy(weight) for weight in result.model.weights}
    for path, value in weights_of(folder).items():
        np.testing.assert_array_equal(value, trained_weights[path], err_msg=path)


def test_the_vocabulary_has_no_piece_of_a_word_that_only_held_out_text_has(whole):
    folder, _ = whole
    store = TokenStore(folder / "tokens")
    train, held_out = split_documents(store, 0.2)
    only = set(held_out.ids_at(np.arange(held_out.num_tokens)).tolist()) - set(train.ids_at(np.arange(train.num_tokens)).tolist())
    # Their names are spelled with pieces of others: no held-out name is one token, as every name of the training text is.
    assert all(len(store.vocabulary[i].removeprefix("##")) < 3 for i in only)
    names = {token for token in store.vocabulary if len(token) == 3 and set(token) <= set("abcdefghij")}
    assert len(names & {f"{a}{b}{c}" for a in "a" for b in "ab" for c in "abcdefghij"}) == 16


def test_the_score_is_that_of_the_model_on_the_documents_held_out(whole):
    folder, result = whole
    train, held_out = split_documents(TokenStore(folder / "tokens"), 0.2)
    assert masked_score(result.folder, held_out, train) == result.score
    assert result.score.positions > 10


def test_the_plan_is_what_the_run_does(whole):
    _, result = whole
    plan = result.plan
    assert (plan.steps, plan.tokens) == (4, 1 * 2 * 12 + 3 * 4 * 16)
    assert plan.num_params == result.model.count_params()
    assert plan.memory > 12 * plan.num_params
    assert plan.minutes > 0


STAGES = {
    "the counting of words": (module, "train_vocabulary"),
    "the tokens": (module, "prepare"),
    "the choice of a size": (module, "choose_size"),
    "the first step": (module, "pretrain"),
    "the score": (module, "masked_score"),
}


@pytest.mark.parametrize(
    "stage",
    [stage if stage == "the choice of a size" else pytest.param(stage, marks=pytest.mark.slow(torch=True)) for stage in STAGES],
)
def test_a_training_that_is_stopped_before_a_stage_goes_on_there(corpus, recipe, whole, tmp_path, monkeypatch, stage):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*STAGES[stage], stopped)
        with pytest.raises(KeyboardInterrupt):
            trained(corpus, tmp_path / "out", recipe)
    done = []
    for name in ("train_vocabulary", "choose_size"):
        monkeypatch.setattr(module, name, functools.partial(_noting, done, name, getattr(module, name)))
    trained(corpus, tmp_path / "out", recipe)
    assert_same(tmp_path / "out", whole[0])
    stages = list(STAGES)
    assert ("train_vocabulary" in done) == (stage == stages[0])
    assert ("choose_size" in done) == (stages.index(stage) <= 2)


def _noting(done, name, function, *args, **kwargs):
    done.append(name)
    return function(*args, **kwargs)


@pytest.mark.slow(torch=True)
def test_a_training_that_a_signal_stops_resumes_at_the_step(corpus, recipe, whole, tmp_path, monkeypatch):
    made = training_run.StopOnSignal.on_train_batch_end
    with monkeypatch.context() as patched:

        def stopping(self, batch, logs=None):
            os.kill(os.getpid(), signal.SIGTERM)
            made(self, batch, logs)

        patched.setattr(training_run.StopOnSignal, "on_train_batch_end", stopping)
        with pytest.raises(StoppedError):
            trained(corpus, tmp_path / "out", recipe)
    assert not (tmp_path / "out" / "score.yaml").exists()
    trained(corpus, tmp_path / "out", recipe)
    assert_same(tmp_path / "out", whole[0])


def test_a_training_that_is_over_is_not_begun_again(corpus, recipe, whole):
    folder, result = whole
    before = (folder / "run" / "metrics.csv").read_bytes()
    again = trained(corpus, folder, recipe)
    assert (again.score, again.plan.settings, again.plan.tokens) == (result.score, result.plan.settings, result.plan.tokens)
    assert (folder / "run" / "metrics.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": 5}, "steps was 4 and is 5"),
        ({"mask_rate": 0.2}, "mask_rate was None and is 0.2"),
        ({"vocab_size": 230}, "vocab_size was 220 and is 230"),
        ({"recipe": "bert"}, "holds another training"),
    ],
)
def test_a_folder_of_another_training_is_refused_and_stays(corpus, recipe, whole, change, sentence):
    folder, _ = whole
    before = (folder / "recipe.yaml").read_bytes()
    with pytest.raises(ValueError, match=sentence):
        trained(corpus, folder, **{"recipe": recipe, **change})
    assert (folder / "recipe.yaml").read_bytes() == before


def test_what_may_change_when_a_run_is_resumed_may_change_here(corpus, recipe, whole):
    folder, result = whole
    assert trained(corpus, folder, recipe, evaluate_steps=1, log_steps=7).score == result.score


@pytest.mark.slow(torch=True)
def test_folders_of_tokens_and_a_vocabulary_of_the_user_are_taken(corpus, recipe, whole, tmp_path):
    folder, result = whole
    given = trained(corpus, tmp_path / "given", recipe, vocabulary=folder / "vocab.txt")
    assert given.score == result.score
    assert not (tmp_path / "given" / "vocab.txt").exists()
    tokens = trained(folder / "tokens", tmp_path / "tokens", recipe)
    assert tokens.score == result.score
    assert not (tmp_path / "tokens" / "tokens").exists()


@pytest.mark.slow(torch=True)
def test_several_corpora_have_one_vocabulary_and_are_mixed(corpus, recipe, tmp_path):
    other = write_text(tmp_path / "other.txt", documents=9)
    other.write_text(other.read_text().replace("mat", "roof"))
    result = trained([corpus, other], tmp_path / "out", recipe, mix=[3, 1])
    stores = [TokenStore(tmp_path / "out" / "tokens" / name) for name in ("0001", "0002")]
    assert stores[0].vocabulary == stores[1].vocabulary
    assert "roof" in stores[0].vocabulary
    assert result.score.positions > 10


@pytest.mark.slow(torch=True)
def test_without_held_out_text_there_is_no_score(corpus, recipe, tmp_path):
    result = trained(corpus, tmp_path / "out", recipe, held_out=0)
    assert result.score is None
    assert not (tmp_path / "out" / "score.yaml").exists()


@pytest.mark.slow(torch=True)
def test_the_generator_of_electra_is_scored(corpus, recipe, tmp_path):
    result = trained(corpus, tmp_path / "out", recipe, objective="electra", generator_size=0.5)
    assert result.folder.name == "model"
    train, held_out = split_documents(TokenStore(tmp_path / "out" / "tokens"), 0.2)
    assert masked_score(tmp_path / "out" / "run" / "generator", held_out, train) == result.score


def test_what_is_done_is_told_in_its_order(corpus, recipe, tmp_path):
    told = []

    class Told(Quiet):
        def reading(self, what, file_bytes):
            told.append(what)
            return super().reading(what, file_bytes)

        def planned(self, plan):
            told.append(plan.config.hidden_size)

        def training(self, steps):
            told.append(steps)
            return super().training(steps)

    trained(corpus, tmp_path / "out", recipe, tell=Told(), model=RECIPE["sizes"][1]["model"], steps=1)
    assert told == ["counting words", "tokenising", 256, 1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": None}, "a recipe needs a budget"),
        ({"decay_from": "run"}, "decay_from must be left out with a recipe: it continues a run with its own settings"),
        ({"hosts": 2}, "hosts must be left out with a recipe"),
        ({"lengths": [8]}, "lengths must be left out with packing"),
        ({"mix": [1, 2]}, "mix must have a weight for every corpus; got 2 for 1"),
        ({"held_out": 0.45, "vocab_size": 105}, "size must be at least"),
        ({"model": "hugge"}, "one of the sizes"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(corpus, recipe, tmp_path, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        trained(corpus, tmp_path / "out", recipe, **change)


def test_text_and_tokens_together_and_a_missing_corpus_are_refused(corpus, recipe, whole, tmp_path):
    tokens = whole[0] / "tokens"
    with pytest.raises(ValueError, match="all text or all folders of tokens"):
        trained([corpus, tokens], tmp_path / "out", recipe)
    with pytest.raises(ValueError, match=r"none\.txt does not exist"):
        trained(tmp_path / "none.txt", tmp_path / "out", recipe)
    with pytest.raises(ValueError, match="vocabulary is for text"):
        trained(tokens, tmp_path / "out", recipe, vocabulary=whole[0] / "vocab.txt")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(corpus, recipe, whole, tmp_path):
    with pytest.raises(ValueError, match="holds a token store and not a training by a recipe"):
        trained(corpus, whole[0] / "tokens", recipe)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"it holds|holds letter\.txt"):
        trained(corpus, tmp_path, recipe)


def test_a_decision_that_was_damaged_is_refused(corpus, recipe, whole, tmp_path):
    values = yaml.safe_load((whole[0] / "recipe.yaml").read_text())
    (tmp_path / "vocab.txt").write_text("")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({**values, "decided": {"size": 9, "flops_per_second": 1.0}}))
    with pytest.raises(ValueError, match="must be the file of a training by a recipe"):
        trained(corpus, tmp_path, recipe)


def test_a_training_that_made_nothing_yet_may_be_another_one(corpus, recipe, tmp_path):
    with pytest.raises(ValueError, match="size must be at least"):
        trained(corpus, tmp_path / "out", recipe, vocab_size=105)
    trained(corpus, tmp_path / "out", recipe, steps=1)


@pytest.mark.slow(torch=True)
def test_a_budget_in_minutes_trains_as_long(corpus, recipe, tmp_path):
    result = trained(corpus, tmp_path / "out", recipe, steps=None, evaluate_steps=None, minutes=0.02)
    assert result.plan.minutes == 0.02
    assert result.score.positions > 10


def test_prepare_gives_the_same_tokens_by_itself(corpus, whole, tmp_path):
    prepare(corpus, whole[0] / "vocab.txt", tmp_path / "tokens", cased=False, workers=1)
    assert TokenStore(tmp_path / "tokens").sha256 == TokenStore(whole[0] / "tokens").sha256
