"""Attention maps equal what the model computes."""

import keras
import numpy as np
import pytest
from helpers.reference import attention, layer_norm, weights_of
from helpers.small import answers, compiled, small_batch, small_model, spread

from keras_bert_rebuild import BertConfig, Tokenizer, WordPieceTokenizer, attention_maps, build_model, get_model
from keras_bert_rebuild.families import FAMILIES, derived, own
from keras_bert_rebuild.models.find_encoder import find_encoder

SIZES = {
    "vocab_size": 60,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
WORDS = ["", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "un", "##aff", "##able", "."]
VOCABULARY = {token: i for i, token in enumerate(WORDS)}


def config_of(family, **changes):
    return derived(BertConfig(**{"family": family, **own(FAMILIES[family], "DEFAULTS"), **SIZES, **changes}))


def ids_of(config, rng, batch=3, length=9):
    ids = rng.integers(5, config.vocab_size, (batch, length))
    ids[0, 6:] = ids[2, 4:] = config.pad_token_id
    return ids


def model_of(family, rng):
    changes = {"embedding_size": 6, "num_hidden_layers": 4, "num_hidden_groups": 2} if family == "albert" else {}
    return spread(build_model(config_of(family, **changes)), rng)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "albert", "electra"])
def test_rows_sum_to_one_padding_gets_zero_and_the_maps_reproduce_the_layer(family, rng):
    model = model_of(family, rng)
    ids = ids_of(model.config, rng)
    inputs = [ids, ids % 2 * 0] if model.config.type_vocab_size else ids
    maps = attention_maps(model, inputs, vectors=True)
    mask = ids != model.config.pad_token_id
    layers = model.config.num_hidden_layers
    assert maps.probabilities.shape == (layers, 3, 3, 9, 9)
    assert maps.probabilities.dtype == np.float32
    np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-6)
    hidden = ~np.broadcast_to(mask[None, :, None, None, :], maps.probabilities.shape)
    assert not maps.probabilities[hidden].any()
    w = weights_of(model)
    for layer in range(layers):
        name = f"Encoder-{model.config.block_of_layer(layer) + 1}-MultiHeadSelfAttention"
        heads = maps.probabilities[layer] @ maps.values[layer]
        joined = heads.transpose(0, 2, 1, 3).reshape(3, 9, 12) @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]
        expected = attention(np.asarray(maps.inputs[layer], "float64"), w, name, 3, mask)
        np.testing.assert_allclose(joined, expected, atol=1e-5)
        own = layer_norm(maps.inputs[layer] + joined, w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"], model.config.layer_norm_eps)
        norm = keras.ops.convert_to_numpy(_layer_by_layer(model, layer, maps.inputs[layer], mask))
        np.testing.assert_allclose(own, norm, atol=1e-5)
    np.testing.assert_array_equal(maps.outputs[:-1], maps.inputs[1:])
    np.testing.assert_allclose(maps.outputs[-1], answers(model, ids, ids * 0)[0], atol=1e-5)


def _layer_by_layer(model, layer, x, mask):
    """The output of the attention part of a block, computed with the model's own layers."""
    name = f"Encoder-{model.config.block_of_layer(layer) + 1}-MultiHeadSelfAttention"
    attended = model.get_layer(name)(x, mask=keras.ops.convert_to_tensor(mask))
    return model.get_layer(f"{name}-Norm")(model.get_layer(f"{name}-Add")([x, attended]))


def test_history_only_attention_gives_nothing_to_later_positions(rng):
    from keras_bert_rebuild.layers import MultiHeadSelfAttention

    model = small_model(training=False)
    model = keras.Model(*model)
    for layer in model.layers:
        if isinstance(layer, MultiHeadSelfAttention):
            layer.history_only = True
    (ids, segments, _), _ = small_batch(rng, 2)
    maps = attention_maps(spread(model, rng), [ids, segments], vectors=True)
    ahead = np.triu(np.ones((12, 12), bool), 1)
    assert not maps.probabilities[..., ahead].any()
    np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-6)
    output = keras.ops.convert_to_numpy(model([ids, segments], training=False))
    np.testing.assert_allclose(maps.outputs[-1], output, atol=1e-5)


def test_chosen_layers_and_heads_equal_the_whole_in_the_requested_order(rng):
    model = model_of("albert", rng)
    ids = ids_of(model.config, rng)
    whole = attention_maps(model, [ids, ids * 0], vectors=True)
    part = attention_maps(model, [ids, ids * 0], layers=[-1, 1], heads=[2, 0], vectors=True)
    assert (part.layers, part.heads, part.scale) == ((3, 1), (2, 0), 2.0)
    for name in ("probabilities", "queries", "keys", "values"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[[3, 1]][:, :, [2, 0]])
    np.testing.assert_array_equal(part.inputs, whole.inputs[[3, 1]])
    scores = part.queries @ part.keys.swapaxes(-1, -2) / part.scale
    row = np.exp(scores[0, 0, 0, 0, :6])
    np.testing.assert_allclose(part.probabilities[0, 0, 0, 0, :6], row / row.sum(), rtol=1e-5)


