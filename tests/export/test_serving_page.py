"""The Python of docs/export.md, run as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from eight_scripts import small_export

import keras_bert_rebuild
from keras_bert_rebuild import LateInteractionEmbedder

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("block", "folder", "format"),
    [(0, "served/1", "saved_model"), (1, "onnx", "onnx"), (2, "openvino", "openvino")],
)
def test_ten_lines_serve_a_model(tmp_path, rng, block, folder, format):
    keras_bert_rebuild.export(*small_export(rng), tmp_path / folder, format, poolings="mean", normalize=True)
    assert len(BLOCKS) == 4
    assert len(BLOCKS[block].splitlines()) <= 10
    done = subprocess.run([sys.executable, "-I", "-c", BLOCKS[block]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2, 16" in done.stdout


@pytest.mark.slow(torch=True)
def test_vectors_of_tokens_come_from_the_rows_of_the_folder(tmp_path, rng, monkeypatch):
    task = LateInteractionEmbedder.from_encoder(*small_export(rng), token_width=5, query_len=9)
    keras_bert_rebuild.export(task, None, tmp_path / "late", "openvino")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(BLOCKS[3], names)
    assert [vectors.shape for vectors in names["vectors"]] == [(9, 5)]
