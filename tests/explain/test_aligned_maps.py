"""Two models compared: attention over the pieces of a text that two tokenizers share, and the divergence of heads."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.attention_arrays import random_maps

from keras_bert_rebuild.explain.aligned_maps import aligned_maps, attention_divergence, same_tokens

TEXT, PAIR = "unaffable cats sat", "so what"
# The same texts in the tokens of two models: pieces of words, and one with whole words; -1 for special tokens.
PIECES = (
    ("[CLS]", -1, 0, 0), ("una", 0, 0, 3), ("##ffa", 0, 3, 6), ("##ble", 0, 6, 9), ("cats", 0, 10, 14), ("sat", 0, 15, 18),
    ("[SEP]", -1, 0, 0), ("so", 1, 0, 2), ("what", 1, 3, 7), ("[SEP]", -1, 0, 0),
)  # fmt: skip
WORDS = (
    ("<s>", -1, 0, 0), ("un", 0, 0, 2), ("affable", 0, 2, 9), ("cat", 0, 10, 13), ("s", 0, 13, 14), ("sat", 0, 15, 18),
    ("</s>", -1, 0, 0), ("</s>", -1, 0, 0), ("so", 1, 0, 2), ("what", 1, 3, 7), ("</s>", -1, 0, 0),
)  # fmt: skip


def maps_of(rng, rows):
    tokens, sides, begins, ends = zip(*rows, strict=True)
    texts = (TEXT, PAIR)
    return replace(
        random_maps(rng, length=len(rows), tokens=tokens),
        sentences=np.array([sides]),
        offsets=np.array([list(zip(begins, ends, strict=True))]),
        surfaces=(tuple("" if side < 0 else texts[side][b:e] for _, side, b, e in rows),),
    )


def test_pieces_are_the_shortest_that_no_token_crosses(rng):
    first, second = aligned_maps(maps_of(rng, PIECES), maps_of(rng, WORDS), (TEXT, PAIR))
    assert first.tokens == second.tokens == (("[CLS]", "unaffable", "cats", "sat", "[SEP]", "so", "what", "[SEP]"),)
    assert first.sentences.tolist() == [[-1, 0, 0, 0, -1, 1, 1, -1]]
    assert first.surfaces[0] == ("", "unaffable", "cats", "sat", "", "so", "what", "")


def test_attention_to_a_piece_is_the_sum_and_from_it_the_mean_of_its_tokens(rng):
    given = maps_of(rng, PIECES)
    first, second = aligned_maps(given, maps_of(rng, WORDS), (TEXT, PAIR))
    for maps in (first, second):
        np.testing.assert_allclose(maps.probabilities.sum(-1), 1, atol=1e-6)
    shares = given.probabilities[1, 0, 2]
    assert first.probabilities[1, 0, 2, 1, 2] == pytest.approx(shares[[1, 2, 3], 4].mean())
    assert first.probabilities[1, 0, 2, 3, 1] == pytest.approx(shares[5, [1, 2, 3]].sum())
    assert first.queries is None
    assert first.keys is None


def test_tokens_with_equal_characters_need_no_alignment(rng):
    pieces = maps_of(rng, PIECES)
    assert same_tokens(pieces, replace(pieces, tokens=(tuple("x" * 10),)))
    assert not same_tokens(pieces, maps_of(rng, WORDS))
    aligned, _ = aligned_maps(pieces, pieces, (TEXT, PAIR))
    np.testing.assert_allclose(aligned.probabilities, pieces.probabilities, atol=1e-7)


def test_tokens_of_one_model_alone_join_what_stands_beside_them(rng):
    """A mark without characters, and a character that the other tokenizer removes."""
    one = (("[CLS]", -1, 0, 0), ("▁", 0, 0, 0), ("un", 0, 0, 2), ("\x01", 0, 2, 3), ("able", 0, 3, 7), ("[SEP]", -1, 0, 0))
    other = (("[CLS]", -1, 0, 0), ("un", 0, 0, 2), ("able", 0, 3, 7), ("[SEP]", -1, 0, 0))
    first, second = aligned_maps(maps_of(rng, one), maps_of(rng, other), ("un\x01able", None))
    assert first.tokens == second.tokens == (("[CLS]", "un", "\x01able", "[SEP]"),)
    np.testing.assert_allclose(first.probabilities.sum(-1), 1, atol=1e-6)


def test_special_tokens_at_other_places_are_refused(rng):
    with pytest.raises(
        ValueError, match=r"special tokens in the same places, .*; they tokenise the text as \[CLS\] una .* and <s> un"
    ):
        aligned_maps(maps_of(rng, PIECES), maps_of(rng, WORDS[:7]), (TEXT, PAIR))
    with pytest.raises(ValueError, match="need tokenizers that return characters"):
        aligned_maps(replace(maps_of(rng, PIECES), offsets=None), maps_of(rng, WORDS), (TEXT, PAIR))


def plain_divergence(first, second):
    """Mean of ½ KL(P ‖ M) + ½ KL(Q ‖ M) over rows, one number after the other."""
    total = 0.0
    for p, q in zip(first, second, strict=True):
        for share, other in zip(p, q, strict=True):
            middle = (share + other) / 2
            total += sum(0.5 * x * np.log2(x / middle) for x in (share, other) if x > 0)
    return total / len(first)


def test_divergence_is_the_mean_jensen_shannon_divergence_of_the_rows(rng):
    first, second = rng.dirichlet(np.full(5, 0.4), (2, 3, 5)), rng.dirichlet(np.full(5, 0.4), (2, 3, 5))
    first[0, 0, 2] = [0, 0, 1, 0, 0]
    found = attention_divergence(first, second)
    expected = [[plain_divergence(first[i, j], second[i, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(attention_divergence(second, first), found, atol=1e-12)


def test_divergence_is_0_for_equal_maps_and_1_where_no_key_is_shared():
    here, there = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    assert attention_divergence(here, here) == 0
    assert attention_divergence(here, there) == 1


def test_rows_of_queries_without_a_key_are_not_counted():
    first, second = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    first[0] = second[0] = 0
    assert attention_divergence(first, second) == 1
    assert attention_divergence(np.zeros((2, 2)), np.zeros((2, 2))) == 0


def test_maps_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"of the same shape; got \(2, 2\) and \(3, 3\)"):
        attention_divergence(np.eye(2), np.eye(3))
