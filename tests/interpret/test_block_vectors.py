"""The vectors of every depth are those of the model cut there."""

import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import TOKENIZER, small_encoder
from helpers.tiny_families import modules, name_of_module, tiny_config

from keras_bert_rebuild import build_model
from keras_bert_rebuild.interpret.block_vectors import BlockVectors

TEXTS = ["the cat sat", "the dog sat on the red mat in paris .", "anna"]


def whole(model, text, pair=None):
    """The output of a model without heads for one text."""
    encoding = TOKENIZER.encode_batch([text], None if pair is None else [pair])
    given = {"Input-Token": encoding.ids[0][None], "Input-Segment": encoding.segments[0][None]}
    inputs = [given[tensor.name] for tensor in model.inputs]
    return np.asarray(model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0))[0]


@pytest.mark.parametrize("module", modules(), ids=name_of_module)
def test_the_last_depth_is_the_output_of_the_encoder(module, rng):
    model = spread(build_model(tiny_config(module), []), rng)
    reader = BlockVectors(model, TOKENIZER, batch_size=2)
    assert reader.depths == ("embedding", "block 1", "block 2")
    vectors, first = reader.of_texts(TEXTS), reader.of_texts(TEXTS, pooling="cls")
    assert vectors.shape == (3, 3, 16)
    for i, text in enumerate(TEXTS):
        states = whole(model, text)
        np.testing.assert_allclose(vectors[-1, i], states.mean(0), atol=1e-4)
        np.testing.assert_allclose(first[-1, i], states[0], atol=1e-4)


def test_a_word_has_the_vector_of_its_first_token_also_in_windows():
    model = small_encoder([])
    long = ["the", "cats", "sat", "."] * 6
    vectors, sentences, words = BlockVectors(model, TOKENIZER, batch_size=3).of_words([["unlike", "anna"], long])
    assert sentences.tolist() == [0, 0, *[1] * 24]
    assert words.tolist() == [0, 1, *range(24)]
    np.testing.assert_allclose(vectors[-1, :2], whole(model, "unlike anna")[[1, 3]], atol=1e-4)
    np.testing.assert_allclose(vectors[-1, 2:], whole(model, " ".join(long))[1:-1][FIRST], atol=1e-4)
    short, _, numbers = BlockVectors(model, TOKENIZER, max_len=12).of_words([long])
    assert numbers.tolist() == [*range(24)]
    np.testing.assert_allclose(short[0, 0], vectors[0, 2], atol=1e-5)


# "cats" has two tokens: the first tokens of 24 words.
FIRST = [token for four in range(6) for token in (5 * four, 5 * four + 1, 5 * four + 3, 5 * four + 4)]


def test_texts_longer_than_the_model_are_cut_and_pairs_are_read():
    model = small_encoder([])
    reader = BlockVectors(model, TOKENIZER, max_len=10)
    vectors = reader.of_texts(["the cat " * 30, "the cat the cat the cat the cat"])
    np.testing.assert_allclose(vectors[:, 0], vectors[:, 1], atol=1e-5)
    np.testing.assert_allclose(reader.of_texts(["cat"], ["dog"])[-1, 0], whole(model, "cat", "dog").mean(0), atol=1e-4)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="max_len must be from 8 to 40, the positions of the model; got 50"):
        BlockVectors(small_encoder([]), TOKENIZER, max_len=50)
    with pytest.raises(ValueError, match="pooling must be one of mean, cls; got 'max'"):
        BlockVectors(small_encoder([]), TOKENIZER).of_texts(["cat"], pooling="max")
    with pytest.raises(ValueError, match="tokenizer must be from this library"):
        BlockVectors(small_encoder([]), None)
