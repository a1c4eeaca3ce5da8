"""`keras-bert distill`: options, files, exit codes."""

import dataclasses
import re

import pytest
from helpers import small_runs
from helpers.command_line import run_verb, said_by_verb

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.cli.options import VERBS, option_of
from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.pretraining.distill import DistillSettings


def test_every_setting_has_an_option_or_a_reason_for_none(capsys):
    said = run_verb("distill", capsys, "--help").out
    for field in dataclasses.fields(DistillSettings):
        shown = re.search(f"{option_of(field.name)}[ ,\n]", said) is not None
        assert shown == (field.name not in VERBS["distill"]["without"]), field.name


@pytest.mark.slow(torch=True)
def test_from_text_to_a_student_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    who, does, what = ("the miller", "her sister", "a fox"), ("found", "lost", "sold"), ("a ring", "the mill", "two geese")
    tales = [[f"on day {a + 7 * b} {who[a % 3]} {does[b % 3]} {what[(a + b) % 3]} ." for a in range(6)] for b in range(30)]
    (tmp_path / "tales.txt").write_text("\n\n".join("\n".join(passages) for passages in tales))
    said_by_verb("vocab", capsys, "tales.txt", "--vocab-size", 170, "--output", "vocab.txt")
    said_by_verb("prepare", capsys, "tales.txt", "--tokenizer", "vocab.txt", "--output", "tokens", "--processes", 1)
    sizes = "num_hidden_layers: 2\n  hidden_size: 16\n  num_attention_heads: 2\n  intermediate_size: 16"
    jit = f"jit_compile: {str(small_runs.SETTINGS['jit_compile']).lower()}\n"
    (tmp_path / "t.yaml").write_text(f"model:\n  {sizes}\n{jit}")
    (tmp_path / "s.yaml").write_text(f"student:\n  hidden_dropout_prob: 0.0\n{jit}")
    options = ["--steps", 2, "--batch-size", 8, "--seq-len", 16, "--held-out", 0, "--no-tensorboard", "--workers", 0]
    said_by_verb("pretrain", capsys, "tokens", "--output", "t", "--settings", "t.yaml", "--next-sentence", "none", *options)
    maps = "--hidden-layers 2:1 0:0 --hidden-measure mse --relation-weight 1 --relations query-key value-value --relation-heads 4"
    small = "--num-hidden-layers 1 --hidden-size 8"
    command = [
        "distill",
        capsys,
        "tokens",
        "--teacher",
        "t/model",
        "--output",
        "run",
        "--settings",
        "s.yaml",
        *f"{small} {maps}".split(),
        *options,
    ]
    said = said_by_verb(*command)
    assert [line.split()[-1] for line in said.out.splitlines()] == ["run/model", "run/metrics.csv"]
    config = from_pretrained("run/model").config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (1, 8, 1)
    assert config.hidden_dropout_prob == 0.0
    settings = read_yaml(tmp_path / "run/settings.yaml")
    assert (settings["hidden_layers"], settings["relations"]) == (["2:1", "0:0"], ["query-key", "value-value"])
    assert settings["teacher"] == "t/model"
    assert "model" not in settings
    said = run_verb(*command, "--temperature", "3")
    assert said.code == 2
    assert "temperature was 2.0 and is 3.0" in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hidden-layers", "top"], "hidden_layers must be 'last', 'uniform' or pairs TEACHER:STUDENT such as 12:6"),
        (["--soft-weight", "0", "--hidden-weight", "0"], "one of soft_weight, hidden_weight, relation_weight must be above 0"),
        (["--steps", "5", "--minutes", "1"], "--steps and --minutes exclude each other"),
        ([], "expected a folder that `keras-bert prepare` wrote; tokens does not exist"),
    ],
)
def test_an_error_is_one_sentence(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run_verb("distill", capsys, "tokens", "--teacher", "teacher", "--output", "run", *options)
    assert said.code == 2
    assert message in said.err
    assert not (tmp_path / "run").exists()
