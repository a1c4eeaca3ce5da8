"""Models whose vocabulary has grown or shrunk give the same outputs as before."""

import json
import pickle
import string

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, answers, compiled, small_model, spread

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files
from keras_bert_rebuild.pretrained.vocabulary_surgery import (
    add_tokens,
    prune_vocabulary,
    resize_vocabulary,
    reuse_unused,
    tokens_of_corpus,
)
from keras_bert_rebuild.text.tokenizer import Tokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNUSED = ["[unused1]", "[unused7]", "[unused3]"]
TOKENS = [*SPECIAL, *UNUSED, *string.ascii_lowercase, *("##" + char for char in string.ascii_lowercase)]
TEXTS = ["cab bad", "abc", "a ☃ b"]


@pytest.fixture
def model(rng):
    return spread(small_model(), rng)


@pytest.fixture
def token_dict():
    return {token: i for i, token in enumerate(TOKENS)}


def encoded(token_dict, texts=TEXTS):
    tokenizer = Tokenizer(token_dict, pad_index=token_dict["[PAD]"])
    return np.array([tokenizer.encode(text, max_len=LENGTH) for text in texts]).transpose(1, 0, 2)


def predict(model, token_dict):
    return answers(model, *encoded(token_dict))


def hidden(model, token_dict):
    inputs = [tensor for tensor in model.inputs if tensor.name in ("Input-Token", "Input-Segment")]
    encoder = keras.Model(inputs, model.get_layer("Encoder-2-FeedForward-Norm").output)
    return answers(encoder, *encoded(token_dict))[0]


def rows(model):
    values = {variable.path: keras.ops.convert_to_numpy(variable.value) for variable in model.weights}
    return np.column_stack([values["Embedding-Token/embeddings"], values["MLM-Sim/bias"]])


def other_weights(model):
    kept = ("Embedding-Token/embeddings", "MLM-Sim/bias")
    return {v.path: keras.ops.convert_to_numpy(v.value) for v in model.weights if v.path not in kept}


