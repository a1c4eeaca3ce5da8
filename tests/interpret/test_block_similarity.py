"""CKA equals its formula, and has the properties that make it comparable."""

import io
import itertools

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, sentence, small_encoder
from rich.console import Console

from keras_bert_rebuild.interpret import block_similarity
from keras_bert_rebuild.interpret.block_pictures import draw_similarity
from keras_bert_rebuild.interpret.block_similarity import MeanSimilarity, cka
from keras_bert_rebuild.interpret.block_vectors import BlockVectors
from keras_bert_rebuild.interpret.similarity_table import similarity_table


def of_arrays(*parts):
    sums = MeanSimilarity()
    for first, second in parts:
        sums.add(first, second)
    return sums.result()


def hsic_by_definition(x, y):
    """The unbiased estimator as the mean over all quadruples of different examples, its definition as a U-statistic."""
    k, m = x @ x.T, y @ y.T
    found = [k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in itertools.permutations(range(len(x)), 4)]
    return np.mean(found)


def test_one_part_is_the_formula(rng):
    first, second = rng.normal(size=(2, 6, 3)), rng.normal(size=(3, 6, 5))
    got = of_arrays((first, second))
    assert got.shape == (2, 3)
    for i, j in itertools.product(range(2), range(3)):
        x, y = first[i], second[j]
        expected = hsic_by_definition(x, y) / np.sqrt(hsic_by_definition(x, x) * hsic_by_definition(y, y))
        assert got[i, j] == pytest.approx(expected, abs=1e-10)


def test_parts_are_averaged_before_they_are_divided(rng):
    parts = [(rng.normal(size=(1, 6, 3)), rng.normal(size=(1, 6, 4))) for _ in range(3)]
    means = [np.mean([hsic_by_definition(part[a][0], part[b][0]) for part in parts]) for a, b in ((0, 1), (0, 0), (1, 1))]
    assert of_arrays(*parts)[0, 0] == pytest.approx(means[0] / np.sqrt(means[1] * means[2]), abs=1e-10)


def test_it_is_one_with_itself_symmetric_and_blind_to_rotation_scale_and_shift(rng):
    x, y = rng.normal(size=(2, 40, 8)), rng.normal(size=(3, 40, 5))
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    np.testing.assert_allclose(of_arrays((x, 3 * x @ turn + 7)).diagonal(), 1, atol=1e-9)
    np.testing.assert_allclose(of_arrays((x, y)), of_arrays((y, x)).T, atol=1e-12)
    np.testing.assert_allclose(of_arrays((x @ turn * 0.1 - 2, y)), of_arrays((x, y)), atol=1e-9)


def test_unrelated_vectors_have_about_none_however_wide_they_are(rng):
    wide = [(rng.normal(size=(1, 64, 500)), rng.normal(size=(1, 64, 500))) for _ in range(20)]
    assert abs(of_arrays(*wide)[0, 0]) < 0.02


def test_vectors_that_are_all_the_same_have_no_similarity(rng):
    assert np.isnan(of_arrays((np.ones((1, 8, 3)), rng.normal(size=(1, 8, 3))))).all()


@pytest.mark.compiles_long
def test_the_depths_of_a_model_and_of_two_models(rng, monkeypatch):
    texts = [sentence(rng, int(words)) for words in rng.integers(3, 12, 30)]
    model, other = small_encoder([]), small_encoder([], seed=6, num_hidden_layers=1)
    own = cka(model, texts=texts, tokenizer=TOKENIZER)
    np.testing.assert_allclose(own.values.diagonal(), 1, atol=1e-6)
    np.testing.assert_allclose(own.values, own.values.T, atol=1e-9)
    both = cka(model, other, texts=texts, tokenizer=TOKENIZER)
    assert both.values.shape == (3, 2)
    vectors = [BlockVectors(one, TOKENIZER).of_texts(texts) for one in (model, other)]
    np.testing.assert_allclose(both.values, of_arrays(vectors), atol=1e-9)
    monkeypatch.setattr(block_similarity, "TEXTS", 10)
    in_parts = cka(model, other, texts=texts, tokenizer=TOKENIZER)
    expected = of_arrays(*((vectors[0][:, part], vectors[1][:, part]) for part in np.split(np.arange(30), 3)))
    np.testing.assert_allclose(in_parts.values, expected, atol=1e-6)


def test_it_is_shown_as_a_table_and_as_a_map():
    similarity = cka(small_encoder([]), texts=["cat", "the dog", "anna sat", "ben likes london"], tokenizer=TOKENIZER)
    console = Console(file=io.StringIO(), width=80)
    console.print(similarity_table(similarity))
    assert [line.split()[-3:] for line in console.file.getvalue().splitlines()[2:]] == [
        [f"{value:.2f}" for value in row] for row in similarity.values
    ]
    picture = draw_similarity(similarity, "a & b", ("<a>", "b"))
    assert picture.count("<rect") == 9
    assert "&lt;a&gt;" in picture


def test_too_few_texts_are_refused():
    with pytest.raises(ValueError, match="texts must be a list of at least 4 strings; got 3"):
        cka(small_encoder([]), texts=["cat"] * 3, tokenizer=TOKENIZER)
