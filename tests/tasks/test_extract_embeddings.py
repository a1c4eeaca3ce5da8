"""`extract_embeddings` and `EmbeddingStream` against the model itself, one text at a time."""

import gc
import itertools
import weakref

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, small_model, spread

from keras_bert_rebuild import BertModel, EmbeddingStream, WordPieceTokenizer, extract_embeddings, extract_embeddings_generator
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.layers import Extract
from keras_bert_rebuild.tasks.embedding_model import embedding_model, of_any_length

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(VOCAB - 5))]
TOKENS = {word: i for i, word in enumerate(WORDS)}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    built = BertModel(*small_model(training=False))
    return spread(built, np.random.default_rng(3))


def texts_of(rng, count):
    """Texts from no word up to more words than the model takes."""
    return [" ".join(rng.choice(WORDS[5:], rng.integers(0, LENGTH + 4))) for _ in range(count)]


def directly(model, text):
    """The vectors of the tokens of one text, padded to the length of the model as keras_bert does."""
    words = text.split()[: LENGTH - 2]
    ids = [2, *(TOKENS[word] for word in words), 3]
    row = np.array([ids + [0] * (LENGTH - len(ids))])
    return keras.ops.convert_to_numpy(model.predict_on_batch([row, row * 0]))[0], len(ids)


@pytest.mark.parametrize("batch_size", [1, 40])
@pytest.mark.slow
def test_vectors_are_those_of_the_model_in_the_order_of_the_texts(model, rng, batch_size):
    texts = texts_of(rng, 24)
    for text, vectors in zip(texts, extract_embeddings(model, texts, vocabs=TOKENS, batch_size=batch_size), strict=True):
        expected, used = directly(model, text)
        np.testing.assert_allclose(vectors, expected[:used], atol=1e-5)


def test_poolings_are_joined_in_the_order_given(model, rng):
    texts = texts_of(rng, 10)
    pooled = extract_embeddings(model, texts, ["POOL_AVE", "POOL_NSP", "POOL_MAX"], vocabs=TOKENS)
    for text, vector in zip(texts, pooled, strict=True):
        expected, used = directly(model, text)
        expected = expected[:used]
        np.testing.assert_allclose(vector, np.concatenate([expected.mean(0), expected[0], expected.max(0)]), atol=1e-5)


def test_the_whole_length_is_that_of_the_model_including_padding(model):
    (whole,) = extract_embeddings(model, ["w1 w2"], vocabs=TOKENS, cut_embed=False)
    np.testing.assert_allclose(whole, directly(model, "w1 w2")[0], atol=1e-6)


def test_an_endless_iterator_streams(model):
    endless = (f"w{i % 50}" for i in itertools.count())
    stream = extract_embeddings_generator(model, endless, "POOL_NSP", vocabs=TOKENS)
    vectors = np.stack(list(itertools.islice(stream, 100)))
    np.testing.assert_allclose(vectors[:50], vectors[50:], atol=1e-6)


def test_a_model_is_made_once_and_the_users_model_is_unchanged(model):
    before = summary_rows(model)
    first = embedding_model(model, ("mean",), any_length=True)
    assert first is embedding_model(model, ("mean",), any_length=True)
    assert first.inputs[0].shape == (None, None)
    assert model.inputs[0].shape == (None, LENGTH)
    assert summary_rows(model) == before
    assert {id(v) for v in first.weights} == {id(v) for v in model.weights}


def test_cached_models_are_freed_with_the_model():
    own = BertModel(*small_model(training=False, transformer_num=1))
    gone = weakref.ref(own), weakref.ref(embedding_model(own, ("mean",), any_length=True))
    del own
    keras.backend.clear_session()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_negative_layer_number_keeps_the_length(model):
    last = BertModel(model.inputs, Extract(index=-1, name="Last")(model.outputs[0]))
    assert of_any_length(last) is last


def test_a_stream_gives_vectors_of_length_one(model, rng):
    texts = texts_of(rng, 20)
    stream = EmbeddingStream.of_model(model, WordPieceTokenizer(TOKENS), normalize=True)
    vectors = stream(texts)
    for text, vector in zip(texts, vectors, strict=True):
        expected, used = directly(model, text)
        mean = expected[:used].mean(0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_only_the_last_block_is_pooled(model, training):
    other = small_model() if training else embedding_model(model, ["mean"])
    with pytest.raises(ValueError, match=r"vectors are pooled from the last block, .* is (MLM|Pool-Ave), \(None, "):
        EmbeddingStream.of_model(other, WordPieceTokenizer(TOKENS))


def test_mistakes_are_reported_in_a_sentence(model):
    stream = EmbeddingStream.of_model(model, WordPieceTokenizer(TOKENS))
    with pytest.raises(ValueError, match="got the string 'w1 w2': put it into a list"):
        stream.stream("w1 w2")
    with pytest.raises(ValueError, match=r"number 1 is int .7."):
        stream(["w1", 7])
    with pytest.raises(ValueError, match=r"number 300 is NoneType"):
        stream([*["w1"] * 300, None])
    with pytest.raises(ValueError, match="at least one text; got an empty list"):
        stream([])
    with pytest.raises(ValueError, match=f"from 2 to {LENGTH}, the maximum of the model; got 13"):
        EmbeddingStream.of_model(model, WordPieceTokenizer(TOKENS), max_len=13)
    with pytest.raises(ValueError, match="got the string"):
        next(extract_embeddings_generator(model, "w1 w2", vocabs=TOKENS))
