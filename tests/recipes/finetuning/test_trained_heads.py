"""A fine-tuning of a trained task keeps its head and its settings where they fit, and says what became of them."""

import json

import keras
import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import PETS, TOKENIZER, small_encoder

from keras_bert_rebuild import finetune, load_task, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    ScoredPair,
    TaggedText,
    TaggedWords,
    TextGroup,
)
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule
from keras_bert_rebuild.recipes.finetuning.finetune import make_task
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks.registry import finetune_task

QUICK = {"batch_size": 4, "jit_compile": keras.config.backend() == "jax", "max_len": 16, "steps": 1, "learning_rate": 1e-9}
TAGGED = [TaggedWords(("anna", "likes", "paris"), ("B-per", "O", "B-loc")), TaggedWords(("red", "paris"), ("B-loc", "I-loc"))]
GROUP = TextGroup("who likes paris", "anna likes paris", ("ben likes london", "the cat sat"))
EXAMPLES = {
    "classification": PETS,
    "multi_label": [ClassifiedText("the cat sat", label=["cat"]), ClassifiedText("the dog sat", label=["dog", "red"])],
    "regression": [ClassifiedText("the cat sat", label=0.5), ClassifiedText("the dog sat", label=1.0)],
    "token_classification": TAGGED,
    "question_answering": [Question("1", "who likes paris", "anna likes paris", (("anna", 0),))],
    "multiple_choice": [ChoiceQuestion("anna likes", ("paris", "the cat"), 0)],
    "similarity": [ScoredPair("the cat sat", "a cat sat", 0.9), ScoredPair("the cat sat", "anna likes paris", 0.1)],
    "retrieval": [GROUP],
    "rerank": [GROUP],
    "sparse_retrieval": [GROUP],
    "late_interaction": [GROUP],
}
# Settings that differ from the defaults of a new task.
KEPT = {
    "token_classification": {"crf": True},
    "rerank": {"activation": "linear", "truncate": True, "positive_weight": 3.0},
    "similarity": {"poolings": ("cls", "max"), "modules": [DenseModule(np.eye(32, 8, 3), None, "tanh")], "normalize": False},
    "retrieval": {"poolings": ("cls",), "prompts": {"query": "who ", "other": "a "}, "truncate": True},
    "late_interaction": {"token_width": 4, "query_len": 9, "query_expansion": False},
}


def trained_folder(word, folder, labels=None):
    """A folder of a trained task, with labels in descending order."""
    spec = finetune_task(word)
    settings = {**spec.settings_for(EXAMPLES[word], FinetuneSettings()), **KEPT.get(word, {}), "max_len": 16}
    settings["labels"] = tuple(sorted(labels or settings.get("labels", ()), reverse=True))
    encoder = small_encoder(("mlm", "pooler") if word == "sparse_retrieval" else ("pooler",))
    task = spec.task_class.from_encoder(encoder, TOKENIZER, **{name: value for name, value in settings.items() if value})
    spread(task.model, np.random.default_rng(3))
    task.save(folder)
    return folder


def made_of(model, word, **settings):
    return make_task(finetune_task(word), model, EXAMPLES[word], FinetuneSettings(**{"max_len": 16, **settings}))


