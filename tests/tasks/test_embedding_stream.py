"""Vectors of any number of texts: those of the model, in order and in few shapes, also with keras_bert's function."""

import gc
import io
import itertools
import weakref

import keras
import numpy as np
import pytest
from helpers.kernel_checks import compiled_programs
from helpers.small import LENGTH, VOCAB, small_model, spread
from helpers.small_tasks import TOKENIZER, VOCABULARY, sentence, small_encoder

from keras_bert_rebuild import (
    BertModel,
    EmbeddingStream,
    SentenceEmbedder,
    WordPieceTokenizer,
    extract_embeddings,
    extract_embeddings_generator,
)
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.layers import Extract
from keras_bert_rebuild.tasks import embedding_stream, text_rows
from keras_bert_rebuild.tasks.embedding_model import embedding_model, for_any_length


@pytest.fixture
def shapes(monkeypatch):
    """The shapes of the batches that are computed."""
    seen, begin = [], text_rows.dispatched

    def dispatched(model, inputs, variables=None):
        seen.append(np.shape(inputs[0]))
        return begin(model, inputs, variables)

    monkeypatch.setattr(text_rows, "dispatched", dispatched)
    return seen


@pytest.mark.parametrize("poolings", [("mean",), ("cls", "max")])
def test_vectors_are_float32_whatever_the_policy(poolings):
    keras.config.set_dtype_policy("mixed_bfloat16")
    vectors = EmbeddingStream.from_model(small_encoder(()), TOKENIZER, poolings, normalize=True)(["the cat", "a dog sat"])
    file = io.BytesIO()
    np.save(file, vectors)
    file.seek(0)
    assert np.load(file).dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)  # bfloat16 has 1e-2
    of_tokens = extract_embeddings(small_encoder(()), ["the cat"], vocabs={token: i for i, token in enumerate(VOCABULARY)})
    assert of_tokens[0].dtype == np.float32


@pytest.mark.slow
def test_compiled_batches_have_few_shapes(rng, monkeypatch, shapes):
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: True)
    texts = [sentence(rng, int(words)) for words in rng.integers(1, 30, 700)]
    model = small_encoder(())
    stream = EmbeddingStream.from_model(model, TOKENIZER, batch_tokens=128)
    vectors = stream(texts)
    assert len({length for _, length in shapes}) <= 5
    assert len(set(shapes)) <= 6  # a batch that is not full has the shape of a full one, if that was computed before
    before = set(shapes)
    np.testing.assert_allclose(stream(texts[:300]), vectors[:300], atol=1e-5)
    assert {length for _, length in shapes} == {length for _, length in before}
    monkeypatch.undo()
    np.testing.assert_allclose(EmbeddingStream.from_model(model, TOKENIZER)(texts), vectors, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
@pytest.mark.parametrize("count", [20, 300, 1200])
def test_an_accelerator_compiles_the_shapes_of_the_first_texts_side_by_side(count, rng, monkeypatch):
    texts = [sentence(rng, int(words)) for words in rng.integers(1, 38, count)]
    found = []
    for is_accelerator, thread in ((False, "MainThread"), (True, "compile-ahead")):
        monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)  # noqa: B023
        stream = EmbeddingStream.from_model(small_encoder(()), TOKENIZER, batch_tokens=512)
        with compiled_programs() as programs:
            found.append(stream(texts))
        threads = [thread for name, thread in programs if name == "jit(answer)"]
        assert len(threads) > 1
        assert set(threads) == {thread}
        with compiled_programs() as programs:
            np.testing.assert_array_equal(stream(texts), found[-1])
        assert "jit(answer)" not in dict(programs)
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_one_shape_is_compiled_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    with compiled_programs() as programs:
        EmbeddingStream.from_model(small_encoder(()), TOKENIZER)(["the cat sat"])
    assert [program for program in programs if program[0] == "jit(answer)"] == [("jit(answer)", "MainThread")]


@pytest.mark.slow
def test_blocks_of_documents_are_padded_to_the_lengths_of_the_first(rng, monkeypatch, shapes):
    task = SentenceEmbedder(small_encoder(()), TOKENIZER, truncate=True)
    blocks = [[sentence(rng, int(words)) for words in rng.integers(1, most, 400)] for most in (9, 35, 17)]
    expected = [list(task.documents(texts)) for texts in blocks]
    shapes.clear()
    monkeypatch.setattr(traits, "compiles_each_shape", lambda model=None: True)
    encode = task.document_encoder(batch_tokens=128)
    found = [list(encode(texts)) for texts in blocks]
    assert {length for _, length in shapes} <= {8, 12, 24, 40}
    assert max(rows * length for rows, length in shapes) <= 128
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-5)
    shapes.clear()
    after = task.document_encoder(batch_tokens=128)
    next(after(blocks[0]))  # as a resumed index does
    np.testing.assert_array_equal(list(after(blocks[2])), found[2])