def test_other_layers_use_the_fused_operation_and_the_model_is_unchanged(rng, monkeypatch):
    model = compiled(small_model())
    spread(model, rng)
    (ids, segments, chosen), _ = small_batch(rng, 2)
    before, config = answers(model, ids, segments), model.get_config()
    fused, calls = keras.ops.dot_product_attention, []
    monkeypatch.setattr(keras.ops, "dot_product_attention", lambda *args, **kwargs: calls.append(1) or fused(*args, **kwargs))
    maps = attention_maps(model, [ids, segments, chosen], layers=[1])
    assert maps.probabilities.shape[0] == 1
    assert len(calls) == 2
    for one, other in zip(before, answers(model, ids, segments), strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.get_config() == config
    assert maps.queries is None


def test_bfloat16_gives_probabilities_in_float32_near_those_of_float32(rng):
    (ids, segments, _), _ = small_batch(rng, 2)
    model = spread(small_model(), rng)
    expected = attention_maps(model, {"Input-Token": ids, "Input-Segment": segments})
    keras.config.set_dtype_policy("mixed_bfloat16")
    half = small_model()
    half.set_weights(model.get_weights())
    maps = attention_maps(half, {"Input-Token": ids, "Input-Segment": segments})
    assert maps.probabilities.dtype == np.float32
    np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-6)
    assert not maps.probabilities[..., 9:].any()
    np.testing.assert_allclose(maps.probabilities, expected.probabilities, atol=0.05)


def test_models_around_an_encoder_have_its_maps(rng, tmp_path):
    encoder = model_of("bert", rng)
    ids = ids_of(encoder.config, rng)
    expected = attention_maps(encoder, [ids, ids * 0]).probabilities
    behind = keras.Model(encoder.inputs, keras.layers.Dense(2)(encoder.output))
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")]
    nested = keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs)))
    encoder.save(tmp_path / "encoder.keras")
    reloaded = keras.saving.load_model(tmp_path / "encoder.keras")
    towers = [keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs))) for _ in range(2)]
    both = keras.Model(inputs, [tower(inputs) for tower in towers])
    for model in (behind, nested, reloaded, both):
        np.testing.assert_array_equal(attention_maps(model, [ids, ids * 0]).probabilities, expected)
    first = keras.Model(encoder.inputs, encoder.get_layer("Encoder-1-MultiHeadSelfAttention-Norm").output)
    np.testing.assert_array_equal(attention_maps(first, [ids, ids * 0]).probabilities, expected[:1])


def test_maps_that_would_fill_the_memory_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.explain.attention_maps.available_bytes", lambda: 8 * 2 * 2 * 2 * 12**2 - 1)
    model, ids = small_model(), np.ones((2, 12), int)
    with pytest.raises(MemoryError, match=r"shape \(2, 2, 2, 12, 12\) .* choose fewer layers, heads or texts"):
        attention_maps(model, [ids, ids])
    assert attention_maps(model, [ids, ids], layers=[0]).probabilities.shape == (1, 2, 2, 12, 12)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_quantised_projections_use_the_layer_itself(rng):
    model = model_of("bert", rng)
    ids = ids_of(model.config, rng)
    model.quantize("int8")
    maps = attention_maps(model, [ids, ids * 0], vectors=True)
    np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(maps.outputs[-1], answers(model, ids, ids * 0)[0], atol=1e-5)


def test_an_explicit_padding_mask_is_used(rng):
    model = spread(build_model(config_of("bert"), padding_mask=True), rng)
    ids = rng.integers(0, 60, (3, 9))
    mask = np.ones_like(ids)
    mask[0, 5:] = 0
    maps = attention_maps(model, [ids, ids * 0, mask], vectors=True)
    assert not maps.probabilities[:, 0, :, :, 5:].any()
    assert maps.probabilities[:, 1:].all()
    output = keras.ops.convert_to_numpy(model([ids, ids * 0, mask], training=False))
    np.testing.assert_allclose(maps.outputs[-1], output, atol=1e-5)


def test_texts_come_with_tokens_words_and_sentences_and_a_text_alone_without_padding(rng):
    tokenizer = WordPieceTokenizer(VOCABULARY, cased=False)
    model = small_model(token_num=len(VOCABULARY))
    maps = attention_maps(model, texts=["The cat.", "Unaffable"], pairs=["Sat.", "cat"], tokenizer=tokenizer, vectors=True)
    assert maps.probabilities.shape == (2, 2, 2, 12, 12)  # the model has a fixed length
    assert maps.tokens[0] == ("[CLS]", "the", "cat", ".", "[SEP]", "sat", ".", "[SEP]", "", "", "", "")
    assert maps.surfaces[1][:5] == ("", "Un", "aff", "able", "")
    assert maps.words[1].tolist() == [-1, 0, 0, 0, -1, 0, -1, -1, -1, -1, -1, -1]
    alone = maps.of_text(1)
    assert alone.tokens == (("[CLS]", "un", "##aff", "##able", "[SEP]", "cat", "[SEP]"),)
    assert alone.sentences.tolist() == [[-1, 0, 0, 0, -1, 1, -1]]
    np.testing.assert_array_equal(alone.probabilities, maps.probabilities[:, 1:, :, :7, :7])
    assert alone.values.shape == (2, 1, 2, 7, 8)
    assert alone.outputs.shape == (2, 1, 7, 16)
    np.testing.assert_array_equal(maps.of_text(-1).probabilities, alone.probabilities)
    with pytest.raises(IndexError):
        maps.of_text(2)


