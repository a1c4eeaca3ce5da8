"""The algorithm of Google's BERT tokenizer over Python's `unicodedata`, written plainly, one character at a time."""

import unicodedata

IDEOGRAPHS = [
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
]
ASCII_MARKS = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def words(text, cased, strip_accents=None, tokenize_chinese_chars=True):
    strip_accents = not cased if strip_accents is None else strip_accents
    cleaned = ""
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            cleaned += " "
        elif char not in "\0\ufffd" and category not in ("Cc", "Cf"):
            is_word = tokenize_chinese_chars and any(ord(char) in block for block in IDEOGRAPHS)
            cleaned += f" {char} " if is_word else char
    separated = []
    for token in cleaned.split():
        token = token if cased else token.lower()
        if strip_accents:
            token = "".join(c for c in unicodedata.normalize("NFD", token) if unicodedata.category(c) != "Mn")
        spaced = ""
        for char in token:
            is_mark = char in ASCII_MARKS or unicodedata.category(char).startswith("P")
            spaced += f" {char} " if is_mark else char
        separated += spaced.split()
    return separated


def pieces(word, vocabulary):
    if len(word) > 200:
        return ["[UNK]"]
    parts, rest = [], word
    while rest:
        prefix = "##" if parts else ""
        fitting = [n for n in range(len(rest), 0, -1) if prefix + rest[:n] in vocabulary]
        if not fitting:
            return ["[UNK]"]
        parts.append(prefix + rest[: fitting[0]])
        rest = rest[fitting[0] :]
    return parts


def ids(text, vocabulary, cased, **settings):
    return [vocabulary[piece] for word in words(text, cased, **settings) for piece in pieces(word, vocabulary)]