def answers(task, word):
    """What a task answers, numbers rounded; labels do not depend on the order of the model's."""

    def plain(value):
        if isinstance(value, dict):
            return {str(name): plain(one) for name, one in sorted(value.items(), key=str)}
        if isinstance(value, (list, tuple)):
            return sorted([plain(one) for one in value], key=str)
        return value if isinstance(value, (str, int, type(None))) else round(float(value), 4)

    return [plain(task.row(example, answer)) for example, answer in zip(
        EXAMPLES[word], task.predict_examples(EXAMPLES[word]), strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("word", EXAMPLES)
def test_a_trained_task_answers_the_same_before_its_next_training(tmp_path, word):
    folder = trained_folder(word, tmp_path / "model")
    before = load_task(folder)
    task = made_of(folder, word)
    if word == "similarity":  # its answers are in the range of the scores that it is trained on
        before.set_objective("cosine", task.score_range, None, "similarity", None)
    assert answers(task, word) == answers(before, word)
    assert task.head_origin.startswith("kept")
    labels = finetune_task(word).settings_for(EXAMPLES[word], FinetuneSettings()).get("labels")
    assert labels is None or (task.labels == labels and task.head_origin == "kept, with its labels in another order")
    settings = task.settings()
    assert settings.get("positive_weight", 1) == 1  # of training
    for name in ("activation", "truncate", "poolings", "normalize", "query_len", "query_expansion", "max_len"):
        assert settings.get(name) == before.settings().get(name)
    again = made_of(folder, word, new_head=True)
    assert again.head_origin == ""
    if word != "sparse_retrieval":  # its head is that of pretraining
        assert answers(again, word) != answers(before, word)


def test_prompts_that_are_given_are_added_to_those_of_the_folder(tmp_path):
    folder = trained_folder("retrieval", tmp_path / "model")
    assert made_of(folder, "retrieval").prompts == {"query": "who ", "other": "a "}
    assert made_of(folder, "retrieval", query_prompt="where ").prompts == {"query": "where ", "other": "a "}


def test_a_trained_model_of_this_process_keeps_its_head_too(tmp_path):
    before = load_task(trained_folder("classification", tmp_path / "model"))
    task = made_of(before.model, "classification")
    assert task.head_origin == "kept, with its labels in another order"
    assert answers(task, "classification") == answers(before, "classification")


@pytest.mark.parametrize(
    ("trained", "labels", "word", "said"),
    [
        (
            "classification",
            ("cat", "dog", "red"),
            "classification",
            "newly initialised: the model's is for the labels red, dog, cat",
        ),
        (
            "classification",
            "abcdefg",
            "classification",
            "newly initialised: the model's is for the labels g, f, e, d, c and 2 more",
        ),
        ("multi_label", ("cat", "dog"), "classification", "newly initialised: the model's is for multi_label"),
        ("token_classification", None, "classification", "newly initialised: the model's is for token_classification"),
        ("rerank", None, "regression", "newly initialised: the model's is for reranking"),
        ("regression", None, "rerank", "newly initialised: the model's is for classification"),
        ("classification", None, "retrieval", "newly initialised: the model's is for classification"),
    ],
)
def test_a_head_that_does_not_fit_is_said_in_one_line(tmp_path, trained, labels, word, said):
    folder = trained_folder(trained, tmp_path / "model", labels)
    assert made_of(folder, word).head_origin == said


def test_nothing_is_said_of_an_encoder(tmp_path):
    save_pretrained(small_encoder(("mlm", "nsp")), tmp_path / "model", vocabulary=list(TOKENIZER.vocabulary))
    for word in ("classification", "token_classification", "similarity"):
        assert made_of(tmp_path / "model", word).head_origin == ""


def test_a_fine_tuning_says_in_output_and_report_that_the_head_was_kept(tmp_path, capsys):
    folder = trained_folder("classification", tmp_path / "model")
    (tmp_path / "train.tsv").write_text("\n".join(f"{pet.text}\t{pet.label}" for pet in PETS))
    files = [f"--{name}={tmp_path / 'train.tsv'}" for name in ("train", "dev")]
    quick = ["--steps=1", "--batch-size=4", "--learning-rate=1e-9", "--max-seq-length=16"]
    for options, said in (([], "kept, with its labels in another order"), (["--new-head"], None)):
        run = tmp_path / f"run{len(options)}"
        assert main(["finetune", "classification", f"--model={folder}", f"--output={run}", *files, *quick, *options]) == 0
        assert json.loads((run / "report.json").read_text()).get("head") == said
        assert (f"\nHead: {said}.\n" in (run / "report.md").read_text()) == (said is not None)
        assert (f"head     {said}\n" in capsys.readouterr().err) == (said is not None)


def test_rows_of_a_fine_tuning_begin_with_what_became_of_the_head(tmp_path):
    rows = []
    folder = trained_folder("token_classification", tmp_path / "model")
    done = finetune("token_classification", folder, TAGGED, TAGGED, tmp_path / "run", report=rows.append, **QUICK)
    assert {name: rows[0][name] for name in ("step", "head")} == {"step": 0, "head": "kept, with its labels in another order"}
    assert done.report["head"] == rows[0]["head"]
    text = TaggedText("anna likes paris")
    assert done.task.predict_examples([text])[0].tags == load_task(folder).predict_examples([text])[0].tags


def test_a_run_says_which_scores_are_cosines_and_dev_may_have_higher_ones(tmp_path):
    save_pretrained(small_encoder(), tmp_path / "model", vocabulary=list(TOKENIZER.vocabulary))
    train = [ScoredPair("the cat sat", "a cat sat", 3.8), ScoredPair("the cat sat", "anna likes paris", 1.0)]
    dev, rows = [*train, ScoredPair("the cat sat", "the cat sat", 5.0)], []
    done = finetune("similarity", tmp_path / "model", train, dev, tmp_path / "run", report=rows.append, **QUICK)
    assert rows[0]["scores"] == done.report["scores"] == "0 to 4 are the cosines 0 to 1"
    assert "\nScores: 0 to 4 are the cosines 0 to 1.\n" in (tmp_path / "run" / "report.md").read_text()
