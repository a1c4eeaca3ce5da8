"""Scores of tokens, the lens and the importance of heads on the page."""

import numpy as np
import pytest
from helpers.attention_arrays import random_maps

from keras_bert_rebuild.explain.page_arrays import unpack
from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data
from keras_bert_rebuild.explain.page_panels import LensRows, Panels, TokenScores


@pytest.fixture
def maps(rng):
    return random_maps(rng)


def data_of(maps, **panels):
    """The data of a page of one model: that of its source, and the whole."""
    data = page_data(PageContents([PageSource(maps, panels=Panels(**panels))]))
    return {**data, **data["sources"][0]}


def test_the_page_holds_the_scores_of_its_tokens(maps, rng):
    tokens = maps.tokens[0]
    scores = rng.normal(0, 1, len(tokens))
    given = TokenScores(tokens, scores, "integrated gradients", "logit of positive", 2.5, 0.25)
    (found,) = data_of(maps, attributions=[given])["attributions"]
    np.testing.assert_allclose(found.pop("scores"), scores, rtol=1e-5)
    assert found == {"method": "integrated gradients", "target": "logit of positive", "value": 2.5, "baseline": 0.25}


def test_scores_of_other_tokens_are_refused(maps):
    tokens = maps.tokens[0]
    for given, message in (
        (TokenScores(tokens[:-1], [0] * 8, "m", "t"), r"of the tokens of the page, 9; got 8 tokens\."),
        (TokenScores((*tokens[:-1], "x"), [0] * 9, "m", "t"), r"of the page, '\[SEP\]'; got 'x' at position 8\."),
        (TokenScores(tokens, [0] * 8 + [np.nan], "m", "t"), "a finite score for each of the 9 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            data_of(maps, attributions=[given])


def test_the_page_holds_the_lens(maps, rng):
    tokens = [[[f"{row} {i} {rank}" for rank in range(3)] for i in range(9)] for row in range(4)]
    tokens[0][0][0] = tokens[3][8][2]
    chances = rng.uniform(0, 0.3, (4, 9, 3))
    data = data_of(maps, lens=LensRows(["embedding", "1", "2", "3"], tokens, chances))
    words = data["lens"]["words"]
    assert len(words) == len(set(words)) == 4 * 9 * 3 - 1
    assert [[[words[code] for code in ranks] for ranks in row] for row in data["lens"]["codes"]] == tokens
    np.testing.assert_allclose(unpack(data["arrays"]["lens"]), chances, atol=1e-5)
    with pytest.raises(ValueError, match=r"4 rows of the 9 tokens of the page; got probabilities of shape \(4, 8, 3\)"):
        data_of(maps, lens=LensRows(["a", "b", "c", "d"], tokens, chances[:, 1:]))


def test_importance_is_that_of_the_heads_on_the_page(maps):
    whole = np.arange(8.0).reshape(2, 4)
    data = page_data(PageContents([PageSource(maps, panels=Panels(importance=whole))], head_count=4))
    assert data["sources"][0]["importance"] == whole[:, :3].tolist()
    with pytest.raises(ValueError, match=r"of shape \(2, 3\), one for each head of the model; got shape \(2, 4\)"):
        data_of(maps, importance=whole)


def test_two_models_have_their_own_panels(maps, rng):
    tokens = maps.tokens[0]
    given = [TokenScores(tokens, rng.normal(0, 1, 9), "shapley", name) for name in "ab"]
    lens = [LensRows(["embedding"], [[["x"]] * 9], np.full((1, 9, 1), share)) for share in (0.25, 0.5)]
    sources = [
        PageSource(maps, panels=Panels([score], of, np.full((2, 3), i)))
        for i, (score, of) in enumerate(zip(given, lens, strict=True))
    ]
    data = page_data(PageContents(sources))
    for i, source in enumerate(data["sources"]):
        np.testing.assert_allclose(source["attributions"][0]["scores"], given[i].scores, rtol=1e-5)
        assert source["importance"] == [[i] * 3] * 2
        np.testing.assert_allclose(unpack(data["arrays"][f"lens{i or ''}"]), lens[i].probabilities, atol=1e-5)