def assert_same_on_old_tokens(new, new_dict, old, old_dict):
    """Hidden states bit by bit, and the probabilities over the tokens that both have."""
    np.testing.assert_array_equal(hidden(new, new_dict), hidden(old, old_dict))
    (mlm, nsp), (old_mlm, old_nsp) = predict(new, new_dict), predict(old, old_dict)
    both = [token for token in old_dict if token in new_dict]
    mlm, old_mlm = mlm[..., [new_dict[t] for t in both]], old_mlm[..., [old_dict[t] for t in both]]
    np.testing.assert_allclose(mlm / mlm.sum(-1, keepdims=True), old_mlm / old_mlm.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(nsp, old_nsp)


@pytest.mark.parametrize(
    ("token", "cased", "pieces"),
    [
        ("cab", False, ["c", "##a", "##b"]),
        ("[A]", False, ["[UNK]", "a", "[UNK]"]),
        ("##Ab", False, ["##a", "##b"]),
        ("Cab", True, ["[UNK]", "##a", "##b"]),
        ("##é", False, ["##e"]),
        ("##a-b", False, ["##a", "[UNK]", "b"]),
    ],
)
def test_the_row_and_the_bias_of_a_new_token_are_the_means_over_its_pieces(model, token_dict, token, cased, pieces):
    new, new_dict = add_tokens(model, token_dict, [token], cased=cased)
    mean = rows(model)[[token_dict[piece] for piece in pieces]].mean(axis=0, dtype="float64").astype("float32")
    np.testing.assert_array_equal(rows(new), [*rows(model), mean])
    assert new_dict == {**token_dict, token: VOCAB}
    assert new.config.vocab_size == VOCAB + 1


def test_added_tokens_do_not_change_outputs_for_texts_without_them(model, token_dict):
    new, new_dict = add_tokens(model, token_dict, ["zz", "##zz"])
    assert_same_on_old_tokens(new, new_dict, model, token_dict)
    assert Tokenizer(new_dict).tokenize("zz azz") == ["[CLS]", "zz", "a", "##zz", "[SEP]"]


def test_unused_ids_are_reused_in_order(model, token_dict):
    new, new_dict = reuse_unused(model, token_dict, ["zz", "##zz"])
    assert list(new_dict.items()) == list(zip([*SPECIAL, "zz", "##zz", *TOKENS[7:]], range(VOCAB), strict=True))
    expected = rows(model)
    expected[5] = (expected[token_dict["z"]] + expected[token_dict["##z"]].astype("float64")) / 2
    expected[6] = expected[token_dict["##z"]]
    np.testing.assert_array_equal(rows(new), expected)
    assert_same_on_old_tokens(new, new_dict, model, token_dict)


def test_pruning_does_not_change_outputs_for_texts_of_retained_tokens(model, token_dict):
    keep = tokens_of_corpus(token_dict, TEXTS)
    assert keep == {"[UNK]", "a", "b", "c", "##a", "##b", "##c", "##d"}
    new, new_dict = prune_vocabulary(model, token_dict, keep)
    kept = [i for i, token in enumerate(TOKENS) if token in keep or token in SPECIAL]
    assert list(new_dict) == [TOKENS[i] for i in kept]
    assert list(new_dict.values()) == list(range(len(kept)))
    np.testing.assert_array_equal(rows(new), rows(model)[kept])
    tokenized = [Tokenizer(token_dict).tokenize(text) for text in TEXTS]
    assert [Tokenizer(new_dict).tokenize(text) for text in TEXTS] == tokenized
    assert_same_on_old_tokens(new, new_dict, model, token_dict)


def test_padding_with_a_new_id_is_still_padding(rng):
    tokens = [*TOKENS[8:18], "<pad>", *TOKENS[1:8], *TOKENS[18:]]
    token_dict = {token: i for i, token in enumerate(tokens)}
    model = spread(small_model(pad_token_id=10), rng)
    new, new_dict = prune_vocabulary(model, token_dict, ["a", "b", "c", "d", *(t for t in tokens if t.startswith("##"))])
    assert new_dict["<pad>"] == new.config.pad_token_id == new.get_layer("Embedding-Token").pad_id == 4
    named = [{**vocabulary, "[PAD]": vocabulary["<pad>"]} for vocabulary in (new_dict, token_dict)]
    assert_same_on_old_tokens(new, named[0], model, named[1])


@pytest.mark.parametrize("size", [VOCAB - 20, VOCAB, VOCAB + 3])
def test_a_resized_model_has_the_first_rows_and_the_mean_of_all(model, token_dict, size):
    new, new_dict = resize_vocabulary(model, token_dict, size)
    assert list(new_dict) == [*TOKENS, "[unused0]", "[unused2]", "[unused4]"][:size]
    assert list(new_dict.values()) == list(range(size))
    np.testing.assert_array_equal(rows(new)[:VOCAB], rows(model)[:size])
    mean = rows(model).mean(axis=0, dtype="float64").astype("float32")
    np.testing.assert_array_equal(rows(new)[VOCAB:], [mean] * (size - VOCAB) if size > VOCAB else np.empty((0, 17)))


def test_rows_without_a_token_are_named_and_can_be_used(model, token_dict):
    del token_dict["[unused1]"], token_dict["##z"]
    _, new_dict = add_tokens(model, token_dict, ["aa"])
    assert new_dict == {**token_dict, "[unused0]": 5, "[unused1]": VOCAB - 1, "aa": VOCAB}
    _, new_dict = reuse_unused(model, token_dict, ["aa", "bb", "cc", "dd"])
    assert [new_dict[token] for token in ("aa", "bb", "cc", "dd")] == [5, 6, 7, VOCAB - 1]


@pytest.mark.slow
def test_the_given_model_and_vocabulary_are_unchanged_and_share_nothing_with_the_new_ones(model, token_dict):
    before = [array.copy() for array in predict(model, token_dict)]
    new, new_dict = reuse_unused(model, token_dict, ["aa"])
    ids, segments = encoded(token_dict)
    compiled(new).fit([ids, segments, np.ones_like(ids)], [ids[..., None], np.zeros((len(ids), 1), int)], epochs=2, verbose=0)
    for array, expected in zip(predict(model, token_dict), before, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert list(token_dict) == TOKENS
    assert not np.allclose(predict(new, new_dict)[0], before[0])


@pytest.mark.parametrize("heads", [["mlm", "sop"], ["token_classification"], ["pooler"], []])
def test_albert_with_any_heads_keeps_its_other_weights(rng, token_dict, heads):
    config = BertConfig(
        family="albert",
        vocab_size=VOCAB,
        embedding_size=6,
        hidden_size=16,
        num_hidden_layers=4,
        num_hidden_groups=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        labels=["x", "y"],
    )
    model = spread(build_model(config, heads, padding_mask=True), rng)
    new, _ = add_tokens(model, token_dict, ["aa", "bb"])
    assert new.config == config.replace(vocab_size=VOCAB + 2)
    assert [(tensor.name, tensor.shape) for tensor in new.inputs] == [(tensor.name, tensor.shape) for tensor in model.inputs]
    assert type(new) is type(model)
    assert [tuple(v.shape) for v in new.weights if v.path == "Embedding-Token/embeddings"] == [(VOCAB + 2, 6)]
    assert other_weights(new).keys() == other_weights(model).keys()
    for path, value in other_weights(model).items():
        np.testing.assert_array_equal(other_weights(new)[path], value)


@pytest.mark.parametrize("blocks", [2, [0], [1], [0, -1], [-1, -2, 0]])
@pytest.mark.parametrize("groups", [None, 1])
def test_a_model_without_heads_has_the_same_output_blocks(rng, token_dict, blocks, groups):
    config = small_model().config.replace(num_hidden_layers=3, num_hidden_groups=groups)
    model = spread(build_model(config, output_layer_num=blocks), rng)
    new, new_dict = add_tokens(model, token_dict, ["zz"])
    np.testing.assert_array_equal(answers(new, *encoded(new_dict)), answers(model, *encoded(token_dict)))


def test_frozen_layers_and_the_dtype_policy_stay(token_dict):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = small_model(trainable=["Encoder-2", "MLM"])
    model.get_layer("Encoder-2-FeedForward").intermediate_dense.trainable = False
    keras.config.set_dtype_policy("float32")
    new, _ = resize_vocabulary(model, token_dict, VOCAB + 1)
    assert [v.path for v in new.trainable_variables] == [v.path for v in model.trainable_variables]
    assert {layer.name: layer.trainable for layer in new.layers} == {layer.name: layer.trainable for layer in model.layers}
    assert {layer.name: layer.dtype_policy.name for layer in new.layers} == {
        layer.name: layer.dtype_policy.name for layer in model.layers
    }
    assert keras.config.dtype_policy().name == "float32"


def test_no_tokens_leave_the_model_as_it_is(model, token_dict):
    for function in (add_tokens, reuse_unused):
        new, new_dict = function(model, token_dict, [])
        assert new_dict == token_dict
        np.testing.assert_array_equal(rows(new), rows(model))


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (add_tokens, ["aa", "a", "##z"], r"must be new to the vocabulary and different; got \['a', '##z'\]\.$"),
        (add_tokens, ["aa", "bb", "aa"], r"must be new to the vocabulary and different; got \['aa'\]\.$"),
        (add_tokens, "aa", "tokens must be a list; got the string 'aa'"),
        (add_tokens, ["a b", "", 3], r"without white space; got \['a b', '', 3\]\."),
        (add_tokens, ["\u0301"], "must consist of pieces of the vocabulary"),
        (reuse_unused, ["aa", "bb", "cc", "dd"], "^4 unused tokens were requested, but the vocabulary has 3.$"),
        (reuse_unused, "aa", "tokens must be a list; got the string 'aa'"),
        (prune_vocabulary, ["a", "aa", 3, VOCAB, "bb"], rf"unknown: \['aa', {VOCAB}, 'bb'\]\.$"),
        (prune_vocabulary, "aa", "keep must be a list; got the string 'aa'"),
        (resize_vocabulary, 4, "size must be at least 5, to keep padding and the special tokens; got 4"),
    ],
)
def test_errors_say_what_is_wrong(model, token_dict, function, argument, message):
    with pytest.raises(ValueError, match=message):
        function(model, token_dict, argument)


