"""Models, tasks and tokenizers by their names on a hub."""

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.loopback_hub import COMMIT, LoopbackHub, asked_by_the_client
from helpers.small_tasks import TOKENIZER, small_task
from keras import ops

from keras_bert_rebuild import TextClassifier, from_pretrained, load_task, load_tokenizer
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.interpret.attribute_texts import load_attributed
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint
from keras_bert_rebuild.tasks.saved_task import load_embedder

NAME = "someone/classifier"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A fine-tuned model and its folder."""
    task = small_task(TextClassifier, labels=("a", "b"))
    folder = tmp_path_factory.mktemp("saved") / "task"
    task.save(folder)
    return task, folder


@pytest.fixture
def hub(saved, tmp_path, monkeypatch):
    folder = shutil.copytree(saved[1], tmp_path / "repository")
    with asked_by_the_client(LoopbackHub({NAME: folder}), monkeypatch, tmp_path / "cache") as hub:
        yield hub


def test_a_task_is_loaded_by_its_name_and_says_which_commit_it_is(saved, hub):
    task = load_task(NAME)
    examples = [ClassifiedText("the cat sat"), ClassifiedText("a dog")]
    for answers, expected in zip(*(each.predict_examples(examples) for each in (task, saved[0])), strict=True):
        assert answers.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    assert load_task(f"{NAME}@{COMMIT}").settings() == load_task(NAME, revision="main").settings() == task.settings()
    assert f"model.safetensors of {NAME}@{COMMIT[:12]}" in task.model.load_report.source
    assert load_tokenizer(NAME).tokens == TOKENIZER.tokens
    assert inspect_checkpoint(NAME)["config"]["vocab_size"] == task.model.config.vocab_size


def test_an_encoder_starts_from_a_name(saved, hub):
    encoder = from_pretrained(NAME, heads=[])
    ids = np.array([[1, 7, 8, 2]])
    expected = from_pretrained(saved[1], heads=[])
    np.testing.assert_array_equal(*(ops.convert_to_numpy(model([ids, ids * 0])) for model in (encoder, expected)))
    task = TextClassifier.from_encoder(NAME, labels=["x", "y", "z"])
    assert task.labels == ("x", "y", "z")
    assert load_embedder(NAME)(["the cat"]).shape == (1, encoder.config.hidden_size)
    assert load_attributed(NAME).labels == ("a", "b")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model_type": "gpt2"}, "a model_type among .*; got 'gpt2'"),
        ({"model_type": "t5"}, "a model_type among .*; got 't5'"),
        ({"model_type": "bert", "is_decoder": True}, "describes another architecture: is_decoder must be False, got True"),
    ],
)
def test_another_family_and_a_decoder_are_refused_before_their_weights_are_downloaded(hub, values, reason):
    (hub.repositories[NAME] / "config.json").write_text(json.dumps(values))
    for load in (from_pretrained, load_task, load_embedder, load_attributed):
        with pytest.raises(ValueError, match=reason):
            load(NAME)
    assert not [path for _, path in hub.asked if path.endswith(".safetensors")]


def test_a_name_that_nobody_has_is_one_sentence(hub):
    for load in (from_pretrained, load_task, load_tokenizer):
        with pytest.raises(ValueError, match="there is no file or folder someone/nothing, and the hub has no model of this name"):
            load("someone/nothing")


def test_the_script_for_the_real_hub_tries_names_and_fails_if_one_does(hub, monkeypatch, capsys):
    tool = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "hub_names.py"))["main"]
    hub.repositories |= dict.fromkeys(("other/copy", "google/electra-small-discriminator"), hub.repositories[NAME])
    assert tool([NAME, "other/copy"]) == 0
    first, _, last = capsys.readouterr().out.splitlines()
    assert first.split() == [NAME, "bert", COMMIT[:12], "0", "MB", "0.0", "M", "(1,", "16)", "ok"]
    assert last == "2 of 2 as expected"
    assert tool(["someone/nothing", NAME, "electra-small-discriminator"]) == 1
    nothing, _, electra, last = capsys.readouterr().out.splitlines()
    assert "the hub has no model of this name" in nothing
    assert electra.endswith("the table has the family electra; the table has 14 million parameters")
    assert last == "1 of 3 as expected"