def test_the_tokens_of_a_batch_follow_the_device_unless_they_are_given(monkeypatch, shapes):
    texts, model = ["the cat sat"] * 5000, small_encoder(())
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: False)
    assert EmbeddingStream.from_model(model, TOKENIZER).rows(32) == 64
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    assert EmbeddingStream.from_model(model, TOKENIZER).rows(32) == 512
    assert EmbeddingStream.from_model(model, TOKENIZER, batch_tokens=320).rows(32) == 10
    with pytest.raises(ValueError, match="batch_tokens must be at least 1; got 0"):
        EmbeddingStream.from_model(model, TOKENIZER, batch_tokens=0)
    assert len(EmbeddingStream.from_model(model, TOKENIZER)(texts)) == 5000
    assert max(rows * length for rows, length in shapes) > embedding_stream.BATCH_TOKENS


@pytest.mark.parametrize("characters", [1, 40, 1 << 20])
def test_vectors_of_windows_are_means_weighted_by_their_tokens(rng, monkeypatch, characters):
    monkeypatch.setattr(embedding_stream, "CHARACTERS_PER_CALL", characters)
    monkeypatch.setattr(embedding_stream, "TEXTS_PER_CALL", 7)
    texts = [sentence(rng, int(words)) for words in rng.integers(1, 40, 30)]
    model = small_encoder(())
    stream = EmbeddingStream.from_model(model, TOKENIZER, max_len=12, stride=3)
    windows = text_rows.encode_windows(TOKENIZER, texts, max_len=12, stride=3)
    each = [extract(model, ids) for ids in windows.ids]
    expected = [
        np.average([each[i] for i in np.flatnonzero(windows.examples == text)], axis=0, weights=weights)
        for text in range(30)
        for weights in [[len(windows.ids[i]) for i in np.flatnonzero(windows.examples == text)]]
    ]
    assert len(windows.ids) > 60
    np.testing.assert_allclose(stream(texts), expected, atol=1e-5)
    np.testing.assert_allclose(list(stream.stream(iter(texts))), expected, atol=1e-5)
    assert max(map(len, stream.blocks(texts))) <= 7


def extract(model, ids):
    """The mean of the states of one row."""
    return keras.ops.convert_to_numpy(model([ids[None], 0 * ids[None]]))[0].mean(0)


def test_the_answer_of_a_stream_gets_rows_as_pairs_and_may_return_a_list():
    def answer(rows, length):
        assert len(rows) == len(list(rows))
        return [np.array([len(ids), ids[1], sum(segments)], "float32") for ids, segments in rows]

    stream = EmbeddingStream(answer, TOKENIZER, 40)
    cat, dog = TOKENIZER.encode_flat(["cat dog"])[0]
    np.testing.assert_array_equal(stream(["cat", "dog cat", "cat dog cat"]), [[3, cat, 0], [4, dog, 0], [5, cat, 0]])


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
    assert for_any_length(last) is last


def test_a_stream_gives_vectors_of_length_one(model, rng):
    texts = texts_of(rng, 20)
    stream = EmbeddingStream.from_model(model, WordPieceTokenizer(TOKENS), normalize=True)
    vectors = stream(texts)
    for text, vector in zip(texts, vectors, strict=True):
        expected, used = directly(model, text)
        mean = expected[:used].mean(0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_only_the_last_block_is_pooled(model, training):
    other = small_model() if training else embedding_model(model, ["mean"])
    with pytest.raises(ValueError, match=r"vectors are pooled from the last block, .* is (MLM|Pool-Ave), \(None, "):
        EmbeddingStream.from_model(other, WordPieceTokenizer(TOKENS))


def test_mistakes_are_reported_in_a_sentence(model):
    stream = EmbeddingStream.from_model(model, WordPieceTokenizer(TOKENS))
    with pytest.raises(ValueError, match="got the string 'w1 w2': put it into a list"):
        stream.stream("w1 w2")
    with pytest.raises(ValueError, match=r"number 1 is int .7."):
        stream(["w1", 7])
    with pytest.raises(ValueError, match=r"number 300 is NoneType"):
        stream([*["w1"] * 300, None])
    with pytest.raises(ValueError, match="at least one text; got an empty list"):
        stream([])
    with pytest.raises(ValueError, match=f"from 2 to {LENGTH}, the maximum of the model; got 13"):
        EmbeddingStream.from_model(model, WordPieceTokenizer(TOKENS), max_len=13)
    with pytest.raises(ValueError, match="got the string"):
        next(extract_embeddings_generator(model, "w1 w2", vocabs=TOKENS))