def test_a_vocabulary_that_is_not_the_models_is_refused(model, token_dict):
    with pytest.raises(ValueError, match=rf"from 0 to {VOCAB - 1}; it has {{'aa': {VOCAB}}}"):
        add_tokens(model, {**token_dict, "aa": VOCAB}, ["bb"])
    with pytest.raises(ValueError, match=r"a unique id .* it has {'a': 8, 'aa': 8}"):
        add_tokens(model, {**token_dict, "aa": 8}, ["bb"])
    del token_dict["[UNK]"]
    with pytest.raises(ValueError, match=r"or it must have \[UNK\]; got '☃'"):
        add_tokens(model, token_dict, ["☃"])


def test_one_text_is_not_a_corpus(token_dict):
    with pytest.raises(ValueError, match="texts must be a list; got the string 'abc'"):
        tokens_of_corpus(token_dict, "abc")


def test_models_that_cannot_be_built_again_are_refused(model, token_dict):
    by_hand = keras.Model(model.inputs, model.outputs)
    with pytest.raises(ValueError, match="the model must have a config"):
        add_tokens(by_hand, token_dict, ["aa"])
    model.get_layer("Encoder-1-FeedForward").intermediate_dense.enable_lora(2)
    with pytest.raises(ValueError, match=r"exactly the weights that its config describes; it differs in .*lora"):
        add_tokens(model, token_dict, ["aa"])


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_a_quantised_model_is_refused(model, token_dict):
    model.quantize("int8")
    with pytest.raises(ValueError, match="must not be quantised"):
        add_tokens(model, token_dict, ["aa"])


def test_added_tokens_do_not_change_whether_texts_are_lower_cased(model, token_dict):
    before = WordPieceTokenizer(token_dict)
    vocabularies = [
        add_tokens(model, token_dict, ["ABC", "##DE"])[1],
        reuse_unused(model, token_dict, ["ABC"])[1],
        prune_vocabulary(model, add_tokens(model, token_dict, [])[1], ["a", "b"])[1],
        add_tokens(*add_tokens(model, token_dict, ["ABC"]), ["DEF"])[1],
    ]
    for vocabulary in vocabularies:
        tokenizer = WordPieceTokenizer(vocabulary)
        assert not tokenizer.cased
        assert tokenizer.tokenize("A b") == before.tokenize("a b") == ["a", "b"]
        assert json.loads(vocabulary_files(vocabulary, 8)["tokenizer_config.json"])["do_lower_case"]
        assert not pickle.loads(pickle.dumps(tokenizer)).cased
    cased = {"Z" if token == UNUSED[0] else token: i for token, i in token_dict.items()}
    assert WordPieceTokenizer(add_tokens(model, cased, ["new"])[1]).cased
