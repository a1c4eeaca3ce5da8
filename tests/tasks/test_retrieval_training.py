"""Training for a search, from examples and from files to what is found."""

import json

import keras
import numpy as np
import pytest
from helpers.small_tasks import PETS, TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import SentenceEmbedder, finetune, load_task, predict, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, ScoredPair, TextGroup
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.tasks import packed_training
from keras_bert_rebuild.tasks.metrics.ranking import best_of, retrieval_scores, retrieved
from keras_bert_rebuild.tasks.objectives import VectorTraining
from keras_bert_rebuild.tasks.packed_training import guide_vectors
from keras_bert_rebuild.training.retrieval_losses import GUIDE, TEACHER, TEXT

ANIMALS, PLACES = ("cat", "dog", "anna", "ben"), ("mat", "london", "paris", "red")
GROUPS = [
    TextGroup(f"who likes {place}", f"the {animal} sat in {place}", (f"{animal} likes a mat .",))
    for animal, place in zip(ANIMALS, PLACES, strict=True)
]
QUICK = {"batch_size": 4, "learning_rate": 1e-2, "max_len": 16, "log_steps": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "model"
    SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER).save(path)
    return path


def taught(scores=(3.0, 1.0)):
    return [TextGroup(group.query, group.positive, group.negatives, scores) for group in GROUPS]


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("examples", "settings"),
    [
        (GROUPS, {}),
        (GROUPS, {"symmetric": True, "learned_temperature": True, "temperature": 0.1, "chunk": 1, "false_negative_margin": 0.3}),
        (GROUPS, {"matryoshka_dims": [16, 8], "matryoshka_weights": [1.0, 0.5], "query_prompt": "who : ", "document_prompt": "a "}),
        (taught(), {"objective": "distillation"}),
        (taught(), {"objective": "margin_mse"}),
    ],
)
def test_queries_find_their_texts_after_training(folder, tmp_path, examples, settings):
    done = finetune("retrieval", folder, examples, examples, tmp_path / "run", epochs=25, **QUICK, **settings)
    losses = [float(row.split(",")[3]) for row in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:]]
    assert losses[-1] < losses[0]
    assert set(done.scores) == {"ndcg@10", "mrr@10", "recall@10", "map@100"}
    assert done.scores["mrr@10"] > 0.8
    again = load_task(tmp_path / "run" / "model")
    assert again.word.name == "retrieval"
    assert again.settings() == done.task.settings()
    answers = again.predict_examples(examples)
    assert again.scores(examples, answers) == pytest.approx(done.scores)
    assert again.row(examples[0], answers[0])["texts"][0] == next(iter(answers[0]))


@pytest.mark.slow(torch=True)
def test_a_guide_is_asked_once_and_its_vectors_are_targets(folder, tmp_path):
    done = finetune("retrieval", folder, GROUPS, GROUPS, tmp_path / "run", epochs=2, guide=str(folder), **QUICK)
    assert done.report["steps"] == 2
    task = small_task(SentenceEmbedder, example_kind="retrieval", training=VectorTraining(guide=folder))
    _, targets = task.batches(task.encode(GROUPS), 4)[0]
    expected = guide_vectors(folder, [GROUPS[1].positive])[0]
    np.testing.assert_allclose(targets[1, 1, GUIDE:], expected, atol=1e-6)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("objective", ["triplet", "contrastive"])
def test_texts_of_a_label_come_near_each_other(folder, tmp_path, objective):
    done = finetune(
        "labelled-similarity", folder, PETS, PETS, tmp_path / "run", epochs=12, objective=objective, **{**QUICK, "batch_size": 6}
    )
    assert done.scores["map"] > 0.9
    task = load_task(tmp_path / "run" / "model")
    answers = task.predict_examples(PETS)
    assert all(len(answer) == len(PETS) - 1 and str(i) not in answer for i, answer in enumerate(answers))
    assert task.row(PETS[0], answers[0])["text"] == PETS[0].text


@pytest.mark.slow(torch=True)
def test_pairs_are_ordered_by_their_scores(folder, tmp_path):
    pairs = [ScoredPair(f"the {one} sat", f"the {other} sat", float(one == other)) for one in ANIMALS for other in ANIMALS]
    done = finetune(
        "similarity", folder, pairs, pairs, tmp_path / "run", epochs=6, objective="cosent", **{**QUICK, "batch_size": 16}
    )
    assert done.scores["spearman"] > 0.6
    assert done.scores["average_precision"] > 0.9


