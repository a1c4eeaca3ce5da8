"""Tokens located in their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.rematch import rematch


@pytest.mark.parametrize(
    ("text", "tokens", "spans"),
    [
        (
            "All rights reserved.",
            ["all", "rights", "re", "##ser", "##ved", "."],
            [(0, 3), (4, 10), (11, 13), (13, 16), (16, 19), (19, 20)],
        ),
        ("All rights reserved.", ["[UNK]", "rights", *["[UNK]"] * 4], [(0, 3), (4, 10), (11, 15), (15, 17), (17, 19), (19, 20)]),
        ("#hash tag ##", ["#", "hash", "tag", "##"], [(0, 1), (1, 5), (6, 9), (10, 12)]),
        ("  吃了吗？    ", ["吃", "了", "吗", "？"], [(2, 3), (3, 4), (4, 5), (5, 6)]),
        ("abc", ["[CLS]", "abc", "[SEP]"], [(0, 0), (0, 3), (3, 3)]),
        ("abc", [], []),
    ],
)  # fmt: skip
def test_spans_are_those_of_keras_bert(text, tokens, spans):
    assert rematch(text, tokens) == spans


@given(st.lists(st.text("abcdeXY,.", min_size=1, max_size=8), min_size=1, max_size=6), st.booleans())
def test_spans_of_plain_words_spell_them(words, cased):
    text = "  " + " ".join(words)
    tokens = split_words(text, cased)
    for token, (start, stop) in zip(tokens, rematch(text, tokens, cased=cased), strict=True):
        assert (text[start:stop] if cased else text[start:stop].lower()) == token
