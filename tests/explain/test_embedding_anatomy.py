"""The parts of an embedding are the rows of its tables and add up to what the model computes."""

import keras
import numpy as np
import pytest
from helpers.small import small_model, spread

from keras_bert_rebuild import BertConfig, Tokenizer, WordPieceTokenizer, build_model
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.nearest import nearest_in_texts, nearest_tokens

WORDS = ["", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "un", "##aff", "##able", "."]
VOCABULARY = {token: i for i, token in enumerate(WORDS)}
SIZES = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 9}


def tokenizer():
    return WordPieceTokenizer(VOCABULARY, cased=False)


def values(model, path):
    return next(keras.ops.convert_to_numpy(w) for w in model.weights if w.path == path)


def test_parts_are_rows_of_the_tables_and_their_sum_goes_through_the_norm(rng):
    model = spread(small_model(token_num=len(WORDS), dropout_rate=0.1), rng)
    found = embedding_anatomy(model, tokenizer(), "Unaffable cat.", "Sat")
    assert found.tokens == ("[CLS]", "un", "##aff", "##able", "cat", ".", "[SEP]", "sat", "[SEP]")
    assert found.pieces[1:5] == (("un", "##aff", "##able"),) * 3 + (("cat",),)
    assert found.pieces[6] == ("[SEP]",)
    assert found.surfaces == ("", "Un", "aff", "able", "cat", ".", "", "Sat", "")
    assert found.segments.tolist() == [0] * 7 + [1] * 2
    assert found.parts == ("token", "segment", "position")
    rows = zip(found.parts, (found.ids, found.segments, found.positions), strict=True)
    tables = [values(model, f"Embedding-{part.capitalize()}/embeddings")[ids] for part, ids in rows]
    np.testing.assert_array_equal(found.vectors, tables)
    np.testing.assert_allclose(found.summed, found.vectors.sum(0), atol=1e-6)
    inputs = [found.ids[None], found.segments[None]]
    inputs = [np.pad(array, ((0, 0), (0, 3))) for array in inputs]
    norm = keras.Model(model.inputs[:2], model.get_layer("Embedding-Norm").output)
    np.testing.assert_allclose(found.normalised, keras.ops.convert_to_numpy(norm(inputs))[0, :9], atol=1e-6)


def test_norms_and_cosines_are_those_of_the_vectors(rng):
    model = spread(small_model(token_num=len(WORDS)), rng)
    found = embedding_anatomy(model, tokenizer(), "the cat")
    a, b = found.vectors[0, 2], found.vectors[2, 2]
    assert found.cosines[2, 0, 2] == pytest.approx(a @ b / np.sqrt(a @ a * (b @ b)), abs=1e-6)
    np.testing.assert_allclose(found.cosines, found.cosines.transpose(0, 2, 1))
    np.testing.assert_allclose(np.diagonal(found.cosines, axis1=1, axis2=2), 1, atol=1e-6)
    np.testing.assert_allclose(found.norms[1] ** 2, (found.vectors[1] ** 2).sum(-1), rtol=1e-5)
    s = found.summed[1]
    expected = found.vectors[0, 1] @ s / found.norms[0, 1] / found.norms_summed[1]
    assert found.cosines_summed[0, 1] == pytest.approx(expected, abs=1e-6)
    assert found.cosines_normalised.shape == (3, 4)


def test_a_family_without_segments_has_two_parts_and_its_own_first_position(rng):
    config = BertConfig(**SIZES, type_vocab_size=0, position_offset=2, max_position_embeddings=9)
    model = spread(build_model(config), rng)
    found = embedding_anatomy(model, tokenizer(), "cat")
    assert found.parts == ("token", "position")
    assert found.positions.tolist() == [2, 3, 4]
    np.testing.assert_allclose(found.vectors[1], values(model, "Embedding-Position/embeddings")[2:5], atol=1e-7)
    with pytest.raises(ValueError, match=r"may have 7 tokens, .* text 0 has 8"):
        embedding_anatomy(model, tokenizer(), "the cat sat the cat sat")
    assert len(embedding_anatomy(model, tokenizer(), "the cat sat the cat sat", max_len=7).tokens) == 7


def test_keras_berts_tokenizer_gives_the_same_tokens(rng):
    model = spread(small_model(token_num=len(WORDS)), rng)
    other = embedding_anatomy(model, Tokenizer(VOCABULARY), "Unaffable cat.", "Sat")
    own = embedding_anatomy(model, tokenizer(), "Unaffable cat.", "Sat")
    assert (other.tokens, other.pieces, other.surfaces) == (own.tokens, own.pieces, None)
    for name in ("ids", "segments", "sentences", "summed", "cosines"):
        np.testing.assert_array_equal(getattr(other, name), getattr(own, name))
    cut = embedding_anatomy(model, Tokenizer(VOCABULARY), "the cat sat", "the cat", max_len=6)
    assert len(cut.tokens) == 6


def test_a_task_is_not_in_a_text():
    model = build_model(BertConfig(**SIZES, num_tasks=2))
    with pytest.raises(ValueError, match="must not have Embedding-Task; a text does not determine the task"):
        embedding_anatomy(model, tokenizer(), "cat")


def test_nearest_tokens_have_the_largest_cosine(rng):
    model = spread(small_model(token_num=len(WORDS)), rng)
    table = values(model, "Embedding-Token/embeddings").astype("float64")
    cosines = table @ table[6] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[6])
    expected = [i for i in np.argsort(-cosines) if i != 6][:4]
    for asked in ("cat", 6):
        found = nearest_tokens(model, tokenizer(), asked, 4)
        assert [(near.token, near.id) for near in found] == [(WORDS[i], i) for i in expected]
        np.testing.assert_allclose([near.cosine for near in found], cosines[expected], atol=1e-6)
    assert nearest_tokens(model, Tokenizer(VOCABULARY), table[6], 1)[0].token == "cat"
    for asked, message in (
        ("dog", "of the vocabulary; got 'dog'"),
        (12, "from 0 to 11, .* got 12"),
        (np.ones(3), r"the shape of a row of the token table, \(16,\); got \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            nearest_tokens(model, tokenizer(), asked)
    with pytest.raises(ValueError, match=r"from 0 to 5, .* got 6"):
        nearest_tokens(small_model(token_num=6), tokenizer(), "cat")
    with pytest.raises(ValueError, match=r"tokenizer must be one of this library, .* got dict"):
        nearest_tokens(model, VOCABULARY, "cat")


def test_nearest_in_texts_finds_the_same_token_in_the_same_context(rng):
    model = spread(small_model(token_num=len(WORDS)), rng)
    texts = ["the cat sat .", "unaffable", "the cat sat ."]
    first, *_ = nearest_in_texts(model, tokenizer(), texts, text=0, position=2)
    assert (first.text, first.position, first.token, first.cosine) == (2, 2, "cat", pytest.approx(1))
    assert len(nearest_in_texts(model, tokenizer(), texts, 0, 2, layer=0, count=3)) == 3
    with pytest.raises(ValueError, match="texts of 6, 5, 6 tokens; got 1 and 5"):
        nearest_in_texts(model, tokenizer(), texts, 1, 5)
