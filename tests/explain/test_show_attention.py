"""Two models, the checkpoints of a training, and attributions, a lens and importances, in one page."""

import json
import re

import numpy as np
import pytest
from helpers.attention_arrays import random_maps
from helpers.small import small_model, spread

from keras_bert_rebuild import WordPieceTokenizer, attention_maps, show_attention
from keras_bert_rebuild.explain.page_arrays import pack, unpack
from keras_bert_rebuild.explain.page_data import REST, PageContents, PageSource, page_data
from keras_bert_rebuild.explain.page_panels import LensRows, Panels, TokenScores
from keras_bert_rebuild.explain.show_attention import show_training

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "the", "cat", "un", "##able", "unable", "."]
PIECES = WordPieceTokenizer([word for word in WORDS if word != "unable"], cased=False)
WHOLE = WordPieceTokenizer(WORDS, cased=False)
TEXT = "The unable cat."


def model_of(tokenizer, seed, **changes):
    return spread(small_model(token_num=len(tokenizer.tokens), **changes), np.random.default_rng(seed))


def data_of(shown):
    return json.loads(re.search(r'id="data">(.*?)</script>', shown.html, re.DOTALL)[1])


def shares_of(model, tokenizer):
    return attention_maps(model, texts=[TEXT], tokenizer=tokenizer).of_text(0).probabilities[:, 0]


def test_two_models_are_on_one_page_with_their_names():
    first, second = model_of(PIECES, 1), model_of(PIECES, 2)
    data = data_of(show_attention(first, PIECES, TEXT, other=second, name="first", other_name="second"))
    assert [source["name"] for source in data["sources"]] == ["first", "second"]
    for model, suffix in ((first, ""), (second, "1")):
        np.testing.assert_allclose(unpack(data["arrays"][f"probabilities{suffix}"]), shares_of(model, PIECES), atol=1e-5)
        assert {f"queries{suffix}", f"keys{suffix}", f"vectors{suffix}"} <= set(data["arrays"])
    assert data["tokens"][1:4] == ["the", "un", "##able"]
    assert data["surfaces"][1:4] == ["The", "un", "able"]
    assert data["continues"][1:4] == [False, False, True]
    assert data["texts"] == [TEXT]


def test_models_with_other_tokens_meet_at_the_pieces_of_the_text():
    first, second = model_of(PIECES, 1), model_of(WHOLE, 2)
    data = data_of(show_attention(first, PIECES, TEXT, other=second, other_tokenizer=WHOLE))
    assert data["tokens"] == ["[CLS]", "The", "unable", "cat", ".", "[SEP]"]
    assert sorted(data["arrays"]) == ["probabilities", "probabilities1"]
    np.testing.assert_allclose(unpack(data["arrays"]["probabilities1"]), shares_of(second, WHOLE), atol=1e-5)


def test_scores_of_tokens_and_a_lens_need_models_with_the_same_tokens():
    first, second = model_of(PIECES, 1), model_of(WHOLE, 2)
    tokens = ("[CLS]", "the", "un", "##able", "cat", ".", "[SEP]")
    scores = [TokenScores(tokens, [0.0] * 7, "shapley", "cat")]
    both = {"other": second, "other_tokenizer": WHOLE}
    with pytest.raises(ValueError, match=r"only if both cut the text into the same tokens; these two cut it into 7 and 6\."):
        show_attention(first, PIECES, TEXT, attributions=scores, **both)
    with pytest.raises(ValueError, match="only if both cut the text into the same tokens"):
        show_attention(first, PIECES, TEXT, other_panels=Panels(scores), **both)
    shown = data_of(show_attention(first, PIECES, TEXT, importance=[[1, 2], [3, 4]], **both))
    assert shown["sources"][0]["importance"] == [[1, 2], [3, 4]]


def test_a_model_with_other_numbers_of_layers_is_refused():
    with pytest.raises(ValueError, match="must have 2 layers and 2 heads, like the first; it has 1 layers and 2 heads"):
        show_attention(model_of(PIECES, 1), PIECES, TEXT, other=model_of(PIECES, 2, transformer_num=1))


def test_a_text_that_was_cut_is_shown_as_far_as_it_was_read():
    data = data_of(show_attention(model_of(PIECES, 1), PIECES, TEXT, max_len=4))
    assert data["texts"] == ["The un …"]


def steps_of(seeds):
    """One model whose weights change from step to step, as those of a run."""
    model = model_of(PIECES, 0)
    for step, seed in seeds:
        spread(model, np.random.default_rng(seed))
        yield step, model


