"""What verbs print: counts with their things, and the line before long work."""

import sys

import pytest

from keras_bert_rebuild.cli.said import begin, counted


@pytest.mark.parametrize(
    ("number", "thing", "words"),
    [(1, "file", "1 file"), (0, "shard", "0 shards"), (1200, "array", "1,200 arrays"), (2, "query", "2 queries")],
)
def test_a_count_has_the_form_of_its_number(number, thing, words):
    assert counted(number, thing) == words


def test_what_is_begun_is_said_on_a_terminal_alone(capsys, monkeypatch):
    begin("loading", "model")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    begin("loading", "model")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("loading  model (")
