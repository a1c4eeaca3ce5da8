"""`keras-bert explain` and `probe`."""

import functools
import json

import pytest
from helpers.command_line import run_verb, save_small_model
from helpers.small import small_model

from keras_bert_rebuild import BertConfig, save_pretrained

run = functools.partial(run_verb, "explain")


def test_without_a_path_it_explains_the_model_of_the_article(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert "bert with mlm, nsp: 109,705,010 parameters" in out
    assert "= 12·768·64·3 + 3·768 + 768·768 + 768" in out


def test_a_released_model_in_every_format(capsys):
    _, table, _ = run(capsys, "--model", "roberta-base", "--batch-size", "4", "--max-seq-length", "64", "--dtype", "mixed_bfloat16")
    assert "roberta with pooler: 124,645,632 parameters" in table
    assert "4 texts of 64 tokens, mixed_bfloat16" in table
    _, markdown, _ = run(capsys, "--model", "roberta-base", "--format", "markdown")
    assert "| **all** | | | **124,645,632** |" in markdown
    _, text, _ = run(capsys, "--model", "bert-base-uncased", "--heads", "mlm, nsp", "--format", "json")
    assert json.loads(text)["totals"]["params"] == BertConfig().num_params()
    _, text, _ = run(capsys, "--model", "bert-base-uncased", "--heads", "none", "--format", "json")
    assert json.loads(text)["totals"]["params"] == BertConfig().num_params([])


def test_foreign_names_next_to_ours(capsys):
    _, out, _ = run(capsys, "--model", "bert-base-uncased", "--names", "huggingface")
    assert "199 weights, 109,482,240 parameters." in out
    assert "encoder.layer.11.attention.self.query.weight" in out
    _, out, _ = run(capsys, "--model", "bert-base-uncased", "--names", "google", "--format", "markdown")
    assert "| bert/encoder/layer_11/attention/self/query/kernel | (768, 768) | columns 0–63 head 0, … 704–767 head 11 |" in out


def test_two_models_are_compared_in_every_format(capsys, tmp_path):
    _, table, _ = run(
        capsys, "--model", "bert-base-uncased", "--other", "modernbert-base", "--batch-size", "8", "--max-seq-length", "64"
    )
    assert "B  modernbert-base · modernbert without heads: 149,014,272 parameters" in table
    assert "8 texts of 64 tokens, float32" in table
    _, markdown, _ = run(capsys, "--model", "bert-base-uncased", "--other", "modernbert-base", "--format", "markdown")
    assert "| positions | learned table of 512 | rotary, theta 160,000 (global), 10,000 (windows of 128) |" in markdown
    save_pretrained(small_model(), tmp_path / "model", "huggingface")
    _, text, _ = run(capsys, "--model", tmp_path / "model", "--other", "modernbert-base", "--heads", "mlm", "--format", "json")
    values = json.loads(text)
    assert (values["A"]["heads"], values["B"]["totals"]["params"]) == (["mlm"], values["totals"]["params"][1])
    assert run(capsys, "--model", "bert-base-uncased", "--other", "bert-base-uncased")[1].endswith(
        "No changes: both have the same anatomy and the same steps.\n"
    )


def test_without_a_model_the_other_is_compared_with_that_of_the_article(capsys):
    code, table, _ = run(capsys, "--other", "bert-base-uncased")
    assert code == 0
    assert "A  the article's model · bert with mlm, nsp: 109,705,010 parameters" in table
    assert "B  bert-base-uncased · bert with pooler: 109,482,240 parameters" in table


def test_folders_config_files_and_keras_files(capsys, tmp_path):
    model = small_model()
    count = f"{model.count_params():,} parameters"
    save_pretrained(model, tmp_path / "theirs", "huggingface")
    save_pretrained(model, tmp_path / "google", "google")
    model.save(tmp_path / "model.keras")
    for path in ("theirs", "theirs/config.json", "google", "google/bert_config.json", "model.keras"):
        code, out, err = run(capsys, "--model", tmp_path / path)
        assert code == 0, err
        assert count in out, path
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "config.json").write_text((tmp_path / "theirs" / "config.json").read_text())
    assert count in run(capsys, "--model", tmp_path / "alone")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nowhere"], "expected a folder, a file, or one of bert-base-uncased, "),
        (["--model", "bert-base-uncased", "--max-seq-length", "600"], "length must be at least 1 and at most 512; got 600"),
        (["--model", "bert-base-uncased", "--heads", "cls"], "heads must be a list of some of pooler"),
        (["--model", "albert-base-v2", "--names", "google"], "Google's names are those of BERT"),
        (["--model", "bert-base-uncased", "--other", "nowhere"], "expected a folder, a file, or one of bert-base-uncased, "),
        (
            ["--model", "bert-base-uncased", "--other", "modernbert-base", "--max-seq-length", "600"],
            "at most 512, the maximum of bert-base-uncased; got 600",
        ),
        (["--model", "bert-base-uncased", "--other", "modernbert-base", "--names", "huggingface"], "--names is for one model"),
    ],
)
def test_what_does_not_fit_is_one_sentence(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_model_is_explained_with_its_own_heads(capsys, tmp_path):
    small_model().save(tmp_path / "model.keras")
    code, _, err = run(capsys, "--model", tmp_path / "model.keras", "--heads", "mlm")
    assert code == 2
    assert "holds a model, which has its own" in err


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