def test_every_checkpoint_has_its_maps_and_its_scores():
    expected = {step: shares_of(model, PIECES) for step, model in steps_of([(100, 1), (2000, 2), (30000, 3)])}
    data = data_of(show_training(steps_of([(100, 1), (2000, 2), (30000, 3)]), PIECES, TEXT, name="run"))
    assert [source["step"] for source in data["sources"]] == [100, 2000, 30000]
    for source in data["sources"]:
        found = unpack(data["arrays"][f"probabilities{source['suffix']}"])
        np.testing.assert_allclose(found, expected[source["step"]], atol=1e-5)
        mean = expected[source["step"]][:, :, range(1, 7), range(6)].mean(-1)
        np.testing.assert_allclose(source["scores"][0], mean, atol=6e-5)
    assert "queries" not in data["arrays"]


def test_maps_of_a_long_training_are_coarser_and_those_that_do_not_fit_are_refused(monkeypatch):
    seeds = [(step, step) for step in (1, 2)]
    maps = [shares_of(model, PIECES) for _, model in steps_of(seeds)]
    for precision in ("uint16", "root8", "root5"):
        size = sum(len(pack(shares, precision)["data"]) for shares in maps)
        monkeypatch.setattr("keras_bert_rebuild.explain.page_data.PAGE_BYTES", size + REST)
        data = data_of(show_training(steps_of(seeds), PIECES, TEXT))
        assert {array["precision"] for array in data["arrays"].values()} == {precision}
    monkeypatch.setattr("keras_bert_rebuild.explain.page_data.PAGE_BYTES", size - 1 + REST)
    message = r"2 checkpoints, 2 layers, 2 heads and 7 tokens need 0\.0 MB: show fewer checkpoints \(--checkpoints\), --layers"
    with pytest.raises(ValueError, match=message):
        show_training(steps_of(seeds), PIECES, TEXT)


def test_checkpoints_must_ascend():
    with pytest.raises(ValueError, match=r"ascending steps; got steps \[2, 1\]"):
        show_training(steps_of([(2, 1), (1, 2)]), PIECES, TEXT)
    with pytest.raises(ValueError, match=r"with ascending steps; got steps \[\]"):
        show_training([], PIECES, TEXT)


@pytest.fixture
def maps(rng):
    return random_maps(rng)


def data_of_panels(maps, **panels):
    """The data of a page of one model: that of its source, and the whole."""
    data = page_data(PageContents([PageSource(maps, panels=Panels(**panels))]))
    return {**data, **data["sources"][0]}


def test_the_page_holds_the_scores_of_its_tokens(maps, rng):
    tokens = maps.tokens[0]
    scores = rng.normal(0, 1, len(tokens))
    given = TokenScores(tokens, scores, "integrated gradients", "logit of positive", 2.5, 0.25)
    (found,) = data_of_panels(maps, attributions=[given])["attributions"]
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
            data_of_panels(maps, attributions=[given])


def test_the_page_holds_the_lens(maps, rng):
    tokens = [[[f"{row} {i} {rank}" for rank in range(3)] for i in range(9)] for row in range(4)]
    tokens[0][0][0] = tokens[3][8][2]
    chances = rng.uniform(0, 0.3, (4, 9, 3))
    data = data_of_panels(maps, lens=LensRows(["embedding", "1", "2", "3"], tokens, chances))
    words = data["lens"]["words"]
    assert len(words) == len(set(words)) == 4 * 9 * 3 - 1
    assert [[[words[code] for code in ranks] for ranks in row] for row in data["lens"]["codes"]] == tokens
    np.testing.assert_allclose(unpack(data["arrays"]["lens"]), chances, atol=1e-5)
    with pytest.raises(ValueError, match=r"4 rows of the 9 tokens of the page; got probabilities of shape \(4, 8, 3\)"):
        data_of_panels(maps, lens=LensRows(["a", "b", "c", "d"], tokens, chances[:, 1:]))


def test_importance_is_that_of_the_heads_on_the_page(maps):
    whole = np.arange(8.0).reshape(2, 4)
    data = page_data(PageContents([PageSource(maps, panels=Panels(importance=whole))], head_count=4))
    assert data["sources"][0]["importance"] == whole[:, :3].tolist()
    with pytest.raises(ValueError, match=r"of shape \(2, 3\), one for each head of the model; got shape \(2, 4\)"):
        data_of_panels(maps, importance=whole)


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
