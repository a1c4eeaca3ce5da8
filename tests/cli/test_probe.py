"""`keras-bert probe`."""

import json

import pytest
from helpers.command_line import run_verb, save_small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = save_small_model(tmp_path_factory.mktemp("model"))
    rows = [f"the {'cat' if i % 3 else 'sat'} {'. ' * (i % 7)}\t{'a' if i % 3 else 'b'}" for i in range(40)]
    (path.parent / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    (path.parent / "tags.conll").write_text("the D\ncat N\nsat V\n\ncat N\nsat V\n\n" * 6)
    return path


def test_labels_and_tags_are_probed(capsys, folder, tmp_path):
    train, tags = folder.parent / "train.tsv", folder.parent / "tags.conll"
    said = run_verb("probe", capsys, "--model", folder, "--train", train, "--dev", train, "--limit", "30")
    assert said.code == 0, said.err
    assert said.out.startswith("30 texts to fit, 30 to measure on, 2 labels")
    said = run_verb("probe", capsys, "--model", folder, "--train", tags, "--dev", tags, "--format", "json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["labels"] == ["D", "N", "V"]
    picture = tmp_path / "curve.svg"
    said = run_verb("probe", capsys, "--model", folder, "--train", tags, "--dev", tags, "--format", "svg", "--output", picture)
    assert said.code == 0, said.err
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    train = folder.parent / "train.tsv"
    for verb, arguments, message in (
        (
            "probe",
            ("--train", train, "--dev", train, "--format", "svg"),
            "--format svg needs a file to write: add --output FILE.svg.",
        ),
        ("probe", ("--train", train, "--dev", tmp_path / "none.tsv"), "none.tsv"),
        ("probe", ("--train", train, "--dev", train, "--kind", "tagging"), "train.tsv"),
    ):
        code, _, err = run_verb(verb, capsys, "--model", folder, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not [*tmp_path.iterdir()]
