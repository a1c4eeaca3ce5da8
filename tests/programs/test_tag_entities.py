"""An entity tagger as keras_bert's users write it: a softmax for each token, weights for padding, BIO tags."""

import os

import keras
import numpy as np
import pytest
from helpers.small_checkpoints import write_toy_checkpoint
from keras.layers import LSTM, Bidirectional, Dense, Dropout, TimeDistributed
from keras.models import Model
from keras.preprocessing.sequence import pad_sequences  # was keras_preprocessing.sequence

from keras_bert_rebuild import Tokenizer, load_trained_model_from_checkpoint, load_vocabulary
from keras_bert_rebuild.backend import backend as K  # noqa: N812

MAX_LEN = 16
TAGS = {"O": 0, "B-NUM": 1, "I-NUM": 2}
ID_TAGS = {value: name for name, value in TAGS.items()}


def read_data(count, rng):
    """Texts of letters with runs of digits, and the tag of every character."""
    data = []
    for _ in range(count):
        text, tags = "", []
        while len(text) < 9:
            number = rng.random() < 0.4
            run = "".join(rng.choice(list("0123456789" if number else "abcdefgh"), rng.integers(1, 4)))
            tags += (
                ["B-NUM" if i == 0 and not text[-1:].isdigit() else "I-NUM" for i in range(len(run))]
                if number
                else ["O"] * len(run)
            )
            text += run
        data.append((text, tags))
    return data


class CharTokenizer(Tokenizer):
    def _tokenize(self, text):
        return [char if char in self._token_dict else "[UNK]" for char in text]


def encode(tokenizer, data):
    ids, segments, labels, weights = [], [], [], []
    for text, tags in data:
        x1, x2 = tokenizer.encode(text)
        ids.append(x1)
        segments.append(x2)
        labels.append([0] + [TAGS[tag] for tag in tags] + [0])
        weights.append([0.0] + [1.0] * len(tags) + [0.0])
    pad = lambda rows, dtype: pad_sequences(rows, maxlen=MAX_LEN, padding="post", truncating="post", dtype=dtype)  # noqa: E731
    return [pad(ids, "int32"), pad(segments, "int32")], pad(labels, "int32"), pad(weights, "float32")


def token_accuracy(y_true, y_pred):
    # was K.mean of this, which Keras 3 cannot weight
    return K.cast(K.equal(K.cast(y_true, "int32"), K.cast(K.argmax(y_pred, axis=-1), "int32")), K.floatx())


def entities(text, tags):
    found, start = [], None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            found.append(text[start:i])
            start = None
        if tag.startswith("B-"):
            start = i
    return found


@pytest.fixture
def tagger(tmp_path):
    write_toy_checkpoint(tmp_path)
    keras.utils.set_random_seed(4)
    bert = load_trained_model_from_checkpoint(
        os.path.join(tmp_path, "bert_config.json"),
        os.path.join(tmp_path, "bert_model.ckpt"),
        seq_len=MAX_LEN,
        output_layer_num=2,
        trainable=["Encoder", "Embedding-Token"],
    )
    x = Dropout(0.1)(bert.output)
    x = Bidirectional(LSTM(16, return_sequences=True))(x)
    output = TimeDistributed(Dense(len(TAGS), activation="softmax"))(x)
    model = Model(bert.inputs, output)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=1e-2),  # was lr=1e-2
        loss="sparse_categorical_crossentropy",
        weighted_metrics=[token_accuracy],  # was metrics, whose mask JAX loses
    )  # was sample_weight_mode="temporal"
    return model, CharTokenizer(load_vocabulary(os.path.join(tmp_path, "vocab.txt")))


@pytest.mark.slow(torch=True)
def test_a_tagger_finds_numbers(tagger, tmp_path):
    model, tokenizer = tagger
    rng = np.random.default_rng(6)
    train, valid = read_data(96, rng), read_data(16, rng)
    x, y, weights = encode(tokenizer, train)
    history = model.fit(x, y, sample_weight=weights, batch_size=16, epochs=10, verbose=0).history
    assert history["token_accuracy"][-1] > 0.9

    x, y, weights = encode(tokenizer, valid)
    predicted = model.predict(x, verbose=0).argmax(-1)
    right = 0
    for (text, tags), row in zip(valid, predicted, strict=True):
        length = min(len(text), MAX_LEN - 2)
        got = [ID_TAGS[i] for i in row[1 : length + 1]]
        right += entities(text[:length], got) == entities(text[:length], tags[:length])
    assert right >= 13

    expected = model.predict(x, verbose=0)
    model.save_weights(str(tmp_path / "tagger.weights.h5"))  # was tagger.h5
    model.set_weights([np.zeros_like(weight) for weight in model.get_weights()])
    model.load_weights(str(tmp_path / "tagger.weights.h5"))
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)
