"""keras_bert's demos and README, one test each: features, pooling, masked words, next sentence, attention, adapters."""

import os

import keras
import numpy as np
import pytest
from helpers.toy_checkpoint import write_toy_checkpoint

from keras_bert_rebuild import (
    POOL_MAX,
    POOL_NSP,
    Tokenizer,
    attention_maps,
    extract_embeddings,
    get_checkpoint_paths,
    load_trained_model_from_checkpoint,
    load_vocabulary,
)
from keras_bert_rebuild.layers import MaskedGlobalMaxPool1D


@pytest.fixture
def model_path(tmp_path):
    write_toy_checkpoint(tmp_path)
    return str(tmp_path)


def test_features_of_a_text_are_those_of_the_extraction(model_path):
    paths = get_checkpoint_paths(model_path)
    model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, seq_len=10)
    model.summary(line_length=120)
    token_dict = load_vocabulary(paths.vocab)
    tokenizer = Tokenizer(token_dict)
    text = "语言模型"
    tokens = tokenizer.tokenize(text)
    assert tokens == ["[CLS]", "语", "言", "模", "型", "[SEP]"]
    indices, segments = tokenizer.encode(first=text, max_len=10)
    predicts = model.predict([np.array([indices]), np.array([segments])], verbose=0)[0]
    assert predicts.shape == (10, 24)

    embeddings = extract_embeddings(model_path, [text, "all work"])
    np.testing.assert_allclose(embeddings[0], predicts[: len(tokens)], atol=1e-5)
    pooled = extract_embeddings(model, [text], vocabs=token_dict, poolings=[POOL_NSP, POOL_MAX])
    np.testing.assert_allclose(pooled[0], np.concatenate([predicts[0], predicts[: len(tokens)].max(0)]), atol=1e-5)

    # The demo of pooling.
    pool_layer = MaskedGlobalMaxPool1D(name="Pooling")(model.output)
    pooling = keras.models.Model(inputs=model.inputs, outputs=pool_layer)
    got = pooling.predict([np.array([indices]), np.array([segments])], verbose=0)[0]
    np.testing.assert_allclose(got, predicts[: len(tokens)].max(0), atol=1e-5)


def test_masked_words_and_next_sentences_are_predicted(model_path):
    paths = get_checkpoint_paths(model_path)
    model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, training=True, seq_len=None)
    token_dict = load_vocabulary(paths.vocab)
    token_dict_inv = {v: k for k, v in token_dict.items()}
    tokenizer = Tokenizer(token_dict)
    tokens = tokenizer.tokenize("语言模型")
    tokens[1] = tokens[2] = "[MASK]"
    indices = np.array([[token_dict[token] for token in tokens]])
    segments = np.array([[0] * len(tokens)])
    masks = np.array([[0, 1, 1] + [0] * (len(tokens) - 3)])
    predicts = model.predict([indices, segments, masks], verbose=0)[0].argmax(axis=-1).tolist()
    assert all(token_dict_inv[i] in token_dict for i in predicts[0][1:3])

    indices, segments = tokenizer.encode("all work", "all play")
    inputs = [np.array([indices]), np.array([segments]), np.array([[0] * len(indices)])]
    chances = model.predict(inputs, verbose=0)[1]
    assert chances.shape == (1, 2)
    assert chances.sum() == pytest.approx(1, abs=1e-5)


def test_a_classifier_uses_the_pooler_of_a_training_model(model_path):
    """The TPU notebook: all inputs except the mask of words, and the dense layer of the next sentence head."""
    paths = get_checkpoint_paths(model_path)
    model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, training=True, trainable=True, seq_len=8)
    inputs = model.inputs[:2]
    dense = model.get_layer("NSP-Dense").output
    classifier = keras.models.Model(inputs, keras.layers.Dense(units=2, activation="softmax")(dense))
    classifier.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["sparse_categorical_accuracy"])
    ids = np.random.default_rng(0).integers(5, 40, (16, 8))
    history = classifier.fit([ids, np.zeros_like(ids)], (ids[:, 1] > 20).astype(int), epochs=8, batch_size=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_attention_is_inspected_without_a_backend_function(model_path):
    paths = get_checkpoint_paths(model_path)
    model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, seq_len=10)
    indices, segments = Tokenizer(load_vocabulary(paths.vocab)).encode("语言", max_len=10)
    maps = attention_maps(model, inputs=[np.array([indices]), np.array([segments])])  # was K.function of the layer's `attention`
    assert maps.probabilities.shape == (2, 1, 3, 10, 10)
    np.testing.assert_allclose(maps.probabilities[..., :4].sum(-1), 1, atol=1e-5)


def test_adapters_learn_while_the_checkpoint_is_frozen(model_path):
    layer_num = 2
    model = load_trained_model_from_checkpoint(
        os.path.join(model_path, "bert_config.json"),
        os.path.join(model_path, "bert_model.ckpt"),
        training=False,
        use_adapter=True,
        seq_len=8,
        trainable=["Encoder-{}-MultiHeadSelfAttention-Adapter".format(i + 1) for i in range(layer_num)]  # noqa: UP032
        + ["Encoder-{}-FeedForward-Adapter".format(i + 1) for i in range(layer_num)]  # noqa: UP032
        + ["Encoder-{}-MultiHeadSelfAttention-Norm".format(i + 1) for i in range(layer_num)]  # noqa: UP032
        + ["Encoder-{}-FeedForward-Norm".format(i + 1) for i in range(layer_num)],  # noqa: UP032
    )
    classifier = keras.models.Model(
        model.inputs, keras.layers.Dense(2, activation="softmax")(MaskedGlobalMaxPool1D()(model.output))
    )
    classifier.compile("adam", "sparse_categorical_crossentropy")
    frozen = [v for v in model.weights if v.path.endswith("key/kernel") or v.path.startswith("Embedding-")]
    before = [keras.ops.convert_to_numpy(v.value).copy() for v in frozen]
    ids = np.random.default_rng(0).integers(5, 40, (16, 8))
    classifier.fit([ids, np.zeros_like(ids)], (ids[:, 1] > 20).astype(int), epochs=1, batch_size=8, verbose=0)
    for variable, value in zip(frozen, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable.value), value)
    assert len(model.trainable_weights) == layer_num * 2 * (4 + 2)
