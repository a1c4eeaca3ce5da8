"""`keras-bert pretrain --recipe`: what is printed, refused and resumed."""

import functools
import os
import signal

import pytest
import yaml
from helpers.command_line import said_by_verb
from helpers.small_corpus import write_text
from helpers.small_runs import write_recipe

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.recipes.pretraining import training_run

said_by = functools.partial(said_by_verb, "pretrain")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path / "small.yaml")
    return write_text(tmp_path / "text.txt")


@pytest.mark.slow
def test_one_command_makes_everything_and_prints_the_plan_and_the_score(capsys, corpus, tmp_path):
    said = said_by(capsys, corpus, "--recipe", "small.yaml", "--steps", 4, "--processes", 1, "--mask-rate", 0.25)
    words = [line.split()[0] for line in said.out.splitlines()]
    assert words == ["learned", "tokens", "model", "plan", "about", "held", "unigram", "wrote", "curve"]
    assert "plan     4 steps of 2 x 12 then 4 x 16 tokens, 216 tokens" in said.out
    assert "bert, 1 blocks of 16" in said.out
    folder = tmp_path / "keras-bert-small"
    assert from_pretrained(folder / "run" / "model").config.hidden_size == 16
    assert yaml.safe_load((folder / "run" / "settings.yaml").read_text())["mask_rate"] == 0.25
    again = said_by(capsys, corpus, "--recipe", "small.yaml", "--steps", 4, "--processes", 1, "--mask-rate", 0.25)
    assert again.out.splitlines()[-4:] == said.out.splitlines()[-4:]
    assert "learned" not in again.out


@pytest.mark.slow(torch=True)
def test_a_signal_ends_it_with_its_number_and_the_same_command_goes_on(capsys, corpus, tmp_path, monkeypatch):
    made = training_run.StopOnSignal.on_train_batch_end
    call = (corpus, "--recipe", "small.yaml", "--steps", 4, "--processes", 1, "--output", "out")
    with monkeypatch.context() as patched:

        def stopping(self, batch, logs=None):
            os.kill(os.getpid(), signal.SIGTERM)
            made(self, batch, logs)

        patched.setattr(training_run.StopOnSignal, "on_train_batch_end", stopping)
        said = said_by(capsys, *call, code=128 + signal.SIGTERM)
    assert "Stopped after step" in said.out
    assert said.out.rstrip().endswith("The same command resumes it.")
    assert "held out loss" in said_by(capsys, *call).out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--recipe", "modern"], "--recipe needs a budget: add --minutes or --steps."),
        (["--recipe", "modern", "--minutes", 1, "--steps", 1], "--steps and --minutes exclude each other"),
        (["--recipe", "modern", "--minutes", 1, "--settings", "small.yaml"], "--recipe and --settings exclude each other"),
        (["--recipe", "modern", "--minutes", 1, "--lengths", 8], "lengths must be left out with packing"),
        (["--recipe", "modern", "--minutes", 1, "--generator-size", 0.5], "generator_size is for objective='electra'"),
        (["--recipe", "modern", "--minutes", 1, "--decay-from", "run"], "decay_from must be left out with a recipe"),
        (["--recipe", "modern", "--minutes", 1, "--hosts", 2], "hosts must be left out with a recipe"),
        (
            ["--recipe", "modern", "--minutes", 1, "--tokenizer", "v", "--vocab-size", 3],
            "--tokenizer and --vocab-size exclude each other",
        ),
        (["--recipe", "modern", "--minutes", 1, "--mix", 1, 2], "mix must have a weight for every corpus"),
        (["--recipe", "old", "--minutes", 1], "a recipe must be one of bert, modern or the path of a YAML file; got 'old'."),
        (["--recipe", "text.txt", "--minutes", 1], "text.txt"),
        (["--recipe", "modern", "--minutes", 1, "--tokenizer", "none.txt"], "none.txt"),
        (["--output", "out", "--tokenizer", "v.txt"], "--tokenizer is only for --recipe: add --recipe, or leave it out."),
        (["--output", "out", "--document-per-file"], "--document-per-file is only for --recipe"),
        (["--steps", 3], "--output FOLDER is required without --recipe: the folder of the run."),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence_and_nothing_is_made(capsys, corpus, tmp_path, options, sentence):
    before = sorted(path.name for path in tmp_path.iterdir())
    said = said_by(capsys, corpus, *options, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
