"""Untrusted JSON gives a value or an error of one sentence."""

import pytest

from keras_bert_rebuild.files.json_text import parse_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "f must be JSON in UTF-8: Expecting property name"),
        ("[" * 65 + "]" * 65, "the nesting of f must have at most 64 levels; got 65"),
        ('{"a":' * 65 + "1" + "}" * 65, "must have at most 64 levels"),
        ("[" * 200_000, "f must be JSON in UTF-8: maximum recursion depth"),
        ("9" * 5000, "Exceeds the limit"),
        ("[" + "[]," * 6_000_001 + "1]", r"f must have at most 6,000,000 values; got 12,000,00\d"),
    ],
)
def test_deep_long_and_broken_texts_are_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_json(text, "f")
    assert "\n" not in str(error.value)


def test_json_within_the_limits_is_read():
    assert parse_json("[" * 64 + "]" * 64, "f") is not None
    assert parse_json('{"a": [1, NULL]}'.replace("NULL", "null"), "f") == {"a": [1, None]}