@pytest.mark.parametrize("kind", [WordPieceTokenizer, Tokenizer])
def test_ids_with_a_tokenizer_have_token_names(kind):
    ids = np.array([[2, 5, 6, 3, 7, 3, 0, 0, 0, 0, 0, 0]])
    maps = attention_maps(small_model(token_num=len(VOCABULARY)), [ids, ids * 0], tokenizer=kind(VOCABULARY, cased=False))
    assert maps.tokens[0][:6] == ("[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]")
    assert maps.sentences.tolist() == [[-1, 0, 0, -1, 1, -1, -1, -1, -1, -1, -1, -1]]


def test_a_fully_masked_query_has_zero_attention(rng):
    model = spread(small_model(), rng)
    (ids, segments, _), _ = small_batch(rng, 2)
    ids[0] = 0  # a row of padding alone
    maps = attention_maps(model, [ids, segments])
    assert not maps.probabilities[:, 0].any()
    np.testing.assert_allclose(maps.probabilities[:, 1].sum(-1), 1, atol=1e-6)
    for block in find_encoder(model).blocks:
        block.attention.history_only = True
    ids[0, -1] = 7  # in causal attention the queries before it see no key
    maps = attention_maps(model, [ids, segments])
    assert not maps.probabilities[:, 0, :, :-1].any()
    assert (maps.probabilities[:, 0, :, -1, -1] == 1).all()


def test_what_does_not_fit_is_one_sentence():
    model, inputs, tokenizer = small_model(), [np.ones((1, 12), int)] * 2, WordPieceTokenizer(VOCABULARY)
    for arguments, message in (
        ({}, "either inputs, or texts and the tokenizer"),
        ({"texts": ["a"]}, "either inputs, or texts and the tokenizer"),
        ({"inputs": inputs, "layers": [2]}, r"layers must be integers from 0 to 1, since the model has 2; got \[2\]"),
        ({"inputs": inputs, "heads": []}, "heads must be integers from 0 to 1"),
        ({"inputs": inputs, "heads": [0, -2]}, "heads must be different"),
        ({"inputs": {"Input-Token": inputs[0]}}, "Input-Segment is missing"),
        ({"inputs": inputs * 2}, "expected 2 inputs, Input-Token, Input-Segment; got 4"),
        ({"inputs": [inputs[0] * 99, inputs[0]]}, "Input-Token"),
        ({"inputs": [[[1, 2], [1]], inputs[0]]}, r"Input-Token must be an array \(batch, length\); got rows of different lengths"),
        ({"inputs": [[1, 2], [0, 0]]}, r"Input-Token must be an array \(batch, length\); got shape \(2,\)"),
        ({"inputs": inputs, "tokenizer": VOCABULARY}, "tokenizer must be one of this library"),
        ({"texts": ["a"], "tokenizer": Tokenizer(VOCABULARY, pad_index=6)}, "padding of the tokenizer is a token to the model"),
        ({"texts": "a", "tokenizer": tokenizer}, "texts must be a list"),
        ({"texts": ["a"], "pairs": ["b", "c"], "tokenizer": tokenizer}, "pairs must be a list with a text for each of the 1"),
        ({"texts": ["a"], "tokenizer": VOCABULARY}, "tokenizer must be one of this library"),
        ({"texts": ["the cat sat . " * 4], "tokenizer": tokenizer}, "may have 12 tokens, .* text 0 has 18"),
    ):
        with pytest.raises(ValueError, match=message):
            attention_maps(model, **arguments)


def test_a_model_without_an_encoder_or_with_other_layers_in_it_is_refused():
    with pytest.raises(ValueError, match="must have one encoder"):
        attention_maps(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), np.ones((1, 3)))
    inputs, output = get_model(30, embed_dim=8, head_num=2, transformer_num=1, seq_len=4, pos_num=4, training=False)
    from keras_bert_rebuild.layers import MultiHeadSelfAttention

    between = keras.layers.Dense(8, name="adapter")(output)
    more = MultiHeadSelfAttention(2, name="Encoder-2-MultiHeadSelfAttention")(between)
    with pytest.raises(ValueError, match=r"Encoder-2-MultiHeadSelfAttention must read the previous block, .* it reads adapter"):
        attention_maps(keras.Model(inputs, more), [np.ones((1, 4), int)] * 2)
