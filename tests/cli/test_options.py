"""The options of all verbs: declared in one file, with defaults in plain words, examples that parse, and what excludes what."""

import re
import shlex
from pathlib import Path

import pytest
from helpers.command_line import run_verb

from keras_bert_rebuild.cli import options
from keras_bert_rebuild.cli.option_values import missing_file
from keras_bert_rebuild.cli.options import TABLE, VERBS, option_of, options_of, settings_fields, with_default
from keras_bert_rebuild.cli.parsers import GROUPS, parsed, parser_of
from keras_bert_rebuild.config import HEADS
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.explain.accounting import DTYPES
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.kernels.device_settings import MATMUL_PRECISIONS
from keras_bert_rebuild.models.distillation_objectives import MEASURES
from keras_bert_rebuild.pretrained.save_pretrained import FORMATS as MODEL_FORMATS
from keras_bert_rebuild.recipes.finetuning import finetune_settings
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS, TPU_CHIPS
from keras_bert_rebuild.recipes.pretraining import distill, optimizer_settings, pretrain_settings
from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES
from keras_bert_rebuild.recipes.run_log import LOGS
from keras_bert_rebuild.recipes.settings import SIZES
from keras_bert_rebuild.tasks.registry import task_names
from keras_bert_rebuild.training.distributed.distribution import KINDS

# The demo has no table of settings.
SAID = [verb for verb in VERBS if verb != "demo"]
ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]
# Where the package has the words that the file of options repeats.
WORDS = {
    "tasks": [name.replace("_", "-") for name in task_names()],
    "sizes": SIZES,
    "released": released(),
    "optimizers": optimizer_settings.OPTIMIZERS,
    "objectives": OBJECTIVES,
    "next_sentence": pretrain_settings.NEXT_SENTENCE,
    "dtypes": pretrain_settings.DTYPES,
    "policies": DTYPES,
    "file_formats": FORMATS,
    "heads": HEADS,
    "tpu_chips": TPU_CHIPS,
    "gpu_cards": GPU_CARDS,
}
CHOICES = {
    ("pretrain", "--masking"): pretrain_settings.MASKING,
    ("pretrain", "--schedule"): optimizer_settings.SCHEDULES,
    ("pretrain", "--decay-shape"): optimizer_settings.DECAY_SHAPES,
    ("pretrain", "--distribute"): KINDS,
    ("pretrain", "--matmul-precision"): MATMUL_PRECISIONS,
    ("distill", "--start"): distill.STARTS,
    ("distill", "--relations"): distill.RELATIONS,
    ("distill", "--hidden-measure"): MEASURES,
    ("finetune", "--objective"): finetune_settings.all_objectives(),
    ("finetune", "--log-to"): LOGS,
    ("convert", "--format"): MODEL_FORMATS,
}


@pytest.mark.parametrize("name", sorted(TABLE["words"].keys() - {"methods"}))
def test_words_are_those_of_the_package(name):
    assert TABLE["words"][name] == list(WORDS[name])


@pytest.mark.parametrize(("verb", "option"), CHOICES)
def test_choices_are_those_of_the_package(verb, option):
    assert options_of(verb)[option]["choices"] == list(CHOICES[verb, option])


@pytest.mark.parametrize("verb", SAID)
def test_a_value_that_may_be_left_out_has_its_default_in_the_help(verb):
    for name, option in options_of(verb).items():
        value = option.get("action") != "store_true" and name.startswith("-")
        if value and not option.get("required") and name not in ("--settings", "--calibrate"):
            assert "default" in option["help"], option


@pytest.mark.parametrize("verb", SAID)
def test_a_help_is_for_a_shell_and_not_for_python(verb):
    for name, option in options_of(verb).items():
        assert not re.search(r"\bNone\b|\bTrue\b|BertConfig|`|='|\[\d", option["help"]), option
        assert not name.startswith("-") or name in GROUPS, option


def test_settings_are_read_as_they_are_when_they_are_imported():
    for verb, module, name in (
        ("pretrain", pretrain_settings, "PretrainSettings"),
        ("distill", distill, "DistillSettings"),
        ("finetune", finetune_settings, "FinetuneSettings"),
    ):
        defaults = {field.name: field.default for field in getattr(module, name).__dataclass_fields__.values()}
        assert {field: found.default for field, found in settings_fields(VERBS[verb]["settings"]).items()} == defaults


@pytest.mark.parametrize(
    ("words", "default", "help"),
    [
        ("Rate of 10 %", 1e-4, "rate of 10 %% (default: 0.0001)"),
        ("MLM weight", 3e-5, "MLM weight (default: 3e-5)"),
        ("Blocks (default: all)", 3, "blocks (default: all)"),
        ("Texts; in Python a list", None, "texts"),
        ("Pairs (retrieval, rerank)", True, "pairs (retrieval, rerank; default: yes)"),
        ("Words", ("a", "b"), "words (default: a b)"),
    ],
)
def test_the_default_is_in_the_help_unless_it_says_more(words, default, help):
    assert with_default(words, default) == help