def test_targets_number_equal_texts_alike_and_have_the_scores_of_a_teacher():
    task = small_task(SentenceEmbedder, example_kind="retrieval", objective="distillation")
    groups = [
        TextGroup("the cat", "a cat", ("dog", "the dog"), (2.0, 1.0, 0.5)),
        TextGroup("the dog", "a cat", ("the cat",), (4.0, 3.0)),
    ]
    _, targets = task.batches(task.encode(groups), 2)[0]
    ids = targets[..., TEXT]
    assert ids[0, 0] == ids[1, 2]
    assert ids[0, 1] == ids[1, 1]
    assert ids[0, 3] == ids[1, 0]
    assert ids[1, 3] == -1
    assert len(np.unique(ids)) == 5
    assert targets[..., TEACHER].tolist() == [[0, 2, 1, 0.5], [0, 4, 3, 0]]


def test_the_same_batches_can_be_given_to_another_library():
    task = small_task(SentenceEmbedder, example_kind="retrieval")
    encoded = task.encode(GROUPS)
    batches = task.batches(encoded, 2)
    assert [bucket.indexes.tolist() for bucket in batches.batches(0)] == [[0, 1], [2, 3]]
    (ids, *_), _ = batches[1]
    tokens = sum(len(encoded.windows.ids[number]) for number in encoded.groups[2:].ravel())
    assert (ids != TOKENIZER.pad_id).sum() == tokens


def test_what_is_trained_are_the_weights_of_the_task():
    task = small_task(SentenceEmbedder, example_kind="retrieval")
    before = task(["the cat"])
    task.compile(keras.optimizers.SGD(0.1))
    task.training_model.fit(task.batches(task.encode(GROUPS), 4), shuffle=False, verbose=0)
    assert np.abs(task(["the cat"]) - before).max() > 1e-4
    paths = {variable.path for variable in task.training_model.trainable_variables}
    assert paths <= {variable.path for variable in task.model.trainable_variables}


