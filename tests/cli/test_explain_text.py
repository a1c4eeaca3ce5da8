"""`keras-bert explain-text`: the words of a sparse vector."""

import json

import pytest
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import SparseEmbedder, save_pretrained
from keras_bert_rebuild.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved sparse embedder, and its weights of a text."""
    task = small_task(SparseEmbedder, prompts={"query": "who likes "})
    path = tmp_path_factory.mktemp("sparse") / "task"
    task.save(path)
    return path, task


def test_the_words_are_those_of_the_vector_and_marked_if_the_text_has_them(folder, capsys):
    path, task = folder
    assert main(["explain-text", "the cat sat", "--model", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = task.tokens_of(next(task.documents(["the cat sat"])))
    assert [word["word"] for word in found["words"]] == [token for token, _ in expected[:20]]
    assert found["count"] == len(expected)
    assert {word["word"] for word in found["words"] if word["in_text"]} <= {"the", "cat", "sat"}
    assert main(["explain-text", "paris", "--model", str(path), "--format", "json", "--prompt", "query", "--top-k", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [word["word"] for word in found["words"]] == [token for token, _ in task.tokens_of(next(task.queries(["paris"])), 3)]


def test_the_table_shows_bars_and_a_masked_language_model_will_do(folder, tmp_path, capsys):
    path, _ = folder
    assert main(["explain-text", "the cat sat", "--model", str(path), "--top-k", "4"]) == 0
    out = capsys.readouterr().out
    assert "█" * 30 in out
    assert "the strongest 4 shown" in out
    model = small_encoder(("mlm",))
    save_pretrained(model, tmp_path / "mlm")
    (tmp_path / "mlm" / "vocab.txt").write_text("".join(f"{TOKENIZER.tokens[i]}\n" for i in range(len(TOKENIZER.tokens))))
    assert main(["explain-text", "the cat sat", "--model", str(tmp_path / "mlm")]) == 0
    assert " with a weight" in capsys.readouterr().out


def test_a_model_without_the_head_is_one_sentence(tmp_path, capsys):
    save_pretrained(small_encoder(), tmp_path / "plain")
    assert main(["explain-text", "a", "--model", str(tmp_path / "plain")]) == 2
    assert "MLM-Dense/kernel" in capsys.readouterr().err
