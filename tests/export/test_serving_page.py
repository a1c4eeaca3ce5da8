"""The programs on docs/guides/export.md that run what was exported, as written."""

import subprocess
import sys
from pathlib import Path

import pytest
from eight_scripts import small_export
from helpers.page_blocks import blocks

import keras_bert_rebuild
from keras_bert_rebuild import LateInteractionEmbedder

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "export.md"


def program(beginning):
    """The program of the page that begins with these words."""
    (block,) = (block for _, block in blocks(PAGE) if block.startswith(beginning))
    return block


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("beginning", "folder", "format", "printed"),
    [
        ("import tensorflow", "served/1", "saved_model", "2, 16"),
        ("import numpy as np\nimport onnxruntime", "onnx", "onnx", "1. "),
        ("import numpy as np\nimport openvino", "openvino", "openvino", "2, 16"),
    ],
)
def test_ten_lines_serve_a_model(tmp_path, rng, beginning, folder, format, printed):
    keras_bert_rebuild.export(*small_export(rng), tmp_path / folder, format, poolings="mean", normalize=True)
    block = program(beginning)
    assert len([line for line in block.splitlines() if line]) <= 11
    done = subprocess.run([sys.executable, "-I", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert printed in done.stdout


@pytest.mark.slow(torch=True)
def test_vectors_of_tokens_come_from_the_rows_of_the_folder(tmp_path, rng, monkeypatch):
    task = LateInteractionEmbedder.from_encoder(*small_export(rng), token_width=5, query_len=9)
    keras_bert_rebuild.export(task, None, tmp_path / "late", "openvino")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program("from keras_bert_rebuild.export.openvino"), names)
    assert [vectors.shape for vectors in names["vectors"]] == [(9, 5)]
