"""XLNet: its attention against plain NumPy, padding on both sides, its folds, its files, and what is refused."""

import keras
import numpy as np
import pytest
from helpers.reference import weights_of as values_of
from helpers.small import answers, random_model
from helpers.tiny_families import ODD_XLNET, XLNET, XLNET_PAD

from keras_bert_rebuild import (
    BertConfig,
    attention_maps,
    build_model,
    explain,
)
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.families.xlnet import XLNetConfig
from keras_bert_rebuild.models.permutation_model import run_with_memories
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory
from keras_bert_rebuild.training.distributed.distribution import axes_of


@pytest.fixture
def ids(rng):
    ids = rng.integers(6, 31, (2, 13)).astype("int32")
    ids[1, :4] = XLNET_PAD
    return ids


@pytest.fixture
def segments(ids):
    return np.where(np.arange(13) < 8, 0, 1).astype("int32") * np.ones_like(ids) + (np.arange(13) == 12)


def array_of(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.stop_gradient(tensor), "float32"))


def plain_probabilities(weights, name, x, segments, mask, heads, reach):
    """The attention of a layer, score by score, in float64."""
    width = x.shape[-1] // heads

    def split(values):
        return values.astype("float64").reshape(*values.shape[:-1], heads, width)

    query, key = (split(x @ weights[f"{name}/{part}/kernel"]) for part in ("query", "key"))
    content, position, segment = (split(weights[f"{name}/{part}_bias"]) for part in ("content", "position", "segment"))
    same, other = split(weights[f"{name}/segment_embeddings"])
    length, half = x.shape[1], x.shape[-1] // 2
    scores = np.zeros((len(x), heads, length, length))
    for i in range(length):
        for j in range(length):
            angles = np.clip(i - j, -reach, reach) * 10000.0 ** (-np.arange(half) / half)
            row = split(np.concatenate([np.sin(angles), np.cos(angles)]) @ weights[f"{name}/position_key/kernel"])
            kind = np.where((segments[:, i] == segments[:, j])[:, None, None], same, other)
            total = (query[:, i] + content) * key[:, j] + (query[:, i] + position) * row + (query[:, i] + segment) * kind
            scores[:, :, i, j] = total.sum(-1) / np.sqrt(width)
    exponentials = np.where(mask[:, None, None], np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("reach", [0, 4])
def test_attention_is_the_sum_of_three_terms_with_a_bias_each(reach, rng, ids, segments):
    model = random_model(XLNET.replace(clamp_len=reach), (), rng)
    weights = values_of(model)
    maps = attention_maps(model, [ids, segments], vectors=True)
    for number in (1, 2):
        name = f"Encoder-{number}-MultiHeadSelfAttention"
        x = maps.inputs[number - 1].astype("float64")
        expected = plain_probabilities(weights, name, x, segments, ids != XLNET_PAD, 3, reach or 99)
        np.testing.assert_allclose(maps.probabilities[number - 1], expected, atol=1e-5)
        mixed = (expected @ maps.values[number - 1]).transpose(0, 2, 1, 3).reshape(*ids.shape, -1)
        mixed = x + mixed @ weights[f"{name}/output/kernel"]
        centred = mixed - mixed.mean(-1, keepdims=True)
        normed = centred / np.sqrt(mixed.var(-1, keepdims=True) + 1e-12)
        normed = normed * weights[f"{name}-Norm/gamma"] + weights[f"{name}-Norm/beta"]
        sub = keras.Model(model.inputs, model.get_layer(f"{name}-Norm").output)
        np.testing.assert_allclose(array_of(sub([ids, segments]))[ids != XLNET_PAD], normed[ids != XLNET_PAD], atol=3e-5)


def test_the_side_of_padding_changes_no_token_and_no_answer_for_a_text(rng, ids, segments):
    own = ids != XLNET_PAD
    right = [np.stack([np.concatenate([r[o], r[~o]]) for r, o in zip(rows, own, strict=True)]) for rows in (ids, segments)]
    for heads in ((), ("classification",), ("multiple_choice",)):
        model = random_model(XLNET, heads, rng)
        left_answer, right_answer = answers(model, ids, segments)[0], answers(model, *right)[0]
        if heads:
            np.testing.assert_allclose(right_answer, left_answer, atol=1e-5)
            alone = answers(model, ids[1:, 4:], segments[1:, 4:])[0]
            np.testing.assert_allclose(left_answer[1:], alone, atol=1e-5)
        else:
            np.testing.assert_allclose(right_answer[right[0] != XLNET_PAD], left_answer[own], atol=1e-5)


def test_memories_are_what_a_block_read_of_the_segment_before(rng, ids):
    zeros = np.zeros_like(ids)
    one = random_model(XLNET.replace(num_hidden_layers=1, mem_len=None), ("mlm",), rng)
    whole, kept = run_with_memories(one, [ids, zeros, zeros])
    assert [tuple(memory.shape) for memory in kept] == [(2, 13, 12)]
    encoder = keras.Model(one.inputs, one.get_layer("Encoder-1-FeedForward-Norm").output)
    real = ids != XLNET_PAD
    np.testing.assert_allclose(array_of(whole)[real], array_of(encoder([ids, zeros, zeros]))[real], atol=1e-6)
    _, kept = run_with_memories(one, [ids[:1, :8], zeros[:1, :8], zeros[:1, :8]])
    second, kept = run_with_memories(
        one, {"Input-Token": ids[:1, 8:], "Input-Segment": zeros[:1, 8:], "Input-Masked": zeros[:1, 8:]}, kept
    )
    np.testing.assert_allclose(array_of(second)[0], array_of(whole)[0, 8:], atol=1e-5)  # one block: nothing before it was cut off
    assert [tuple(memory.shape) for memory in kept] == [(1, 13, 12)]
    short = random_model(ODD_XLNET.replace(pad_token_id=XLNET_PAD), (), rng)
    _, kept = run_with_memories(short, [ids, zeros])
    assert [tuple(memory.shape) for memory in kept] == [(2, 3, 12)] * 2  # the first reuse_len tokens
    _, kept = run_with_memories(short, [ids, zeros], [np.concatenate([array_of(memory)] * 2, 1) for memory in kept])
    assert [tuple(memory.shape) for memory in kept] == [(2, 7, 12)] * 2  # the last mem_len of 6 + 3
    for wrong, said in ((kept[:1], "memories must be 2 arrays"), ([kept[0][:1]] * 2, "got 2 of shapes")):
        with pytest.raises(ValueError, match=said):
            run_with_memories(short, [ids, zeros], wrong)
    with pytest.raises(ValueError, match="memories need a model with relative attention"):
        run_with_memories(build_model(BertConfig(num_hidden_layers=1, vocab_size=9, hidden_size=12)), [ids, zeros])


def test_only_whether_segments_differ_counts(rng, ids, segments):
    model = random_model(XLNET, (), rng)
    start = answers(model, ids, segments)[0]
    np.testing.assert_array_equal(answers(model, ids, 7 - segments)[0], start)
    assert np.abs(answers(model, ids, np.zeros_like(ids))[0] - start).max() > 1e-3


def test_the_model_has_the_layers_of_its_parts():
    model = build_model(XLNET.replace(hidden_dropout_prob=0.1))
    rows = [layer.name for layer in model.layers]
    start = ["Input-Token", "Embedding-Token", "Embedding-Query", "Embedding-Dropout"]
    assert [name for name in rows if name in start] == start
    assert {"Embedding-Relative", "Embedding-Relative-Dropout", "Embedding-Relative-Segment", "Input-Segment"} <= set(rows)


def test_released_sizes_are_explained():
    said = str(explain(XLNetConfig(), ("mlm",)))
    assert "(q + r_w) · k + (q + r_r) · r + (q + r_s) · s" in said
    assert "Sinusoids of distances" in said
    plain = XLNetConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=12)
    assert forward_flops(plain, Work(10, 100, 2, 1)) > 0
    assert step_memory(XLNET, PretrainSettings(batch_size=2, seq_len=16, max_predictions=2), "gpu", 2).activations > 0
    assert axes_of("Encoder-2-MultiHeadSelfAttention/position_key/kernel", (12, 12), 4) == (None, "model")
    assert axes_of("Encoder-2-MultiHeadSelfAttention/segment_bias", (12,), 4) == ("model",)
    assert axes_of("Encoder-2-MultiHeadSelfAttention/segment_embeddings", (2, 12), 4) == (None, "model")
    assert "distances + segments" in plot_model(XLNET, block=True).to_svg()
