"""`keras-bert pretrain`, also by a recipe, `distill` and `curves`: options, files, exit codes, what is printed and resumed."""

import dataclasses
import functools
import os
import re
import signal
from xml.etree import ElementTree

import pytest
import yaml
from helpers import small_runs
from helpers.command_line import prepare_tales, run_verb, said_by_verb
from helpers.small_corpus import small_corpus, write_text
from helpers.small_runs import write_recipe

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.options import VERBS, option_of, settings_fields
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.pretraining import pretrain as recipe
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.distill import DistillSettings
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
    said = said_by(capsys, "--help-all").out
    for field in dataclasses.fields(PretrainSettings):
        assert (f"{option_of(field.name)}" in said) == (field.name != "phases")


def test_a_file_and_options_give_the_same_settings_and_options_win(called, capsys, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "model: tiny\nsteps: 30\nlearning_rate: 1e-3\nlengths: [64, 96]\njit_compile: false\nema: 0.9\n"
    )
    said = said_by(capsys, "store", "--output", "run", "--settings", "s.yaml", "--steps", 40)
    options = "--model tiny --steps 40 --learning-rate 1e-3 --lengths 64 96 --jit-compile no --ema 0.9"
    said_by(capsys, "store", "--output", "run", *options.split())
    assert called[0] == called[1]
    assert called[0][2] == PretrainSettings(
        model="tiny", steps=40, learning_rate=1e-3, lengths=(64, 96), jit_compile=False, ema=0.9
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
    said = said_by(capsys, "store", "--output", "run", "--settings", "s.yaml", "--max-seq-length", "64", code=2)
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
        (["store", "--steps", "0"], "--steps must be a whole number of at least 1; got 0."),
        (["store", "--model", "huge"], "one of the sizes"),
        (["store", "--settings", "nothing.yaml"], "nothing.yaml; it does not exist"),
        (["store", "--settings", "wrong.yaml"], "did you mean learning_rate"),
        (["store", "--remat=maybe"], "--remat: takes no value; got 'maybe'"),
        (["store", "--masking", "letters"], "unknown value"),
        (["store", "--max-seq-length", "9", "--batch-size", "3", "--gradient-accumulation-steps", "2"], "must be a multiple"),
        (["store", "--init", "nowhere", "--max-seq-length", "9"], "nowhere"),
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
        (["--recipe", "modern", "--minutes", 1, "--generator-size", 0.5], "--generator-size is for objective='electra'"),
        (["--recipe", "modern", "--minutes", 1, "--decay-from", "run"], "--decay-from must be left out with a recipe"),
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


def test_every_setting_has_an_option_or_a_reason_for_none(capsys):
    said = run_verb("distill", capsys, "--help-all").out
    for field in dataclasses.fields(DistillSettings):
        shown = re.search(f"{option_of(field.name)}[ ,\n]", said) is not None
        assert shown == (field.name not in VERBS["distill"]["without"]), field.name


@pytest.mark.slow(torch=True)
def test_from_text_to_a_student_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_tales(capsys, tmp_path)
    sizes = "num_hidden_layers: 2\n  hidden_size: 16\n  num_attention_heads: 2\n  intermediate_size: 16"
    jit = f"jit_compile: {str(small_runs.SETTINGS['jit_compile']).lower()}\n"
    (tmp_path / "t.yaml").write_text(f"model:\n  {sizes}\n{jit}")
    (tmp_path / "s.yaml").write_text(f"student:\n  hidden_dropout_prob: 0.0\n{jit}")
    options = ["--steps", 2, "--batch-size", 8, "--max-seq-length", 16, "--held-out", 0, "--workers", 0]
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
        (["--hidden-layers", "top"], "--hidden-layers must be 'last', 'uniform' or pairs TEACHER:STUDENT such as 12:6"),
        (["--soft-weight", "0", "--hidden-weight", "0"], "one of --soft-weight, --hidden-weight, --relation-weight must"),
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
