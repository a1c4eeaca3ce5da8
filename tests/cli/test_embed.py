"""`keras-bert embed`."""

import functools
import json
import sys

import numpy as np
import pytest
from helpers.command_line import run_verb, save_small_model

from keras_bert_rebuild import EmbeddingStream, from_pretrained, load_tokenizer, save_pretrained

run = functools.partial(run_verb, "embed")

LINES = ["the cat sat.", "", "the the", "cat " * 100, "sat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model as sentence-transformers would save it, with a maximum of ten tokens."""
    path = save_small_model(tmp_path_factory.mktemp("model"))
    types = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    (path / "modules.json").write_text(
        json.dumps([{"path": place, "type": f"sentence_transformers.models.{name}"} for place, name in types])
    )
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 10}))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return path


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\ufeff" + "\r\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_every_line_has_a_vector_pooled_like_sentence_transformers(capsys, folder, texts, tmp_path):
    output = tmp_path / "vectors.npy"
    code, out, _ = run(capsys, texts, "--model", folder, "--output", output)
    assert code == 0
    assert out == f"wrote    {output}  5 vectors of 16, float32\n"
    vectors = np.load(output, mmap_mode="r")
    assert vectors.dtype == "float32"
    model, tokenizer = from_pretrained(folder, heads=()), load_tokenizer(folder)
    expected = EmbeddingStream.of_model(model, tokenizer, ("mean",), normalize=True, max_len=10)(LINES)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "vectors.npy"]


def test_other_poolings_can_be_chosen(capsys, folder, texts, tmp_path):
    code, out, _ = run(capsys, texts, "--model", folder, "--output", tmp_path / "a.npy", "--pooling", "cls,max", "--max-len", 8)
    assert code == 0
    assert "5 vectors of 32" in out


@pytest.mark.slow
def test_a_whole_keras_model_gives_the_vectors_of_its_last_block(capsys, folder, texts, tmp_path):
    save_pretrained(from_pretrained(folder, heads=()), tmp_path / "encoder", "keras")
    for model, output in ((folder, "a.npy"), (tmp_path / "encoder", "b.npy")):
        assert run(capsys, texts, "--model", model, "--output", tmp_path / output, "--normalize", "--max-len", 8)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    save_pretrained(from_pretrained(folder, heads=["pooler"]), tmp_path / "pooled", "keras")
    code, _, err = run(capsys, texts, "--model", tmp_path / "pooled", "--output", tmp_path / "c.npy")
    assert (code, "heads cannot be chosen; it has pooler" in err) == (2, True)


def test_the_old_output_stays_when_the_input_cannot_be_read(capsys, folder, tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"the cat\n\xff\xfe\n")
    before = b"\x93NUMPY of an earlier call"
    (tmp_path / "a.npy").write_bytes(before)
    code, _, err = run(capsys, tmp_path / "texts.txt", "--model", folder, "--output", tmp_path / "a.npy", "--overwrite")
    assert code == 2
    assert "must be UTF-8; line 2 of" in err
    assert (tmp_path / "a.npy").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_an_impossible_output_is_reported_before_the_model_is_read(capsys, texts, tmp_path):
    code, _, err = run(capsys, texts, "--output", tmp_path / "a.txt", "--model", "nowhere")
    assert (code, "ends in .npy, .parquet; got" in err) == (2, True)


def test_mistakes_are_reported_in_a_sentence(capsys, folder, texts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "empty.txt").write_text("")
    for arguments, message in (
        ((texts, "--output", tmp_path / "a.csv"), "ends in .npy, .parquet; got"),
        ((texts, "--output", tmp_path / "a.parquet"), "pip install pyarrow"),
        ((texts, "--output", tmp_path / "no" / "a.npy"), "No such folder to write to"),
        ((tmp_path / "none.txt", "--output", tmp_path / "a.npy"), "expected a file of texts; "),
        ((tmp_path / "empty.txt", "--output", tmp_path / "a.npy"), "has none"),
        ((texts, "--output", tmp_path / "a.npy", "--pooling", "median"), "--pooling must be some of cls, max, mean"),
        ((texts, "--output", tmp_path / "a.npy", "--max-len", 1), "--max-seq-length must be from 2 to 12"),
        ((texts, "--output", tmp_path / "a.npy", "--max-len", 0), "expected a whole number of at least 1; got '0'"),
    ):
        code, _, err = run(capsys, *arguments, "--model", folder)
        assert code == 2
        assert message in err