def test_an_option_has_the_usual_name_of_its_field():
    assert (option_of("warmup_fraction"), option_of("batch_size")) == ("--warmup-ratio", "--batch-size")
    assert {name.partition(" ")[0] for name in options.TABLE["shared"]["columns"]} == {"--columns", "--header"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_all_of_them_parse(verb):
    assert VERBS[verb]["examples"]
    for line in VERBS[verb]["examples"]:
        assert parsed(shlex.split(line)).verb == verb


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_of_a_page_parses(page):
    text = page.read_text("utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?:\$ )?keras-bert (.*)$", text, re.M):
        words = shlex.split(re.sub(r"\s#.*| [|>&;].*", "", line))
        if words and words[0] in VERBS and not {"...", "…"} & set(words) and "google|keras" not in line:
            parsed(words)


def test_a_size_in_a_command_of_a_page_is_one():
    """`plan` and `pretrain` take no name of a model of the hub as --model."""
    sizes = [re.findall(r"keras-bert (?:plan|pretrain)\b[^`\n]* --model ([\w.-]+)", page.read_text("utf-8")) for page in PAGES]
    assert sum(map(len, sizes)) > 5
    for page, names in zip(PAGES, sizes, strict=True):
        assert [name for name in names if name not in SIZES and not name.endswith(".json")] == [], page


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "finetune similarity --model . --train trian.tsv --dev . --output o",
            "--train must be a file or folder that exists; got 'trian.tsv'; did you mean 'train.tsv'.",
        ),
        ("vocab nothing --output o", "CORPUS must be a file or folder that exists; got 'nothing'."),
        ("pretrain . gone", "STORE must be a file or folder that exists; got 'gone'."),
        (
            "pretrain . --model tinny",
            "--model must be a file, a folder or a known name that exists; got 'tinny'; did you mean 'tiny'.",
        ),
        ("pretrain . --model tiny", None),
        ("inspect --model bert_model.ckpt", None),
    ],
)
def test_a_missing_file_is_found_without_the_package(tmp_path, monkeypatch, line, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert_model.ckpt.index").touch()
    (tmp_path / "train.tsv").touch()
    given = parsed(line.split())
    assert missing_file(parser_of(given.verb), given) == sentence


FINETUNE = ["--model", "m", "--train", "t.tsv", "--dev", "d.tsv", "--output", "o"]


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("finetune", ["similarity", *FINETUNE, "--epochs", 1, "--steps", 2], "--epochs and --steps exclude each other"),
        ("finetune", ["classification", *FINETUNE, "--objective", "cosine"], "--objective is for similarity"),
        ("finetune", ["regression", *FINETUNE, "--class-weights", "balanced"], "--class-weights is for classification and"),
        ("pretrain", ["t", "--output", "o", "--init", "m", "--model", "tiny"], "--init and --model exclude each other"),
        ("pretrain", ["t", "--output", "o", "--held-out", 0, "--eval-batches", 5], "--eval-batches is for documents"),
        ("explain", ["--names", "google", "--max-seq-length", 5], "--names and --max-seq-length exclude each other"),
        ("explain", ["--names", "google", "--batch-size", 5], "--names and --batch-size exclude each other"),
        (
            "export",
            ["--model", "m", "--output", "o", "--format", "huggingface", "--pooling", "cls"],
            "--pooling belongs to formats",
        ),
        ("export", ["--model", "m", "--output", "o", "--heads", "nsp", "--normalize"], "--normalize is for vectors"),
        ("export", ["--model", "m", "--output", "o", "--calibrate", "f"], "--calibrate is only for --format openvino_int8"),
        (
            "convert",
            ["--model", "m", "--output", "o", "--format", "keras", "--dtype", "float16"],
            "--dtype float16 is for huggingface and google",
        ),
        ("search", ["i", "q", "--queries", "f", "--output", "o.tsv"], "expected a query or --queries FILE, and not both"),
        ("demo", ["--steps", 1, "--minutes", 1], "not allowed with"),
    ],
)
def test_options_that_exclude_each_other_are_refused(capsys, monkeypatch, tmp_path, verb, arguments, message):
    monkeypatch.chdir(tmp_path)
    said = run_verb(verb, capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_million_processes_are_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").write_text("the cat\n")
    said = run_verb("prepare", capsys, "c", "--tokenizer", "v", "--output", "o", "--processes", 1_000_000)
    assert said.code == 2
    assert "workers must be at least 1 and at most 256, each with its own memory; got 1,000,000." in said.err
