"""A classifier as keras_bert's users write it: custom tokenizer, generator, nested model, Lambda, AdamWarmup, .h5 file.

Lines changed for Keras 3 have a comment that starts with "was"; all other lines are as in such programs.
"""

import codecs
import os

import keras
import numpy as np
import pytest
from helpers.small_checkpoints import WORDS, write_toy_checkpoint
from keras import backend as K  # noqa: N812
from keras.layers import Dense, Dropout, Input, Lambda
from keras.models import Model

from keras_bert_rebuild import AdamWarmup, Tokenizer, calc_train_steps, get_custom_objects, load_trained_model_from_checkpoint

MAX_LEN, BATCH_SIZE, EPOCHS = 16, 8, 10

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file"),
    pytest.mark.filterwarnings("ignore:.*shuffle=True"),
    pytest.mark.filterwarnings(r"ignore:[\s\S]*does not support masking"),
]


class CharTokenizer(Tokenizer):
    def _tokenize(self, text):
        tokens = []
        for char in text:
            if char in self._token_dict:
                tokens.append(char)
            elif self._is_space(char):
                tokens.append("[unused1]")
            else:
                tokens.append("[UNK]")
        return tokens


def pad(rows):
    longest = MAX_LEN  # was max(len(row) for row in rows), which TensorFlow refuses in a generator
    return np.array([np.concatenate([row, [0] * (longest - len(row))]) for row in rows])


class DataGenerator:
    def __init__(self, data, tokenizer, shuffle=True):
        self.data, self.tokenizer, self.shuffle = data, tokenizer, shuffle
        self.steps = -(-len(data) // BATCH_SIZE)

    def __len__(self):
        return self.steps

    def __iter__(self):
        while True:
            order = np.random.permutation(len(self.data)) if self.shuffle else np.arange(len(self.data))
            tokens, segments, labels = [], [], []
            for i in order:
                text, label = self.data[i]
                x1, x2 = self.tokenizer.encode(first=text[:MAX_LEN], max_len=None)
                tokens.append(x1)
                segments.append(x2)
                labels.append([label])
                if len(tokens) == BATCH_SIZE or i == order[-1]:
                    yield (pad(tokens), pad(segments)), np.array(labels)  # was [pad(tokens), pad(segments)], ...
                    tokens, segments, labels = [], [], []


def build(folder, total_steps, warmup_steps):
    config_path = os.path.join(folder, "bert_config.json")
    checkpoint_path = os.path.join(folder, "bert_model.ckpt")
    bert_model = load_trained_model_from_checkpoint(config_path, checkpoint_path, seq_len=None)
    for layer in bert_model.layers:
        layer.trainable = True
    x1_in, x2_in = Input(shape=(None,)), Input(shape=(None,))
    x = bert_model([x1_in, x2_in])
    x = Lambda(lambda t: t[:, 0])(x)
    x = Dropout(0.1)(x)
    p = Dense(1, activation="sigmoid")(x)
    model = Model([x1_in, x2_in], p)
    model.compile(
        loss="binary_crossentropy",
        optimizer=AdamWarmup(total_steps, warmup_steps, lr=5e-3, min_lr=1e-5),
        metrics=["accuracy"],
    )
    return model


@pytest.fixture
def data():
    """Texts of letters: those with letters of the first half of the alphabet are class 1."""
    rng = np.random.default_rng(3)
    halves = WORDS[5:10], WORDS[:5]
    labels = rng.integers(0, 2, 64).tolist()
    return [("".join(rng.choice(halves[label], rng.integers(4, 12))), label) for label in labels]


@pytest.mark.slow(torch=True)
def test_a_classifier_learns_is_saved_and_read_again(tmp_path, data):
    write_toy_checkpoint(tmp_path)
    keras.utils.set_random_seed(2)
    token_dict = {}
    with codecs.open(str(tmp_path / "vocab.txt"), "r", "utf8") as reader:
        for line in reader:
            token_dict[line.strip()] = len(token_dict)
    tokenizer = CharTokenizer(token_dict)
    total_steps, warmup_steps = calc_train_steps(num_example=len(data), batch_size=BATCH_SIZE, epochs=EPOCHS, warmup_proportion=0.1)
    model = build(tmp_path, total_steps, warmup_steps)
    model.summary()
    train, valid = DataGenerator(data, tokenizer), DataGenerator(data, tokenizer, shuffle=False)

    rates = []

    class Evaluator(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            rates.append(float(self.model.optimizer.lr))  # was K.get_value(self.model.optimizer.lr)

    history = model.fit(  # was model.fit_generator
        iter(train),
        steps_per_epoch=len(train),
        epochs=EPOCHS,
        validation_data=iter(valid),
        validation_steps=len(valid),
        callbacks=[Evaluator()],
        verbose=0,
    )
    assert history.history["val_accuracy"][-1] > 0.9
    assert rates == [pytest.approx(5e-3)] * EPOCHS

    inputs, _ = next(iter(valid))
    expected = model.predict(inputs, verbose=0)
    model.save(str(tmp_path / "best_model.h5"))
    K.clear_session()
    loaded = keras.models.load_model(str(tmp_path / "best_model.h5"), custom_objects=get_custom_objects(), safe_mode=False)
    np.testing.assert_allclose(loaded.predict(inputs, verbose=0), expected, atol=1e-6)
    assert [label for _, label in data[:BATCH_SIZE]] == (expected[:, 0] > 0.5).astype(int).tolist()
