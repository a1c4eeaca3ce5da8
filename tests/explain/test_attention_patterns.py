"""Heads that follow a pattern purely score one, and others score what a hand computation gives."""

import numpy as np
import pytest
from helpers import minilm

from keras_bert_rebuild import attention_maps, from_pretrained, load_tokenizer
from keras_bert_rebuild.explain.attention_patterns import PATTERNS, attention_patterns

TOKENS = ["[CLS]", "the", "cat", "[SEP]", "a", "cat", "[SEP]"]
SENTENCES = [-1, 0, 0, -1, 1, 1, -1]


def head(looks_at):
    """A map in which query q attends equally to the positions of looks_at[q]."""
    probabilities = np.zeros((7, 7))
    for query, keys in enumerate(looks_at):
        probabilities[query, keys] = 1 / len(keys)
    return probabilities


PURE = {
    "previous token": head([[0], [0], [1], [2], [3], [4], [5]]),
    "next token": head([[1], [2], [3], [4], [5], [6], [6]]),
    "same token": head([[0], [1], [2, 5], [3], [4], [5, 2], [6]]),
    "delimiter": head([[6], [0], [3], [0], [6], [3], [0]]),
    "same sentence": head([[0], [1, 2], [1, 2], [3], [4, 5], [4, 5], [6]]),
}


def scores_of(maps, sentences=SENTENCES):
    return attention_patterns(np.stack(maps)[:, None], TOKENS, sentences)


def test_a_pure_head_scores_one_and_is_named_first():
    found = scores_of(list(PURE.values()))
    assert found.names == tuple(name for name, _ in PATTERNS) == tuple(PURE)
    for i, name in enumerate(PURE):
        assert found.scores[i, i, 0] == pytest.approx(1)
        assert found.of_head(i, 0)[0] == (name, pytest.approx(1))


def test_uniform_attention_scores_its_share_and_has_no_name():
    even = np.full((7, 7), 1 / 7)
    found = scores_of([even])
    # Over words: same token (1 + 2 + 1 + 2) / 4, delimiters 3, own sentence 2, of 7 each.
    expected = [1 / 7, 1 / 7, 1.5 / 7, 3 / 7, 2 / 7]
    np.testing.assert_allclose(found.scores[:, 0, 0], expected)
    np.testing.assert_allclose(found.even, expected)
    assert found.of_head(0, 0) == []


def test_a_head_is_named_from_halfway_between_uniform_and_pure():
    even = np.full((7, 7), 1 / 7)
    for share, named in ((0.49, False), (0.51, True)):
        found = scores_of([share * PURE["next token"] + (1 - share) * even])
        assert bool(found.of_head(0, 0)) is named
    assert found.of_head(0, 0, threshold=0.6) == []


def test_scores_of_any_attention_are_from_zero_to_one(rng):
    maps = rng.dirichlet(np.full(7, 0.1), size=(3, 2, 7)).astype("float32")
    scores = attention_patterns(maps, TOKENS, SENTENCES).scores
    assert scores.shape == (5, 3, 2)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_pattern_that_a_text_cannot_show_has_no_score():
    one = attention_patterns(np.stack([PURE["same sentence"]])[:, None], TOKENS)
    assert one.scores[4, 0, 0] == one.even[4] == 0
    alone = attention_patterns(np.ones((1, 1, 1, 1)), ["[CLS]"])
    assert not alone.scores.any()
    assert alone.of_head(0, 0) == []


def test_a_trained_bert_has_a_head_for_the_previous_token():
    maps = attention_maps(
        from_pretrained(minilm.FOLDER),
        texts=["The harbour was quiet before the boats went out."],
        pairs=["Nobody had slept."],
        tokenizer=load_tokenizer(minilm.FOLDER),
        layers=[0],
    )
    found = attention_patterns(maps.probabilities[:, 0], maps.tokens[0], maps.sentences[0])
    names = [found.of_head(0, head) for head in range(12)]
    assert sum(bool(of_head) and of_head[0][0] == "previous token" and of_head[0][1] > 0.9 for of_head in names) == 1


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"must be \(layers, heads, 7, 7\) .* got \(7, 7\) and \(7,\)"):
        attention_patterns(np.ones((7, 7)), TOKENS, SENTENCES)
