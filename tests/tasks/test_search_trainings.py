"""Whole trainings of the tasks of a search, from files to answers."""

import json

import pytest
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import finetune, load_task, predict, save_pretrained
from keras_bert_rebuild.cli.main import main

GROUPS = [
    {"query": "where sat the cat ?", "positive": "the cat sat on the mat", "negatives": ["the dog sat on the mat"]},
    {"query": "who likes paris ?", "positive": "anna likes paris", "negatives": ["ben likes london", "the cat"]},
    {"query": "a red dog", "positive": "the dog sat in red and blue", "negatives": ["the cat sat in red and blue"]},
    {"query": "who likes london ?", "positive": "ben likes london"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an encoder that has an MLM head, and a file of groups."""
    path = tmp_path_factory.mktemp("search")
    save_pretrained(small_encoder(("mlm",)), path / "encoder")
    (path / "encoder" / "vocab.txt").write_text("".join(f"{TOKENIZER.tokens[i]}\n" for i in range(len(TOKENIZER.tokens))))
    (path / "groups.jsonl").write_text("".join(json.dumps(group) + "\n" for group in GROUPS))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "settings"), [("rerank", {}), ("sparse-retrieval", {"flops": (1e-3, 1e-3)}), ("late-interaction", {})]
)
def test_a_training_from_files_saves_a_task_that_answers(folder, tmp_path, task, settings):
    given = folder / "groups.jsonl"
    done = finetune(
        task, folder / "encoder", given, given, tmp_path / "run", steps=3, batch_size=2, max_len=32, evaluate_steps=2, **settings
    )
    assert set(done.scores) >= {"ndcg@10", "mrr@10"}
    again = load_task(tmp_path / "run" / "model")
    assert again.negatives == 2
    scores = predict(again, given, tmp_path / "answers.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [row["query"] for row in rows] == [group["query"] for group in GROUPS]
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in rows)
    assert scores is None


def test_options_of_other_tasks_are_refused_in_one_sentence(folder, capsys):
    given = str(folder / "groups.jsonl")
    arguments = ["--model", str(folder / "encoder"), "--train", given, "--dev", given, "--output", str(folder / "run")]
    for task, options, message in (
        ("rerank", ["--flops", "1", "1"], "flops must be for sparse_retrieval; the task is rerank"),
        ("late-interaction", ["--positive-weight", "2"], "positive_weight must be for rerank; the task is late_interaction"),
        ("sparse-retrieval", ["--flops", "-1", "1"], "flops must be two numbers from 0"),
        ("rerank", ["--objective", "cosine"], "objective must be one of binary"),
        ("sparse-retrieval", ["--objective", "margin_mse"], "learns the scores of a teacher"),
    ):
        assert main(["finetune", task, *arguments, *options]) == 2
        assert message in capsys.readouterr().err
