"""`WordIndex` against a dictionary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.text.piece_table import MAX_CHARACTERS, WordIndex


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
