"""Vectors of texts: their dtype, and the shapes of the batches that they are computed in."""

import io

import keras
import numpy as np
import pytest
from helpers.compiled_programs import compiled_programs
from helpers.small_tasks import TOKENIZER, VOCABULARY, sentence, small_encoder

from keras_bert_rebuild import EmbeddingStream, SentenceEmbedder, extract_embeddings
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks import embedding_stream, text_rows


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
    vectors = EmbeddingStream.of_model(small_encoder(()), TOKENIZER, poolings, normalize=True)(["the cat", "a dog sat"])
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
    stream = EmbeddingStream.of_model(model, TOKENIZER, batch_tokens=128)
    vectors = stream(texts)
    assert len({length for _, length in shapes}) <= 5
    assert len(set(shapes)) <= 6  # a batch that is not full has the shape of a full one, if that was computed before
    before = set(shapes)
    np.testing.assert_allclose(stream(texts[:300]), vectors[:300], atol=1e-5)
    assert {length for _, length in shapes} == {length for _, length in before}
    monkeypatch.undo()
    np.testing.assert_allclose(EmbeddingStream.of_model(model, TOKENIZER)(texts), vectors, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
@pytest.mark.parametrize("count", [20, 300, 1200])
def test_an_accelerator_compiles_the_shapes_of_the_first_texts_side_by_side(count, rng, monkeypatch):
    texts = [sentence(rng, int(words)) for words in rng.integers(1, 38, count)]
    found = []
    for is_accelerator, thread in ((False, "MainThread"), (True, "compile-ahead")):
        monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)  # noqa: B023
        stream = EmbeddingStream.of_model(small_encoder(()), TOKENIZER, batch_tokens=512)
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
        EmbeddingStream.of_model(small_encoder(()), TOKENIZER)(["the cat sat"])
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
    assert EmbeddingStream.of_model(model, TOKENIZER).rows(32) == 64
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    assert EmbeddingStream.of_model(model, TOKENIZER).rows(32) == 512
    assert EmbeddingStream.of_model(model, TOKENIZER, batch_tokens=320).rows(32) == 10
    with pytest.raises(ValueError, match="batch_tokens must be at least 1; got 0"):
        EmbeddingStream.of_model(model, TOKENIZER, batch_tokens=0)
    assert len(EmbeddingStream.of_model(model, TOKENIZER)(texts)) == 5000
    assert max(rows * length for rows, length in shapes) > embedding_stream.BATCH_TOKENS


@pytest.mark.parametrize("characters", [1, 40, 1 << 20])
def test_vectors_of_windows_are_means_weighted_by_their_tokens(rng, monkeypatch, characters):
    monkeypatch.setattr(embedding_stream, "CHARACTERS_PER_CALL", characters)
    monkeypatch.setattr(embedding_stream, "TEXTS_PER_CALL", 7)
    texts = [sentence(rng, int(words)) for words in rng.integers(1, 40, 30)]
    model = small_encoder(())
    stream = EmbeddingStream.of_model(model, TOKENIZER, max_len=12, stride=3)
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
