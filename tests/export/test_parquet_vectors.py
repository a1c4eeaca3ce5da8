"""Vectors in a parquet file, where pyarrow is installed."""

import numpy as np
import pyarrow.parquet
import pytest

from keras_bert_rebuild.cli import embed
from keras_bert_rebuild.cli.embed import written_vectors


def test_texts_and_vectors_come_back(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(embed, "GROUP", 2)
    texts, vectors = ["eins", "", "三"], rng.normal(size=(3, 4)).astype("float32")
    with written_vectors(tmp_path / "a.parquet", 3) as write:
        for text, vector in zip(texts, vectors, strict=True):
            assert write(text, vector) == 4
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert table["text"].to_pylist() == texts
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), "float32"), vectors)


def interrupted(path):
    with written_vectors(path, 3) as write:
        write("a", np.ones(2, "float32"))
        raise KeyboardInterrupt


def test_an_interrupted_run_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())
