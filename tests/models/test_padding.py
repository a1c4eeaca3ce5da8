"""Padding is invisible."""

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, compiled, initialized_by, small_batch, small_model, spread

from keras_bert_rebuild import get_model
from keras_bert_rebuild.layers import MaskedGlobalMaxPool1D

pytestmark = pytest.mark.backend

PADDING = 4


def pad_segments_changed(segments):
    changed = segments.copy()
    changed[:, LENGTH - PADDING :] = 1 - changed[:, LENGTH - PADDING :]
    return changed


@pytest.fixture
def batch(rng):
    (ids, segments, chosen), y = small_batch(rng, padding=PADDING)
    return ids, segments, chosen, y


def test_ids_at_padding_do_not_change_real_tokens_at_all(rng, batch):
    ids, segments, chosen, _ = batch
    model = spread(small_model(), rng)
    a = model.predict((ids, segments, chosen), verbose=0)
    b = model.predict((ids, pad_segments_changed(segments), chosen), verbose=0)
    assert np.abs(a[0] - b[0])[:, : LENGTH - PADDING].max() == 0.0
    assert np.abs(a[0] - b[0])[:, LENGTH - PADDING :].max() > 0.0
    assert np.abs(a[1] - b[1]).max() == 0.0


HEADS_ON_TOP = {
    "max pooling": lambda: MaskedGlobalMaxPool1D(),
    "average pooling": lambda: keras.layers.GlobalAveragePooling1D(),
    "LSTM": lambda: keras.layers.LSTM(5),
    "GRU": lambda: keras.layers.GRU(5),
    "bidirectional": lambda: keras.layers.Bidirectional(keras.layers.LSTM(3)),
}


@pytest.mark.parametrize("head", HEADS_ON_TOP)
@pytest.mark.parametrize("nested", [False, True])
def test_a_users_layer_on_top_does_not_see_padding(rng, batch, head, nested):
    ids, segments, _, _ = batch
    encoder = keras.Model(*small_model(training=False))
    spread(encoder, rng)
    if nested:
        inputs = [keras.Input((LENGTH,), dtype="int32"), keras.Input((LENGTH,), dtype="int32")]
        model = keras.Model(inputs, HEADS_ON_TOP[head]()(encoder(inputs)))
    else:
        model = keras.Model(encoder.inputs, HEADS_ON_TOP[head]()(encoder.output))
    a = model.predict((ids, segments), verbose=0)
    b = model.predict((ids, pad_segments_changed(segments)), verbose=0)
    assert np.abs(a - b).max() == 0.0
    changed = segments.copy()
    changed[:, 0] = 1
    assert np.abs(a - model.predict((ids, changed), verbose=0)).max() > 1e-4


@pytest.mark.parametrize("max_predictions", [None, 4])
def test_the_loss_does_not_see_padding(rng, batch, max_predictions):
    ids, segments, chosen, y = batch
    model = compiled(spread(small_model(), rng), max_predictions=max_predictions)
    expected = model.evaluate((ids, segments, chosen), y, verbose=0)
    everywhere = chosen.copy()
    everywhere[:, LENGTH - PADDING :] = 1  # padding chosen for prediction is not predicted
    labels = (np.where(ids[..., None] == 0, 7, y[0]), y[1])
    got = model.evaluate((ids, pad_segments_changed(segments), everywhere), labels, verbose=0)
    np.testing.assert_array_equal(got, expected)


def test_a_longer_padded_length_changes_nothing_but_rounding(rng):
    model = spread(small_model(seq_len=None), rng)
    ids = rng.integers(5, VOCAB, (4, 7))
    short = model.predict((ids, ids * 0, ids * 0), verbose=0)
    longer = np.pad(ids, ((0, 0), (0, 5)))
    long = model.predict((longer, longer * 0, longer * 0), verbose=0)
    np.testing.assert_allclose(long[0][:, :7], short[0], atol=1e-5)
    np.testing.assert_allclose(long[1], short[1], atol=1e-5)


@pytest.mark.slow(torch=True)
def test_padded_lengths_of_bert_base_agree_to_1e_5_in_float32(rng):
    with initialized_by(lambda shape, dtype: rng.standard_normal(shape, dtype) * np.float32(0.04)):
        model = keras.Model(*get_model(3000, seq_len=None, training=False, transformer_num=12))
    ids = rng.integers(5, 3000, (2, 24))
    short = model.predict((ids, ids * 0), verbose=0)
    longer = np.pad(ids, ((0, 0), (0, 40)))
    segments = longer * 0
    long = model.predict((longer, segments), verbose=0)
    assert np.abs(long[:, :24] - short).max() <= 1e-5
    segments[:, 24:] = 1
    assert np.abs(model.predict((longer, segments), verbose=0) - long)[:, :24].max() == 0.0


def test_a_row_with_only_padding_is_finite(rng):
    ids = np.zeros((2, LENGTH), int)
    ids[0, :3] = 7
    model = spread(small_model(), rng)
    for output in model.predict((ids, ids * 0, ids * 0), verbose=0):
        assert np.isfinite(output).all()
