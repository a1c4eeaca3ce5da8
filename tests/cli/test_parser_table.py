"""The options as plain data, from which a help is printed before Keras is imported."""

import argparse
import contextlib
import json
import os
import sys

import pytest
from helpers.parser_file import text

import keras_bert_command
from keras_bert_rebuild.cli.main import VERBS, make_parser
from keras_bert_rebuild.cli.parser_table import FILE, parser_table


def verbs_of(parser):
    return next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))


@pytest.fixture(scope="module")
def early():
    return keras_bert_command.parser_of(json.loads(FILE.read_text("utf-8")), FILE.parent)


def test_the_file_has_the_options_that_the_verbs_declare():
    assert FILE.read_text("utf-8") == text(), "run python tests/helpers/parser_file.py"


def test_every_help_is_that_of_the_package(early):
    whole = make_parser()
    assert early.format_help() == whole.format_help()
    for verb, parser in verbs_of(whole).items():
        assert verbs_of(early)[verb].format_help() == parser.format_help(), verb
    assert list(verbs_of(early)) == [verb for verb, _, _ in VERBS]


def test_a_parser_made_of_the_data_has_the_same_data(early):
    assert parser_table(early) == parser_table(make_parser())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["pretrain", "--help"], ["--version"], ["pretrian"], ["plan", "--dtype", "int3"], []]
)
def test_a_help_and_a_typo_are_answered_without_keras(arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["keras-bert", *arguments])
    monkeypatch.setitem(sys.modules, "keras_bert_rebuild.cli.main", None)  # its import would fail
    try:
        code = keras_bert_command.main()
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert code == (0 if "-" in "".join(arguments[-1:])[:1] and "int3" not in arguments else 2)
    assert "keras-bert" in (said.out if code == 0 else said.err)


def test_arguments_without_a_mistake_are_those_of_a_verb(tmp_path):
    assert keras_bert_command.answered_early(["inspect", str(tmp_path)]) is None


def test_what_libraries_print_when_they_are_imported_is_shown_only_if_that_fails(capfd):
    with keras_bert_command._without_notes():
        os.write(2, b"a note\n")
    assert capfd.readouterr().err == ""
    with contextlib.suppress(ImportError), keras_bert_command._without_notes():
        os.write(2, b"the reason\n")
        raise ImportError
    assert capfd.readouterr().err == "the reason\n"
    os.write(2, b"as before\n")
    assert capfd.readouterr().err == "as before\n"
