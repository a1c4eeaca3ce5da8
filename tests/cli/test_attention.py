"""`keras-bert attention`."""

import functools
import json
import re
import shutil

import keras
import pytest
from helpers.command_line import run_verb, save_small_model
from helpers.small_tasks import small_task

from keras_bert_rebuild import TextClassifier, from_pretrained
from keras_bert_rebuild.files.yaml_files import write_yaml
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

run = functools.partial(run_verb, "attention")


def data_of(output):
    """The data of the page in a file."""
    return json.loads(re.search(r'id="data">(.*?)</script>', output.read_text(encoding="utf-8"), re.DOTALL)[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_two_texts_give_one_page(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    code, out, _ = run(capsys, "the cat", "--pair", "sat.", "--model", folder, "--output", output)
    assert code == 0
    assert out.startswith(f"Wrote {output}, 0.")
    assert '"tokens":["[CLS]","the","cat","[SEP]","sat",".","[SEP]"]' in output.read_text(encoding="utf-8")
    code, _, _ = run(capsys, "the cat", "--model", folder, "--output", output, "--layers", "1", "--heads", "0,1", "--overwrite")
    assert code == 0
    assert '"layers":[1],"heads":[0,1]' in output.read_text(encoding="utf-8")


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    for arguments, message in (
        (("cat", "--model", folder, "--output", tmp_path / "no" / "page.html"), "No such folder to write to"),
        (("cat", "--model", folder, "--output", tmp_path / "page.pdf"), "a file whose name ends in .html, .htm; got"),
        (("cat", "--model", folder, "--output", output, "--layers", "one"), "--layers must be numbers separated by commas"),
        (("cat", "--model", folder, "--output", output, "--layers", "7"), "attention: --layers must be integers from 0 to 1"),
        (("cat", "--model", tmp_path / "none", "--output", output), "none; it does not exist"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not output.exists()


@pytest.fixture(scope="module")
def run_of_training(folder, tmp_path_factory):
    """The folder of a run: its model with its vocabulary, and two checkpoints of it."""
    run_folder = tmp_path_factory.mktemp("training") / "run"
    shutil.copytree(folder, run_folder / "model")
    write_yaml(run_folder / "settings.yaml", {"gradient_accumulation_steps": 2})
    for number, (step, model) in enumerate(((200, from_pretrained(folder)), (4000, from_pretrained(folder)))):
        weights = {f"weights/{w.path}": number + keras.ops.convert_to_numpy(w) for w in model.weights}
        CheckpointFolder(run_folder / "checkpoints").save(step, weights)
    return run_folder


def test_another_model_is_shown_beside_the_first(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    code, _, err = run(capsys, "the cat", "--model", folder, "--other", folder, "--output", output)
    assert code == 0, err
    assert len(data_of(output)["sources"]) == 2


def test_the_checkpoints_of_a_run_are_on_one_page(capsys, run_of_training, tmp_path):
    output = tmp_path / "page.html"
    code, _, err = run(capsys, "the cat", "--model", run_of_training, "--checkpoints", "--output", output)
    assert code == 0, err
    assert [source["step"] for source in data_of(output)["sources"]] == [100, 2000]


def test_the_lens_and_the_importance_of_heads_are_on_the_page(capsys, folder, tmp_path):
    output, numbers = tmp_path / "page.html", tmp_path / "heads.json"
    numbers.write_text('{"values": [[1, 2], [3, 0.5]]}')
    code, _, err = run(capsys, "the cat", "--model", folder, "--lens", "--importance", numbers, "--output", output)
    assert code == 0, err
    data = data_of(output)
    (source,) = data["sources"]
    assert source["importance"] == [[1, 2], [3, 0.5]]
    assert source["lens"]["blocks"] == ["embedding", "block 1", "block 2"]
    numbers.write_text('[[1, "much"]]')
    code, _, err = run(capsys, "the cat", "--model", folder, "--importance", numbers, "--output", tmp_path / "none.html")
    assert (code, err.count("\n")) == (2, 1)
    assert "must hold a list for every layer" in err


def test_the_answer_of_a_task_is_explained_under_its_words(capsys, tmp_path):
    small_task(TextClassifier, labels=["cat", "dog"]).save(tmp_path / "task")
    output = tmp_path / "page.html"
    code, _, err = run(capsys, "The cat sat.", "--model", tmp_path / "task", "--why", "gradient_x_input", "--output", output)
    assert code == 0, err
    (found,) = data_of(output)["sources"][0]["attributions"]
    assert len(found["scores"]) == len(data_of(output)["tokens"])
    assert found["target"] in ("logit of cat", "logit of dog")
    assert any(found["scores"])


def test_two_models_are_explained_side_by_side(capsys, folder, tmp_path):
    for seed, name in enumerate(("before", "after")):
        small_task(TextClassifier, labels=["cat", "dog"], seed=seed).save(tmp_path / name)
    output, numbers = tmp_path / "page.html", tmp_path / "heads.json"
    numbers.write_text("[[1, 2], [3, 0.5]]")
    both = ("--model", tmp_path / "before", "--other", tmp_path / "after", "--output", output)
    code, _, err = run(capsys, "The cat sat.", *both, "--why", "gradient_x_input", "--other-importance", numbers)
    assert code == 0, err
    first, second = data_of(output)["sources"]
    assert first["attributions"][0]["scores"] != second["attributions"][0]["scores"]
    assert (first["importance"], second["importance"]) == (None, [[1, 2], [3, 0.5]])
    code, _, err = run(capsys, "the cat", "--model", folder, "--other", folder, "--lens", "--output", output, "--overwrite")
    assert code == 0, err
    assert [source["lens"]["blocks"][-1] for source in data_of(output)["sources"]] == ["block 2"] * 2


def test_the_lens_of_a_model_without_its_head_is_refused_by_name(capsys, folder, tmp_path):
    small_task(TextClassifier, labels=["cat", "dog"]).save(tmp_path / "task")
    arguments = ("the cat", "--model", folder, "--other", tmp_path / "task", "--lens", "--output", tmp_path / "page.html")
    code, _, err = run(capsys, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert f"--lens needs a model with an MLM head; the outputs of {tmp_path / 'task'} are" in err


def test_options_that_mean_nothing_together_are_refused(capsys, folder, run_of_training, tmp_path):
    output = tmp_path / "page.html"
    for arguments, message in (
        (("--model", run_of_training, "--checkpoints", "--other", folder), "cannot be used together"),
        (
            ("--model", run_of_training, "--checkpoints", "--lens"),
            "for one model or two, not for the steps of a training",
        ),
        (("--model", folder, "--other-tokenizer", folder), "--other-tokenizer is for a second model: add --other"),
        (("--model", folder, "--other-importance", folder), "--other-importance is for a second model: add --other"),
        (("--model", folder, "--checkpoints"), "the folder of a pretraining with settings.yaml and checkpoints"),
    ):
        code, _, err = run(capsys, "cat", *arguments, "--output", output)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not output.exists()
