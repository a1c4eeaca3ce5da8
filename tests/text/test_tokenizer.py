"""`Tokenizer`: its normalisation, its word pieces and their offsets, against the rules written out character by character."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import Tokenizer
from keras_bert_rebuild.text.normalization import CJK_BLOCKS, split_words
from keras_bert_rebuild.text.tokenizer import rematch, split_pieces

TEXTS = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("aB é\u0301ñ ,.!？推博\u00ad\u200b\x00\x07\t\n\u3000ß²")), max_size=30
)


def slow_split(text, cased):
    """The rules of keras_bert, one character at a time."""
    if not cased:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn").lower()
    spaced = ""
    for c in text:
        code, category = ord(c), unicodedata.category(c)
        ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
        if ascii_mark or category.startswith("P") or any(a <= code <= b for a, b in CJK_BLOCKS):
            spaced += " " + c + " "
        elif c in " \n\r\t" or category == "Zs":
            spaced += " "
        elif code == 0 or code == 0xFFFD or category in ("Cc", "Cf"):
            continue
        else:
            spaced += c
    return spaced.split()


@given(TEXTS, st.booleans())
def test_words_follow_the_rules(text, cased):
    assert split_words(text, cased) == slow_split(text, cased)


@given(st.text(st.characters(max_codepoint=127), max_size=60), st.booleans())
def test_the_shortcut_for_ascii_gives_the_same_words(text, cased):
    assert split_words(text, cased) == slow_split(text, cased)


@given(st.text("abc", min_size=1, max_size=12), st.sets(st.text("abc", min_size=1, max_size=4), max_size=12))
def test_pieces_spell_the_word_and_are_the_longest_that_fit(word, stems):
    vocabulary = stems | {f"##{stem}" for stem in stems}
    pieces = split_pieces(word, vocabulary)
    assert "".join(piece.removeprefix("##") for piece in pieces) == word
    start = 0
    for piece in pieces:
        bare = piece.removeprefix("##")
        for stop in range(start + len(bare) + 1, len(word) + 1):  # nothing longer is in the vocabulary
            assert ("##" if start else "") + word[start:stop] not in vocabulary
        assert piece in vocabulary or len(bare) == 1
        start += len(bare)


@given(st.text("abc", min_size=1, max_size=12), st.sets(st.text("abc", min_size=1, max_size=4), max_size=12))
def test_long_words_are_cut_like_short_ones(word, stems):
    vocabulary = stems | {f"##{stem}" for stem in stems}
    expected = split_pieces(word, vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert_rebuild.text.tokenizer.LONG_WORD", 0)
        assert split_pieces(word, vocabulary) == expected


class Counted(set):
    """A set that counts its lookups."""

    asked = 0

    def __contains__(self, piece):
        self.asked += 1
        return super().__contains__(piece)


def test_the_steps_for_a_long_word_grow_linearly():
    vocabulary = Counted({"aa", "##ab", "##aaa"})
    word = "a" * 2999 + "b" + "é" * 3000
    pieces = split_pieces(word, vocabulary)
    assert "".join(piece.removeprefix("##") for piece in pieces) == word
    assert vocabulary.asked <= 6 * len(word)


UNCASED = {"[CLS]": 0, "[SEP]": 1, "want": 2, "##want": 3, "##ed": 4, "wa": 5, "un": 6, "runn": 7, "##ing": 8, ",": 9, "[UNK]": 10}


def test_unknown_characters_stay_as_tokens_and_get_the_unknown_id():
    tokenizer = Tokenizer(UNCASED)
    text = "UNwantéd, running  \nah博推zzz\u00ad"
    tokens = tokenizer.tokenize(text)
    assert tokens == ["[CLS]", "un", "##want", "##ed", ",", "runn", "##ing", "a", "##h", "博", "推", "z", "##z", "##z", "[SEP]"]
    ids, segments = tokenizer.encode(text)
    assert ids == [0, 6, 3, 4, 9, 7, 8, 10, 10, 10, 10, 10, 10, 10, 1]
    assert segments == [0] * len(ids)


def test_case_and_accents_are_retained_on_request():
    assert Tokenizer({"[UNK]": 0, "Él": 1}, cased=True).tokenize("Él él")[1:-1] == ["Él", "é", "##l"]


def test_pairs_are_cut_from_the_longer_and_padded():
    tokenizer = Tokenizer({"[CLS]": 2, "[SEP]": 3, "a": 5, "b": 6, "[UNK]": 1})
    assert tokenizer.encode("a", "b", max_len=7) == ([2, 5, 3, 6, 3, 0, 0], [0, 0, 0, 1, 1, 0, 0])
    assert tokenizer.encode("a a a", "b", max_len=5) == ([2, 5, 3, 6, 3], [0, 0, 0, 1, 1])
    assert tokenizer.encode("a", "b", max_len=4) == ([2, 5, 3, 3], [0, 0, 0, 1])  # a tie shortens the second
    assert tokenizer.encode("a", "b", max_len=3) == ([2, 3, 3], [0, 0, 1])
    assert tokenizer.encode("a a a", max_len=3) == ([2, 5, 3], [0, 0, 0])
    assert tokenizer.encode("", max_len=2) == ([2, 3], [0, 0])


@pytest.mark.parametrize(("arguments", "least"), [({"second": "b", "max_len": 2}, 3), ({"max_len": 1}, 2), ({"max_len": -1}, 2)])
def test_a_length_without_room_for_the_special_tokens_is_an_error(arguments, least):
    with pytest.raises(ValueError, match=f"max_len must be at least {least}"):
        Tokenizer({"[CLS]": 2, "[SEP]": 3, "a": 5, "b": 6}).encode("a", **arguments)


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5)


@given(WORDS, WORDS, st.integers(0, 4), st.sampled_from([0, 9]))
def test_decoding_is_the_inverse_of_encoding(first, second, padding, pad):
    tokenizer = Tokenizer({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3, "c": 4, "[PAD]": 9}, pad_index=pad)
    length = len(first) + len(second) + 3 + padding
    ids, _ = tokenizer.encode(" ".join(first), " ".join(second), max_len=length)
    assert tokenizer.decode(np.array(ids)) == (first, second)
    ids, _ = tokenizer.encode(" ".join(first), max_len=len(first) + 2 + padding)
    assert tokenizer.decode(ids) == first


def test_what_is_not_a_text_is_an_error():
    with pytest.raises(ValueError, match="first must be a text; got list"):
        Tokenizer(UNCASED).encode(["a", "b"])


def test_a_vocabulary_without_the_unknown_token_is_an_error_when_it_is_needed():
    with pytest.raises(ValueError, match=r"every token or \[UNK\]; got 'b'"):
        Tokenizer({"[CLS]": 0, "[SEP]": 1, "a": 2}).encode("a b")


def test_decoding_without_a_separator_or_with_an_unknown_id_is_an_error():
    with pytest.raises(ValueError, match=r"ids must have 1, the id of \[SEP\]; got \[0, 2, 3\]"):
        Tokenizer(UNCASED).decode([0, 2, 3])
    with pytest.raises(KeyError):
        Tokenizer(UNCASED).decode([0, 99, 1])


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
