"""Options for the device: they are applied before a verb runs, and nothing that they cannot do stops it."""

import argparse

import pytest
from helpers.command_line import run_verb, save_small_model

from keras_bert_rebuild.cli import device_options
from keras_bert_rebuild.cli.device_options import add_device_options, apply_device_options


@pytest.fixture
def calls(monkeypatch):
    """What was set."""
    made = []
    monkeypatch.setattr(device_options, "set_matmul_precision", lambda precision: made.append(precision))
    monkeypatch.setattr(device_options, "keep_compiled_programs", lambda folder: made.append(folder))
    monkeypatch.setattr(device_options, "keep_no_programs", lambda: made.append("no programs"))
    return made


def applied(*arguments):
    parser = argparse.ArgumentParser()
    add_device_options(parser)
    apply_device_options(parser.parse_args(arguments))


def test_programs_are_kept_unless_the_option_says_none(calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    applied()
    applied("--compilation-cache", "none", "--matmul-precision", "highest")
    applied("--compilation-cache", "programs")
    assert calls == ["default", None, "highest", "no programs", "default", tmp_path / "programs"]


def test_a_fine_tuning_spends_less_time_compiling(calls, monkeypatch):
    monkeypatch.setattr(device_options, "compile_quickly", lambda: calls.append("quickly"))
    parser = argparse.ArgumentParser()
    parser.set_defaults(verb="finetune")
    add_device_options(parser)
    apply_device_options(parser.parse_args([]))
    assert calls == ["default", "quickly", None]


def test_a_verb_without_the_options_sets_nothing(calls, capsys):
    assert run_verb("vocab", capsys, "nowhere.txt", "--output", "vocab.txt", "--size", 100).code == 2
    assert calls == []


def test_programs_that_cannot_be_kept_are_a_note(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(device_options, "keep_compiled_programs", lambda folder: f"{folder} is not writable")
    (tmp_path / "texts.txt").write_text("the cat\n")
    folder = save_small_model(tmp_path / "model")
    arguments = (tmp_path / "texts.txt", "--model", folder, "--output", tmp_path / "a.npy", "--max-len", 8)
    said = run_verb("embed", capsys, *arguments, "--compilation-cache", tmp_path, "--batch-tokens", 64)
    assert said.code == 0
    assert f"keras-bert embed: compiled programs are not kept: {tmp_path} is not writable\n" in said.err


def test_an_unknown_precision_is_refused(capsys, tmp_path):
    said = run_verb("embed", capsys, "a.txt", "--model", "m", "--output", tmp_path / "a.npy", "--matmul-precision", "exact")
    assert said.code == 2
    assert "unknown value 'exact'" in said.err
