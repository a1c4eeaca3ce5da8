"""Folders of tasks, and folders that are not."""

import json
import shutil

import pytest
from helpers.hostile_inputs import fault_of, mutations
from helpers.small_tasks import TOKENIZER, VOCABULARY, small_encoder, small_task
from safetensors.numpy import load_file, save_file

from keras_bert_rebuild import QuestionAnswerer, TextClassifier, WordPieceTokenizer, from_pretrained, load_task, save_pretrained
from keras_bert_rebuild.tasks import saved_task
from keras_bert_rebuild.tasks.registry import task_class, task_kinds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "task"
    small_task(TextClassifier, labels=("bad", "gut, ö"), max_len=20).save(path)
    return path


def test_a_folder_has_the_files_of_hugging_face_and_the_rest(folder):
    assert {file.name for file in folder.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "task.json"
    }  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "bad", "1": "gut, ö"}
    assert json.loads((folder / "task.json").read_text()) == {
        "task": "classification", "max_len": 20, "stride": 5, "problem": "single_label", "threshold": 0.5
    }  # fmt: skip


def test_settings_can_be_changed_on_loading(folder):
    task = load_task(folder, max_len=30)
    assert (task.max_len, task.stride, task.labels) == (30, 5, ("bad", "gut, ö"))


def test_a_cased_tokenizer_is_cased_in_the_folder(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
    for cased in (True, False):
        task = TextClassifier.from_encoder(small_encoder(), WordPieceTokenizer(words, cased=cased), labels=("x", "y"))
        task.save(tmp_path / str(cased))
        assert load_task(tmp_path / str(cased)).tokenizer.cased == cased


def test_a_vocabulary_file_of_any_name_is_saved_in_the_folder(tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(VOCABULARY))
    TextClassifier.from_encoder(small_encoder(), tmp_path / "words.txt", labels=("x", "y")).save(tmp_path / "task")
    assert load_task(tmp_path / "task").tokenizer.vocabulary == TOKENIZER.vocabulary


def test_nothing_remains_of_the_tokenizer_of_the_encoder(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "encoder")
    (tmp_path / "encoder" / "tokenizer.json").write_text("{}")
    task = TextClassifier.from_encoder(tmp_path / "encoder", WordPieceTokenizer(VOCABULARY), labels=("x", "y"))
    task.save(tmp_path / "encoder")
    assert not (tmp_path / "encoder" / "tokenizer.json").exists()


def test_an_id_without_a_token_shifts_no_other(tmp_path):
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 5, "b": 6}
    TextClassifier.from_encoder(small_encoder(), vocabulary, labels=("x", "y")).save(tmp_path / "task")
    assert load_task(tmp_path / "task").tokenizer.vocabulary == {**vocabulary, "[gap 4]": 4}


def test_an_encoder_is_loaded_with_its_tokenizer_and_a_new_head(folder):
    task = TextClassifier.from_encoder(folder, labels=("bad", "gut, ö"))
    assert task(["the cat"]) != load_task(folder)(["the cat"])
    assert [path for path, _ in task.model.load_report.missing] == ["Classification/kernel", "Classification/bias"]
    assert task.tokenizer.vocabulary == TOKENIZER.vocabulary
    assert QuestionAnswerer.from_encoder(folder).model.output_names == ["Question-Answering"]


def test_bad_folders_are_one_sentence(folder, tmp_path):
    save_pretrained(small_encoder(), tmp_path / "encoder", vocabulary=TOKENIZER.vocabulary)
    small_encoder().save(tmp_path / "model.keras")
    for name, content in (
        ("broken", "[1]"),
        ("other", '{"task": ["classification"]}'),
        ("newer", '{"task": "classification", "heat": 2}'),
    ):
        shutil.copytree(folder, tmp_path / name)
        (tmp_path / name / "task.json").write_text(content)
    for arguments, message in (
        (("encoder",), "has neither: fine-tune it, or in Python name the kind of task, one of classification"),
        (("encoder", "classification"), "does not fit the model"),
        (("other",), r"task\.json must have a text as task; got \['classification'\]"),
        (("encoder", "tagging"), "expected a task among classification, .*; got 'tagging'"),
        (("model.keras",), "is a Keras model"),
        (("broken",), "task.json must be a JSON object; got list"),
        (("newer",), "task.json must have settings of TextClassifier, some of problem, .*; got heat"),
        (("nothing",), "there is no file or folder"),
    ):
        with pytest.raises(ValueError, match=message):
            load_task(tmp_path / arguments[0], *arguments[1:])


@pytest.mark.parametrize("kind", task_kinds())
def test_a_value_of_a_wrong_type_in_task_json_is_a_sentence_that_names_the_file(tmp_path, monkeypatch, kind):
    labels = {"labels": ("O", "B-x")} if "classification" in kind else {}
    task = task_class(kind).from_encoder(
        small_encoder(("mlm",) if kind == "sparse_embedding" else ("pooler",)), TOKENIZER, **labels
    )
    task.save(tmp_path / "task")
    model = from_pretrained(tmp_path / "task", heads=task.heads)
    monkeypatch.setattr(saved_task, "from_pretrained", lambda path, **_: model)
    file = tmp_path / "task" / "task.json"
    good, faults = json.loads(file.read_text()), []
    if "skiplist_words" in good:
        good["skiplist_words"] = ["."]
    for where, mutated in mutations(good):
        file.write_text(json.dumps(mutated).replace("Infinity", "1e400"))
        fault = fault_of(lambda: load_task(tmp_path / "task"), str(file.parent))
        faults += [] if fault is None else [f"{where}: {fault}"]
    assert faults == []


def test_a_classifier_without_its_pooler_is_no_tagger(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "task")
    (tmp_path / "task" / "task.json").unlink()
    weights = tmp_path / "task" / "model.safetensors"
    save_file({name: array for name, array in load_file(weights).items() if "pooler" not in name}, weights)
    for load in (load_task, from_pretrained):
        with pytest.raises(
            ValueError, match=r"model\.safetensors .* without bert\.pooler\.dense\.weight, bert\.pooler\.dense\.bias"
        ):
            load(tmp_path / "task")
    assert from_pretrained(tmp_path / "task", heads=[]).load_report.missing == []
    config = json.loads((tmp_path / "task" / "config.json").read_text())
    (tmp_path / "task" / "config.json").write_text(json.dumps({**config, "architectures": ["BertForTokenClassification"]}))
    assert load_task(tmp_path / "task").kind == "token_classification"


BROKEN = {
    "": "it is empty",
    '{"model": {"type": "WordP': "must be JSON in UTF-8",
    "[]": "must be a JSON object; got list",
    "{}": "has only an empty tokenizer",
    "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 466062\n": "it is a git-lfs pointer to it",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_tokenizer_json_is_named_as_what_it_is_and_where_it_is(folder, tmp_path, content):
    shutil.copytree(folder, tmp_path / "task")
    (tmp_path / "task" / "vocab.txt").unlink()
    (tmp_path / "task" / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=BROKEN[content]) as error:
        load_task(tmp_path / "task")
    assert str(tmp_path / "task") in str(error.value)
    assert "task.json" not in str(error.value)