def test_the_corpus_of_an_evaluation_are_all_texts_and_equal_queries_are_one():
    examples = [TextGroup("q", "a", ("b",)), TextGroup("q", "c"), TextGroup("r", "b", ("c",))]
    asked = []

    def scorer(queries, corpus):
        asked.append((queries, corpus))
        yield np.array([[0.1, 0.3, 0.2], [0.5, 0.1, 0.2]], "float32")

    answers = retrieved(examples, scorer)
    assert asked == [(["q", "r"], ["a", "b", "c"])]
    assert list(answers[0]) == list(answers[1]) == ["b", "c", "a"]
    scores = retrieval_scores(examples, answers)
    assert scores["mrr@10"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert scores["recall@10"] == 1.0
    (best,) = best_of(np.arange(200, dtype="float32")[None], [str(i) for i in range(200)])
    assert list(best) == [str(i) for i in range(199, 99, -1)]


def test_negatives_and_scores_of_a_table_may_have_columns_of_their_own(tmp_path):
    file = tmp_path / "groups.tsv"
    file.write_text("query\tpositive\tnegative_1\tnegative_2\tscore_0\tscore_1\tscore_2\nq\tp\tn\tm\t3\t2\t1\n")
    assert read_examples(file, "retrieval") == [TextGroup("q", "p", ("n", "m"), (3.0, 2.0, 1.0))]
    named = {"query": "anfrage", "positive": "treffer", "negatives": ["x", "y"]}
    file.write_text("anfrage\ttreffer\tx\ty\nq\tp\tn\tm\n")
    assert read_examples(file, "retrieval", columns=named) == [TextGroup("q", "p", ("n", "m"))]


def test_bad_settings_and_examples_are_one_sentence(folder, tmp_path):
    for settings, message in (
        (
            {"objective": "triplet"},
            "objective must be in_batch_negatives or margin_mse or distillation for retrieval; got",
        ),
        ({"objective": "margin_mse"}, "scores of the positive and every negative; example 0 has 1 negatives and no scores"),
        ({"temperature": 0.0}, "temperature must be a number above 0"),
        ({"matryoshka_dims": [0]}, "matryoshka_dims must be a list of whole numbers"),
        ({"matryoshka_weights": [1.0]}, "for each of matryoshka_dims; got"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1"),
        ({"false_negative_margin": "x"}, "false_negative_margin must be a number"),
    ):
        with pytest.raises(ValueError, match=message):
            finetune("retrieval", folder, GROUPS, GROUPS, tmp_path / "run", **settings)
    pairs = [ScoredPair("a", "b", 1.0), ScoredPair("a", "c", 0.0)]
    with pytest.raises(ValueError, match="chunk must be for retrieval or labelled_similarity; the task is similarity"):
        finetune("similarity", folder, pairs, pairs, tmp_path / "run", chunk=2)
    alike = [ClassifiedText("the cat", label="a"), ClassifiedText("the dog", label="a")]
    with pytest.raises(ValueError, match="at least two labels"):
        finetune("labelled_similarity", folder, alike, alike, tmp_path / "run")
    with pytest.raises(ValueError, match="example_kind must be one of similarity, retrieval, classification; got 'x'"):
        small_task(SentenceEmbedder, example_kind="x")
    left_out = {"prompts": {"query": "who : "}, "include_prompt": False, "truncate": True}
    with pytest.raises(ValueError, match="include_prompt must be true to train with prompts; got false, and 'who : ' and ''"):
        small_task(SentenceEmbedder, example_kind="retrieval", **left_out).encode(GROUPS)


def test_replicas_that_do_not_see_all_texts_are_refused(monkeypatch):
    monkeypatch.setattr(packed_training, "parts_of_batch", lambda model: 2)
    monkeypatch.setattr(packed_training.traits, "gives_replicas_whole_single_batches", lambda: True)
    with pytest.raises(ValueError, match="replicas of TensorFlow do not see the negatives of each other; got 2 replicas"):
        small_task(SentenceEmbedder, example_kind="retrieval").compile("sgd")


ROWS = [
    {"query": "where sat the cat ?", "positive": "the cat sat on the mat", "negatives": ["the dog sat on the mat"]},
    {"query": "who likes paris ?", "positive": "anna likes paris", "negatives": ["ben likes london", "the cat"]},
    {"query": "a red dog", "positive": "the dog sat in red and blue", "negatives": ["the cat sat in red and blue"]},
    {"query": "who likes london ?", "positive": "ben likes london"},
]


@pytest.fixture(scope="module")
def search_folder(tmp_path_factory):
    """A folder with an encoder that has an MLM head, and a file of groups."""
    path = tmp_path_factory.mktemp("search")
    save_pretrained(small_encoder(("mlm",)), path / "encoder")
    (path / "encoder" / "vocab.txt").write_text("".join(f"{TOKENIZER.tokens[i]}\n" for i in range(len(TOKENIZER.tokens))))
    (path / "groups.jsonl").write_text("".join(json.dumps(group) + "\n" for group in ROWS))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "settings"), [("rerank", {}), ("sparse-retrieval", {"flops": (1e-3, 1e-3)}), ("late-interaction", {})]
)
def test_a_training_from_files_saves_a_task_that_answers(search_folder, tmp_path, task, settings):
    file = search_folder / "groups.jsonl"
    done = finetune(
        task,
        search_folder / "encoder",
        file,
        file,
        tmp_path / "run",
        steps=3,
        batch_size=2,
        max_len=32,
        evaluate_steps=2,
        **settings,
    )
    assert set(done.scores) >= {"ndcg@10", "mrr@10"}
    again = load_task(tmp_path / "run" / "model")
    assert again.negatives == 2
    scores = predict(again, file, tmp_path / "answers.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [row["query"] for row in rows] == [group["query"] for group in ROWS]
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in rows)
    assert scores is None


def test_options_of_other_tasks_are_refused_in_one_sentence(search_folder, capsys):
    file = str(search_folder / "groups.jsonl")
    arguments = ["--model", str(search_folder / "encoder"), "--train", file, "--dev", file, "--output", str(search_folder / "run")]
    for task, options, message in (
        ("rerank", ["--flops", "1", "1"], "flops must be for sparse_retrieval; the task is rerank"),
        ("late-interaction", ["--positive-weight", "2"], "--positive-weight must be for rerank; the task is late_interaction"),
        ("sparse-retrieval", ["--flops", "-1", "1"], "flops must be two numbers from 0"),
        ("rerank", ["--objective", "cosine"], "objective must be one of binary"),
        ("sparse-retrieval", ["--objective", "margin_mse"], "learns the scores of a teacher"),
    ):
        assert main(["finetune", task, *arguments, *options]) == 2
        assert message in capsys.readouterr().err
