"""`keras-bert pretrain` and `curves`: options, files, exit codes."""

import dataclasses
import functools
import signal
from xml.etree import ElementTree

import pytest
import yaml
from helpers.command_line import said_by_verb
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.options import VERBS, option_of, settings_fields
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.recipes.pretraining import pretrain as recipe
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

said_by = functools.partial(said_by_verb, "pretrain")


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The arguments that `pretrain` was called with, in a separate folder, without a training."""
    monkeypatch.chdir(tmp_path)
    calls = []

    def instead(store, output, settings, report):
        report({"step": 0})
        report({"step": settings.total_steps, "mlm_loss": 2.0})
        calls.append((str(store), str(output), settings))

    monkeypatch.setattr(recipe, "pretrain", instead)
    return calls


def test_every_setting_except_the_phases_has_an_option_with_help(capsys):
    assert settings_fields(VERBS["pretrain"]["settings"]).keys() == {field.name for field in dataclasses.fields(PretrainSettings)}
    said = said_by(capsys, "--help").out
    for field in dataclasses.fields(PretrainSettings):
        assert (f"{option_of(field.name)}" in said) == (field.name != "phases")


def test_a_file_and_options_give_the_same_settings_and_options_win(called, capsys, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "model: tiny\nsteps: 30\nlearning_rate: 1e-3\nlengths: [64, 96]\njit_compile: false\nema: 0.9\n"
    )
    said = said_by(capsys, "store", "--output", "run", "--settings", "s.yaml", "--steps", 40, "--no-tensorboard")
    options = "--model tiny --steps 40 --learning-rate 1e-3 --lengths 64 96 --jit-compile no --ema 0.9 --no-tensorboard"
    said_by(capsys, "store", "--output", "run", *options.split())
    assert called[0] == called[1]
    assert called[0][2] == PretrainSettings(
        model="tiny", steps=40, learning_rate=1e-3, lengths=(64, 96), jit_compile=False, ema=0.9, tensorboard=False
    )
    assert "run/model" in said.out
    assert "run/metrics.csv" in said.out


def test_several_folders_are_mixed_by_weight(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    corpora = []
    monkeypatch.setattr(recipe, "pretrain", lambda store, output, settings, report: corpora.append(store))
    (tmp_path / "v.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    for name, text in (("one", "a b a"), ("two", "b")):
        (tmp_path / f"{name}.txt").write_text(text)
        prepare(tmp_path / f"{name}.txt", tmp_path / "v.txt", tmp_path / name, workers=1)
    said_by(capsys, "one", "two", "--output", "run", "--mix", 1, 4)
    said_by(capsys, "one", "two", "--output", "run")
    assert [corpus.shares.tolist() for corpus in corpora] == [[0.2, 0.8], [0.75, 0.25]]
    assert "one weight for every token store; got 1 for 2" in said_by(capsys, "one", "two", "--output", "r", "--mix", 1, code=2).err


def test_phases_come_from_a_file(called, capsys, tmp_path):
    phases = [{"steps": 9, "batch_size": 4, "seq_len": 128}, {"steps": 1, "batch_size": 2, "seq_len": 512, "max_predictions": 77}]
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"phases": phases}))
    said_by(capsys, "store", "--output", "run", "--settings", "s.yaml")
    assert [phase.max_predictions for phase in called[0][2].all_phases] == [21, 77]
    said = said_by(capsys, "store", "--output", "run", "--settings", "s.yaml", "--seq-len", "64", code=2)
    assert "s.yaml has phases with their own steps, batches and lengths; got --max-seq-length as well." in said.err


def test_a_stop_by_a_signal_has_the_exit_code_of_the_signal(monkeypatch, capsys, tmp_path):
    def stopped(*args, **kwargs):
        raise StoppedError(3, 9, signal.SIGTERM)

    monkeypatch.setattr(recipe, "pretrain", stopped)
    said = said_by(capsys, "store", "--output", tmp_path / "run", code=128 + signal.SIGTERM)
    assert said.out == "Stopped after step 3 of 9, which is in a checkpoint. The same command resumes it.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing"),
        (["store", "--steps", "0"], "steps must be a whole number of at least 1; got 0."),
        (["store", "--model", "huge"], "one of the sizes"),
        (["store", "--settings", "nothing.yaml"], "nothing.yaml; it does not exist"),
        (["store", "--settings", "wrong.yaml"], "did you mean learning_rate"),
        (["store", "--remat=maybe"], "--remat: takes no value; got 'maybe'"),
        (["store", "--masking", "letters"], "unknown value"),
        (["store", "--seq-len", "9", "--batch-size", "3", "--gradient-accumulation-steps", "2"], "must be a multiple"),
        (["store", "--init", "nowhere", "--seq-len", "9"], "nowhere"),
    ],
)
def test_wrong_input_exits_with_2_and_writes_nothing(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    corpus = small_corpus()
    monkeypatch.setattr(recipe, "TokenStore", lambda path: corpus if str(path) == "store" else TokenStore(path))
    (tmp_path / "wrong.yaml").write_text("lerning_rate: 1")
    said = said_by(capsys, *arguments, "--output", "run", code=2)
    assert message in said.err
    assert not (tmp_path / "run").exists()


def test_the_curves_are_in_the_folder_of_the_run(capsys, tmp_path):
    assert main(["curves", str(tmp_path)]) == 2
    assert f"expected the metrics.csv of a run; {tmp_path / 'metrics.csv'} does not exist." in capsys.readouterr().err
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2.5\n2,2\n", encoding="utf-8")
    assert main(["curves", str(tmp_path)]) == 0
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<svg")
    assert main(["curves", str(tmp_path / "metrics.csv"), "--output", str(tmp_path / "other.svg")]) == 0
    assert (tmp_path / "other.svg").read_bytes() == (tmp_path / "curves.svg").read_bytes()


def test_the_name_of_a_column_is_a_text_in_the_picture(tmp_path):
    name = 'x<script>window.found=1</script>y"onload="'
    (tmp_path / "metrics.csv").write_text(
        f'step,"probe_{name.replace(chr(34), chr(34) * 2)}_accuracy"\n1,0.1\n2,0.4\n', encoding="utf-8"
    )
    assert main(["curves", str(tmp_path)]) == 0
    elements = list(ElementTree.parse(tmp_path / "curves.svg").iter())
    assert [one for one in elements if one.tag.endswith("script")] == []
    assert f"Probe {name}: accuracy" in [one.text for one in elements]
