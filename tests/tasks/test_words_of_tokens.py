"""Words of texts, whatever pieces a tokenizer cuts them into."""

import pytest

from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.tasks.encode_windows import encode_windows
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("नमस्ते नम", ["न", "##म", "##स्", "##ते"], ["नमस्ते", "नम"]),
        ("cafe\u0301s, cafe\u0301", ["cafe\u0301", "##s", ","], ["cafe\u0301s", ",", "cafe\u0301"]),
    ],
    ids=["vowel signs", "accents"],
)
def test_a_mark_on_a_letter_ends_no_word(text, pieces, words):
    tokenizer = WordPieceTokenizer([*SPECIAL, *pieces], cased=True)
    found = words_of_tokens(encode_windows(tokenizer, [text], max_len=20, stride=2), [text])
    assert [text[start:end] for start, end in found.places[0]] == words
    assert [number for number in found.heads[0].tolist() if number >= 0] == list(range(len(words)))
