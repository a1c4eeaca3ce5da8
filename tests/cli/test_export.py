"""`keras-bert export`."""

import functools
import json

import pytest
from helpers.command_line import run_verb, save_small_model

from keras_bert_rebuild import from_pretrained

run = functools.partial(run_verb, "export")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_the_files_are_written_and_listed(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "--model", folder, "--output", tmp_path / "hf", "--format", "huggingface")
    assert code == 0
    assert f"wrote    {tmp_path / 'hf' / 'model.safetensors'}" in out
    assert from_pretrained(tmp_path / "hf").config == from_pretrained(folder).config


@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_a_saved_model_is_the_default(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "--model", folder, "--output", tmp_path / "served", "--heads", "nsp")
    assert code == 0
    assert "saved_model.pb" in out
    assert "export.json" in out


def test_an_embedding_folder_is_exported_with_the_heads_of_its_file(capsys, folder, tmp_path):
    (tmp_path / "vectors" / "1_Pooling").mkdir(parents=True)
    for file in folder.iterdir():
        (tmp_path / "vectors" / file.name).write_bytes(file.read_bytes())
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    modules += [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (tmp_path / "vectors" / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "vectors" / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    arguments = ("--output", tmp_path / "out", "--format", "onnx", "--heads", "question_answering")
    code, _, err = run(capsys, "--model", tmp_path / "vectors", *arguments)
    assert (code, "Question-Answering/kernel" in err) == (2, True)


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    for arguments, message in (
        (("--format", "openvino_int8"), "--format openvino_int8 needs typical texts for calibration: add --calibrate FILE."),
        (("--pooling", "median", "--format", "onnx"), "--pooling must be some of cls, max, mean"),
        (("--format", "huggingface", "--pooling", "mean"), "a Hugging Face folder holds none"),
        (("--heads", "nsp", "--pooling", "mean"), "--heads and --pooling exclude each other"),
    ):
        code, _, err = run(capsys, "--model", folder, "--output", tmp_path / "x", *arguments)
        assert code == 2
        assert message in err
        assert not (tmp_path / "x").exists()
