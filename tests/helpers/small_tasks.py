"""A small encoder with a vocabulary, and reference outputs of its heads."""

import keras
import numpy as np

from helpers import reference
from helpers.small import spread
from keras_bert_rebuild import BertConfig, WordPieceTokenizer, build_model
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText

WORDS = ["the", "cat", "dog", "sat", "on", "mat", "in", "paris", "london", "anna", "ben", "likes", "red", "blue", "and", "a", "of"]
SIGNS = [".", ",", "?", "who", "where"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *SIGNS, "##s", "##es", "un", "##like"]
TOKENIZER = WordPieceTokenizer(VOCABULARY)
HEADS, BLOCKS = 2, 2
PETS = [
    ClassifiedText(f"the {pet} sat on the {place}", label=pet) for pet in ("cat", "dog") for place in ("mat", "london", "paris")
]

CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=BLOCKS,
    num_attention_heads=HEADS,
    intermediate_size=32,
    max_position_embeddings=40,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def small_encoder(heads=("pooler",), seed=5, **changes):
    """A BERT of two blocks of 16 for 40 positions, with every weight different from its usual initial value."""
    return spread(build_model(CONFIG.replace(**changes), heads), np.random.default_rng(seed))


def small_task(cls, seed=5, **settings):
    """A task on the small encoder, with the weights of its head also different from their usual initial values."""
    task = cls.from_encoder(small_encoder(), TOKENIZER, **settings)
    spread(task.model, np.random.default_rng(seed))
    return task


def sequence(model, ids, segments):
    """The last block of a model for one row, in plain NumPy: `(length, hidden)`."""
    weights = reference.weights_of(model)
    ids, segments = np.array([ids]), np.array([segments])
    return weights, reference.encode(weights, ids, segments, HEADS, BLOCKS, mask=np.ones_like(ids, bool))[-1][0]


def plain_logits(model, ids, segments, head):
    """The logits of a head for one row, in plain NumPy."""
    weights, states = sequence(model, ids, segments)
    if head in ("Classification", "Multiple-Choice"):
        states = np.tanh(states[0] @ weights["NSP-Dense/kernel"] + weights["NSP-Dense/bias"])
    return states @ weights[f"{head}/kernel"] + weights[f"{head}/bias"]


def sentence(rng, words):
    """A number of random words."""
    return " ".join(rng.choice(WORDS, words))


def trained(task, examples, epochs=25, rate=3e-2, batch_size=8, **kwargs):
    """Train a task; returns the loss of the first and of the last epoch."""
    task.compile(keras.optimizers.Adam(rate), **kwargs)
    batches = task.batches(task.encode(examples), batch_size)
    history = task.training_model.fit(batches, epochs=epochs, shuffle=False, verbose=0).history
    return history["loss"][0], history["loss"][-1]
