"""Vocabulary files, learning a vocabulary, and the index of its words."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild import load_vocabulary
from keras_bert_rebuild.text.piece_table import MAX_CHARACTERS, WordIndex
from keras_bert_rebuild.text.tokenizer import split_pieces
from keras_bert_rebuild.text.vocabulary import SPECIAL_TOKENS, save_vocabulary, train_vocabulary

TEXT = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "while",
    "the",
    "other",
    "foxes",
    "are",
    "jumping",
    "over",
    "other",
    "dogs",
    "and",
    "the",
    "laziest",
    "of",
    "the",
    "dogs",
    "dreams",
    "of",
    "quicker",
    "foxes",
    "and",
    "of",
    "brown",
    "jumpers",
]


def test_ids_are_line_numbers_and_a_repeated_token_shifts_no_other(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\na\r\nb \na\nc\u2028d\n\ne\n".encode())
    assert load_vocabulary(path) == {"[PAD]": 0, "a": 3, "b": 2, "c\u2028d": 4, "": 5, "e": 6}


def test_a_saved_vocabulary_loads_the_same(tmp_path):
    save_vocabulary(["[PAD]", "é", "##博"], tmp_path / "v.txt")
    assert load_vocabulary(tmp_path / "v.txt") == {"[PAD]": 0, "é": 1, "##博": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["v.txt"]


def test_a_missing_vocabulary_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        load_vocabulary(tmp_path / "nothing.txt")


def test_a_vocabulary_that_is_not_utf_8_is_refused_by_name(tmp_path):
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt must be a vocabulary in UTF-8"):
        load_vocabulary(tmp_path / "latin.txt")


def test_special_tokens_have_googles_ids():
    tokens = train_vocabulary(TEXT, 180)
    assert [tokens.index(t) for t in ("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 1, 100, 101, 102, 103]


def test_training_is_deterministic_and_independent_of_the_order_of_words():
    words = TEXT * 3
    assert train_vocabulary(words, 190) == train_vocabulary(words[::-1], 190) == train_vocabulary(iter(words), 190)


def test_counts_of_words_train_as_the_words_do(monkeypatch):
    words = TEXT * 7
    tokens = train_vocabulary(words, 190)
    assert train_vocabulary(dict(Counter(words)), 190) == tokens
    monkeypatch.setattr("keras_bert_rebuild.text.vocabulary._WORDS_PER_LINE", 3)
    assert train_vocabulary(Counter(words), 190) == tokens


@settings(max_examples=20)
@given(st.lists(st.text("abcdef博é", min_size=1, max_size=8), min_size=3, max_size=40), st.integers(0, 40))
def test_every_word_of_the_training_text_is_spelt_without_unknown_pieces(words, more):
    size = len(SPECIAL_TOKENS) + 2 * len(set("".join(words))) + more
    tokens = train_vocabulary(words, size)
    assert len(tokens) == len(set(tokens)) <= size
    for word in words:
        assert all(piece in set(tokens) for piece in split_pieces(word, set(tokens)))


def test_frequent_words_become_pieces():
    assert {"the", "of", "dogs", "jump"} <= set(train_vocabulary(TEXT * 5, 230))


def test_too_small_a_size_or_no_words_are_errors():
    with pytest.raises(ValueError, match="size must be at least"):
        train_vocabulary(TEXT, 110)
    with pytest.raises(ValueError, match="the corpus is empty"):
        train_vocabulary([], 1000)


# `WordIndex` against a dictionary.


def find(index, words):
    characters = np.array([ord(char) for word in words for char in word], np.uint32)
    stops = np.cumsum([len(word) for word in words]).astype(np.int64)
    return index.find(characters, np.append(0, stops)[:-1], stops).tolist()


def has_key(word):
    return len(word) <= MAX_CHARACTERS and max(word) <= "\uffff"


WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=[]), min_size=1, max_size=18), max_size=40, unique=True
)


@pytest.mark.parametrize("one_slot", [False, True])
@given(batches=st.lists(WORDS, max_size=4), others=WORDS)
@settings(max_examples=100)
def test_an_index_answers_like_a_dictionary(one_slot, batches, others):
    index, expected = WordIndex(), {}
    if one_slot:
        index._factors *= np.uint64(0)  # all words hash to the first slot
    for batch in batches:
        new = [word for word in batch if word not in expected]
        index.add(new, 10 * len(expected))
        expected.update({word: 10 * len(expected) + i for i, word in enumerate(new)})
        asked = [*expected, *others]
        assert find(index, asked) == [expected[word] if word in expected and has_key(word) else -1 for word in asked]


def test_a_word_is_found_at_both_ends_of_the_characters_and_not_by_a_part():
    index = WordIndex()
    longest = "a" * MAX_CHARACTERS
    index.add(["a", longest, "a" * (MAX_CHARACTERS + 1), "\U0001f600", "\uf600"], 5)
    assert find(index, [longest, "a", "aa", "a" * (MAX_CHARACTERS + 1), "\U0001f600", "\uf600", "a"]) == [6, 5, -1, -1, -1, 9, 5]
    assert find(index, []) == []


def test_an_index_grows():
    index = WordIndex()
    words = [f"word{n}" for n in range(5000)]
    for first in range(0, 5000, 7):
        index.add(words[first : first + 7], first)
    assert find(index, [*words, "word"]) == [*range(5000), -1]
