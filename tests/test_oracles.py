"""The published numbers of keras_bert's toy checkpoint, where the variable KERAS_BERT_TOY names its folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from keras_bert_rebuild import load_trained_model_from_checkpoint

FOLDER = os.environ.get("KERAS_BERT_TOY")
pytestmark = pytest.mark.skipif(not FOLDER, reason="the checkpoint is keras_bert's and not in this repository")


def load(**kwargs):
    return load_trained_model_from_checkpoint(Path(FOLDER) / "bert_config.json", Path(FOLDER) / "bert_model.ckpt", **kwargs)


def padded(*ids):
    return np.array([[*ids, *[0] * (16 - len(ids))]])


def test_features():
    model = load()
    ids = padded(2, 5, 6, 7, 8, 9, 3)
    expected = [
        [-0.76589763, 1.719783, -0.45609584, -0.49777868],
        [0.6407585, 0.99602336, -1.6114422, -0.02534575],
        [-1.4000571, 1.2084473, -0.4338812, 0.62550646],
    ]
    np.testing.assert_allclose(model.predict((ids, ids * 0), verbose=0)[0, :3], expected, atol=1e-5)
    assert model.count_params() == 628


def test_two_layers():
    ids, segments = padded(2, 5, 6, 7, 3, 10, 11, 3), padded(0, 0, 0, 0, 0, 1, 1, 1)
    got = load(output_layer_num=2).predict((ids, segments), verbose=0)[0]
    first = [-0.7659022, 1.7197794, -0.4559381, -0.4979251, -0.7658383, 1.7197967, -0.456443, -0.4975047]
    last = [-0.5536463, 1.7298548, -0.5194702, -0.6567262, -0.5539777, 1.7298936, -0.5199572, -0.6559532]
    np.testing.assert_allclose(got[0], first, atol=1e-5)
    np.testing.assert_allclose(got[7], last, atol=1e-5)


def test_heads():
    model = load(training=True)
    ids = padded(2, 5, 6, 4, 8, 9, 3)
    mlm, nsp = model.predict((ids, ids * 0, ids * 0), verbose=0)
    expected = [0.0641542, 0.0682195, 0.0646426, 0.0672725, 0.0666783, 0.0684824, 0.0630755, 0.0671509]
    expected += [0.0661182, 0.0645088, 0.0687907, 0.0650295, 0.0703503, 0.0688352, 0.0666916]
    np.testing.assert_allclose(mlm[0, 3], expected, atol=1e-6)
    np.testing.assert_allclose(nsp[0], [0.4994826, 0.5005173], atol=1e-6)
    assert model.count_params() == 701
