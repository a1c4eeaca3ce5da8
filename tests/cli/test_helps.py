"""What every help has: defaults, plain words, a group for every option, and examples that parse."""

import json
import re
import shlex
from pathlib import Path

import pytest

import keras_bert_command
from keras_bert_rebuild.cli.missing_files import missing_file
from keras_bert_rebuild.cli.older_names import renewed
from keras_bert_rebuild.cli.option_groups import PLACES
from keras_bert_rebuild.cli.parser_table import FILE

TABLE = json.loads(FILE.read_text("utf-8"))
VERBS = [verb for verb in TABLE["verbs"] if verb != "demo"]
ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]


@pytest.fixture(scope="module")
def parser():
    return keras_bert_command.parser_of(TABLE, FILE.parent)


@pytest.mark.parametrize("verb", VERBS)
def test_a_value_that_may_be_left_out_has_its_default_in_the_help(verb):
    for option in TABLE["verbs"][verb]["options"]:
        value = option.get("action", "store") in ("store", "append", "flag") and option["names"][0].startswith("-")
        if value and not option.get("required") and option["names"][0] not in ("--settings", "--calibrate"):
            assert "default" in option["help"], option


@pytest.mark.parametrize("verb", VERBS)
def test_a_help_is_for_a_shell_and_not_for_python(verb):
    for option in TABLE["verbs"][verb]["options"]:
        assert not re.search(r"\bNone\b|\bTrue\b|BertConfig|`|='|\[\d", option["help"]), option
        assert not option["names"][0].startswith("-") or option["names"][0] in PLACES, option


@pytest.mark.parametrize("verb", TABLE["verbs"])
def test_every_verb_has_an_example_and_all_of_them_parse(parser, verb):
    assert TABLE["verbs"][verb]["examples"]
    for line in TABLE["verbs"][verb]["examples"]:
        words = shlex.split(line)
        assert renewed(words, TABLE) == words
        assert parser.parse_args(words).verb == verb


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_of_a_page_parses(parser, page):
    text = page.read_text("utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?:\$ )?keras-bert (.*)$", text, re.M):
        words = shlex.split(re.sub(r"\s#.*| [|>&;].*", "", line))
        if words and words[0] in TABLE["verbs"] and not {"...", "…"} & set(words) and "google|keras" not in line:
            parser.parse_args(renewed(words, TABLE))


@pytest.mark.parametrize(
    ("verb", "given", "sentence"),
    [
        (
            "finetune",
            {"model": ".", "train": Path("trian.tsv")},
            "--train must be a file or folder that exists; got 'trian.tsv'; did",
        ),
        ("vocab", {"corpus": Path("nothing")}, "CORPUS must be a file or folder that exists; got 'nothing'."),
        ("pretrain", {"store": [Path("."), Path("gone")]}, "STORE must be a file or folder that exists; got 'gone'."),
        (
            "pretrain",
            {"model": "tinny"},
            "--model must be a file, a folder or a known name that exists; got 'tinny'; did you mean 'tiny'.",
        ),
        ("pretrain", {"model": "tiny"}, None),
        ("inspect", {"model": "bert_model.ckpt"}, None),
    ],
)
def test_a_missing_file_is_found_without_the_package(tmp_path, monkeypatch, verb, given, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert_model.ckpt.index").touch()
    (tmp_path / "train.tsv").touch()
    found = missing_file(TABLE["verbs"][verb]["options"], given)
    assert found is None if sentence is None else found.startswith(sentence)
