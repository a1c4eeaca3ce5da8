"""The demos of keras_bert, and models on top of its encoder."""

import os

import keras
import numpy as np
import pytest
from helpers.small_checkpoints import write_toy_checkpoint
from keras import ops
from keras.layers import Dense, Input, Lambda
from keras.models import Model

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
from keras_bert_rebuild.kernels.gradients import value_and_gradient
from keras_bert_rebuild.layers import ConditionalRandomField, MaskedGlobalMaxPool1D
from keras_bert_rebuild.training.task_losses import ConditionalRandomFieldLoss


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


# What keras_bert's users put on a loaded model: two texts through one encoder, a layer by its name, pointers to a span, a CRF,


@pytest.fixture
def bert(tmp_path):
    write_toy_checkpoint(tmp_path)
    keras.utils.set_random_seed(4)
    return load_trained_model_from_checkpoint(
        os.path.join(tmp_path, "bert_config.json"), os.path.join(tmp_path, "bert_model.ckpt"), trainable=True, seq_len=8
    )


def texts(count, seed=0):
    """Ids of random letters between [CLS] and [SEP], and segments."""
    ids = np.random.default_rng(seed).integers(6, 40, (count, 8))
    ids[:, 0], ids[:, 6], ids[:, 7] = 2, 3, 0
    return [ids, np.zeros_like(ids)]


def loss_before_and_after(model, x, y):
    """Without dropout, whose noise in eight steps is larger than what they learn."""
    before = model.evaluate(x, y, batch_size=len(x[0]), verbose=0)
    model.fit(x, y, epochs=8, batch_size=len(x[0]), verbose=0)
    return before, model.evaluate(x, y, batch_size=len(x[0]), verbose=0)


@pytest.mark.filterwarnings("ignore:[\\s\\S]*does not support masking")
@pytest.mark.slow
def test_two_texts_pass_one_encoder(bert):
    inputs = [Input((8,)) for _ in range(4)]
    cls = Lambda(lambda x: x[:, 0], output_shape=(24,))
    first, second = cls(bert(inputs[:2])), cls(bert(inputs[2:]))
    distance = Lambda(lambda pair: ops.abs(pair[0] - pair[1]), output_shape=(24,))([first, second])  # was K.abs
    model = Model(inputs, Dense(1, activation="sigmoid")(distance))
    assert model.count_params() == bert.count_params() + 25
    same, other = texts(8), texts(8, seed=1)
    labels = np.array([1] * 4 + [0] * 4, "float32")
    pairs = [*same, *[np.concatenate([a[:4], b[4:]]) for a, b in zip(same, other, strict=True)]]
    np.testing.assert_allclose(model.predict([*same, *same], verbose=0), 0.5, atol=1e-6)  # no distance
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
    before, after = loss_before_and_after(model, pairs, labels)
    assert after < before


@pytest.mark.filterwarnings("ignore:[\\s\\S]*does not support masking")
def test_a_layer_is_asked_for_by_its_name(bert):
    names = [f"Encoder-{i}-FeedForward-Norm" for i in (1, 2)]
    both = Model(bert.inputs, [bert.get_layer(name).output for name in names])
    ids = texts(3)
    lower, upper = both.predict(ids, verbose=0)
    np.testing.assert_allclose(upper, bert.predict(ids, verbose=0), atol=1e-6)
    features = Model(bert.inputs, bert.get_layer(index=-9).output)  # the block below, as counted in the summary
    assert features.output.name == bert.layers[-9].output.name
    np.testing.assert_allclose(lower, Model(bert.inputs, bert.get_layer(names[0]).output).predict(ids, verbose=0), atol=1e-6)


@pytest.mark.filterwarnings("ignore:[\\s\\S]*does not support masking")
@pytest.mark.slow
def test_two_pointers_find_a_span(bert):
    mask = Lambda(lambda ids: ops.cast(ops.not_equal(ids, 0), "float32"), output_shape=(8,))(bert.inputs[0])  # was K.greater
    pointers = []
    for name in ("start", "end"):
        scores = Dense(1, use_bias=False)(bert.output)
        far = Lambda(lambda x: x[0][..., 0] - (1 - x[1]) * 1e10, output_shape=(8,))([scores, mask])
        pointers.append(keras.layers.Softmax(name=name)(far))  # was one output and add_loss of symbolic tensors
    model = Model(bert.inputs, pointers)
    ids = texts(12)
    starts = np.arange(12) % 4 + 1
    for row, start in zip(ids[0], starts, strict=True):
        row[start], row[start + 1] = 41, 42
    model.compile(keras.optimizers.Adam(3e-3), ["sparse_categorical_crossentropy"] * 2)
    model.fit(ids, [starts, starts + 1], epochs=25, batch_size=12, verbose=0)
    start, end = model.predict(ids, verbose=0)
    assert start[:, 7].max() == end[:, 7].max() == 0  # padding
    assert (start.argmax(1) == starts).mean() > 0.8
    assert (end.argmax(1) == starts + 1).mean() > 0.8


@pytest.mark.filterwarnings("ignore:[\\s\\S]*does not support masking")
@pytest.mark.slow
def test_a_tagger_ends_in_a_conditional_random_field(bert):
    crf = ConditionalRandomField()  # was keras_contrib's CRF(3, sparse_target=True) with crf.loss_function and crf.accuracy
    model = Model(bert.inputs, crf(Dense(3)(bert.output)))
    model.compile(keras.optimizers.Adam(3e-3), ConditionalRandomFieldLoss())
    ids = texts(8)
    labels = (ids[0] % 3).astype("int32")
    labels[ids[0] < 4] = -1  # [CLS], [SEP] and padding
    first, last = loss_before_and_after(model, ids, labels)
    assert last < first
    assert model.predict(ids, verbose=0).shape == (8, 8 + 5, 3)


@pytest.mark.filterwarnings("ignore:[\\s\\S]*does not support masking")
def test_embeddings_are_perturbed_against_the_model(bert):
    """Adversarial training as in Miyato et al., 2017: a step on the loss with the table moved along its gradient."""
    layer = bert.get_layer("Embedding-Token")
    table = layer.embeddings  # was found with search_layer, which still works: it is a layer's attribute
    output = Dense(1, activation="sigmoid")(Lambda(lambda x: x[:, 0], output_shape=(24,))(bert.output))
    model = Model(bert.inputs, output)
    ids, labels = texts(8), np.arange(8) % 2

    def loss_at(vectors):  # was K.gradients(model.total_loss, [embeddings]) in a train function of its own
        with keras.StatelessScope(state_mapping=[(table, vectors)]):
            return ops.mean(keras.losses.binary_crossentropy(labels[:, None], model([ops.convert_to_tensor(x) for x in ids])))

    clean = ops.convert_to_numpy(table.value).copy()
    loss, gradient = value_and_gradient(loss_at, table.value)
    gradient = ops.convert_to_numpy(gradient)
    assert np.abs(gradient).sum(1).nonzero()[0].tolist() == np.unique(ids[0][:, :7]).tolist()  # all tokens but padding
    table.assign(clean + 0.5 * gradient / np.sqrt((gradient**2).sum()))
    assert float(ops.convert_to_numpy(loss_at(table.value))) > float(ops.convert_to_numpy(loss))
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    model.train_on_batch(ids, labels)
    table.assign(clean)
    assert np.isfinite(model.predict(ids, verbose=0)).all()
