"""`keras-bert embed` and `fill`: vectors, and words for masks, of the lines of a file; and models that are runs."""

import functools
import io
import json
import shutil
import sys

import numpy as np
import pytest
from helpers.command_line import run_verb, said_by_verb, save_small_model
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import EmbeddingStream, fill_mask, from_pretrained, load_tokenizer, save_pretrained
from keras_bert_rebuild.cli.arguments import model_folder, named, run_folder

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
    expected = EmbeddingStream.from_model(model, tokenizer, ("mean",), normalize=True, max_len=10)(LINES)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "vectors.npy"]


def test_other_poolings_can_be_chosen(capsys, folder, texts, tmp_path):
    code, out, _ = run(
        capsys, texts, "--model", folder, "--output", tmp_path / "a.npy", "--pooling", "cls,max", "--max-seq-length", 8
    )
    assert code == 0
    assert "5 vectors of 32" in out


@pytest.mark.slow
def test_a_whole_keras_model_gives_the_vectors_of_its_last_block(capsys, folder, texts, tmp_path):
    save_pretrained(from_pretrained(folder, heads=()), tmp_path / "encoder", "keras")
    for model, output in ((folder, "a.npy"), (tmp_path / "encoder", "b.npy")):
        assert run(capsys, texts, "--model", model, "--output", tmp_path / output, "--normalize", "--max-seq-length", 8)[0] == 0
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
        ((texts, "--output", tmp_path / "a.npy", "--max-seq-length", 1), "--max-seq-length must be from 2 to 12"),
        ((texts, "--output", tmp_path / "a.npy", "--max-seq-length", 0), "expected a whole number of at least 1; got '0'"),
    ):
        code, _, err = run(capsys, *arguments, "--model", folder)
        assert code == 2
        assert message in err


filled = functools.partial(said_by_verb, "fill")
MASKED = ["the [MASK] sat .", "[MASK] cat [MASK]"]


def test_masks_are_filled_as_in_python_in_text_and_in_json_lines(capsys, folder, tmp_path):
    expected = fill_mask(from_pretrained(folder), load_tokenizer(folder), MASKED, top_k=2)
    rows = [json.loads(line) for line in filled(capsys, folder, *MASKED, "--top-k", 2, "--format", "json").out.splitlines()]
    assert [row["text"] for row in rows] == MASKED
    for row, masks in zip(rows, expected, strict=True):
        assert [[answer["token"] for answer in answers] for answers in row["masks"]] == [
            [token for token, _ in mask] for mask in masks
        ]
        assert row["masks"][0][0]["probability"] == pytest.approx(masks[0][0][1], abs=1e-6)
    text = filled(capsys, folder, "--top-k", 2, *MASKED).out.splitlines()
    (first, p), (second, q) = expected[0][0]
    assert text[:3] == [MASKED[0], f"  {first} {p:.3f}  {second} {q:.3f}", MASKED[1]]
    assert [line[:5] for line in text[3:]] == ["  1  ", "  2  "]


def test_a_model_without_an_mlm_head_is_one_sentence(capsys, tmp_path):
    save_pretrained(small_encoder(["nsp"]), tmp_path / "nsp", vocabulary=TOKENIZER)
    assert filled(capsys, tmp_path / "nsp", "the [MASK]", code=2).err.endswith("must have an MLM head; its outputs are NSP.\n")


def test_a_file_and_standard_input_are_filled_like_texts(capsys, folder, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("\n\n".join(MASKED) + "\n")
    said = filled(capsys, folder, "--input", tmp_path / "texts.txt", "--output", tmp_path / "a.jsonl")
    assert said.out == f"wrote    {tmp_path / 'a.jsonl'}  2 texts\n"
    expected = filled(capsys, folder, *MASKED, "--format", "json").out
    assert (tmp_path / "a.jsonl").read_text() == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(MASKED)))
    assert filled(capsys, folder, "--format", "json").out == expected
    again = filled(capsys, folder, *MASKED, "--output", tmp_path / "a.jsonl", code=2).err
    assert "exists already: choose another output, or --overwrite" in again
    filled(capsys, folder, *MASKED, "--output", tmp_path / "a.jsonl", "--overwrite")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["the cat"], "text must be a string with at least one [MASK]; got 'the cat'"),
        (["[MASK]", "--input", "texts.txt"], "TEXT and --input exclude each other"),
        (["--input", "empty.txt"], "the texts must be lines with a mask; empty.txt has none."),
        (["--input", "texts.txt", "--output", "a.txt"], "the output must be filled masks, a file whose name ends in .jsonl"),
        (["--input", "texts.txt", "--output", "a.jsonl"], "with at least one [MASK]; got 'the dog'"),
        (["[MASK]", "--output", "a.jsonl", "--format", "text"], "--format is for what is printed"),
    ],
)
def test_what_cannot_be_filled_is_a_sentence_and_nothing_is_written(capsys, folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("[MASK]\nthe dog\n")
    (tmp_path / "empty.txt").write_text("\n")
    said = filled(capsys, folder, *arguments, code=2)
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "texts.txt"]


def test_every_verb_takes_a_run_instead_of_its_model(capsys, folder, tmp_path):
    run_of_model = tmp_path / "run"
    shutil.copytree(folder, run_of_model / "model")
    (run_of_model / "settings.yaml").write_text("steps: 1\n")
    (tmp_path / "texts.txt").write_text("the cat sat\n")
    for model, output in ((folder, "a"), (run_of_model, "b")):
        said_by_verb("embed", capsys, tmp_path / "texts.txt", "--model", model, "--output", tmp_path / f"{output}.npy")
        said_by_verb("attention", capsys, "the cat", "--model", model, "--output", tmp_path / f"{output}.html")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    assert '"run"' in (tmp_path / "b.html").read_text()
    for verb, *arguments in (
        ("fill", run_of_model, "[MASK]"),
        ("lens", "the [MASK]", "--model", run_of_model),
        ("why", "the [MASK]", "--model", run_of_model),
        ("inspect", "--model", run_of_model),
        ("explain", "--model", run_of_model),
        ("convert", "--model", run_of_model, "--format", "keras", "--output", tmp_path / "keras"),
    ):
        assert said_by_verb(verb, capsys, *arguments).out


def test_a_run_stands_for_its_model_and_one_without_a_model_is_refused(tmp_path):
    for name in ("run/settings.yaml", "recipe/run/settings.yaml", "model/config.json", "begun/settings.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    for name in ("run/model", "recipe/run/model"):
        (tmp_path / name).mkdir()
    assert model_folder(tmp_path / "run") == tmp_path / "run" / "model"
    assert model_folder(tmp_path / "recipe") == tmp_path / "recipe" / "run" / "model"
    assert model_folder(tmp_path / "model") == tmp_path / "model"
    assert model_folder(tmp_path / "missing") == tmp_path / "missing"
    with pytest.raises(ValueError, match="begun must be a finished run, with a model; the command that began it resumes it"):
        model_folder(tmp_path / "begun")
    assert run_folder(tmp_path / "run" / "model") == tmp_path / "run"
    assert (named(tmp_path / "run" / "model"), named(tmp_path / "model")) == ("run", "model")
