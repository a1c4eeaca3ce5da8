"""Files, configs and texts that nobody means well: wrong values, unusual characters, and how many of them."""

import copy
import itertools
import json
import os

import pytest

from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
only_exhaustive = pytest.mark.skipif(not EXHAUSTIVE, reason="takes minutes; EXHAUSTIVE=1 runs it")


WRONG = (None, -1, 0, 2**63, float("inf"), "", "x", [], {}, [[]], True)


def mutations(good):
    """Yield `(where, mutated)`: copies of plain values in which one value at any depth, or all of it, is one of `WRONG`.

    Args:
        good: what a file has, such as parsed JSON.
    """
    for path, wrong in itertools.product(_paths(good), WRONG):
        if not path:
            yield f"all = {wrong!r}", copy.deepcopy(wrong)
            continue
        mutated = copy.deepcopy(good)
        inner = mutated
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = copy.deepcopy(wrong)
        yield f"{'/'.join(map(str, path))} = {wrong!r}", mutated


def fault_of(action, name):
    """What is wrong with how an action takes a mutated file; None if it succeeds, or raises one sentence that names the file.

    Args:
        action: a function without arguments.
        name: the name of the file.
    """
    try:
        action()
    except (ValueError, OSError) as error:
        text = str(error)
        return (
            None if name in text and "\n" not in text and len(text) < 1000 else f"a {type(error).__name__} that says {text[:200]!r}"
        )
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _paths(value):
    yield ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from ((key, *path) for path in _paths(part))


# A few of every script and kind, combined at random: both directions, marks without letters, emoji families, lone surrogates.
PARTS = (
    "שָׁלוֹם", "\u202eمرحبا\u202c", "\u2067سلام\u2069", "नमस्ते", "ไทยไม่มีช่องว่าง", "中文字符", "ﾊﾝｶｸ", "한국어", "ﬃ", "ß", "İ", "ǅ",
    "👨‍👩‍👧‍👦", "👍🏽", "🏴\U000e0067\U000e0062\U000e007f", "☎\ufe0f",
    "e" + "\u0301" * 50, "\u0300", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028",
    "\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\ufffd", "\uffff", "\U0010ffff", "\ud800", "\udfff\ud800",
    "[MASK]", "[SEP]", "[PAD]", "##ing", "\\u0041", "%s", "\r\n", "\t", "𝔘𝔫𝔦", "Ⅷ", "½", "①",
)  # fmt: skip


def prose():
    """Sentences of the standard library's docstrings."""
    return [passage for path in docstring_files(())[:20] for passage in docstring_document(path)]


def any_character(rng):
    """A character of any plane, assigned or not, lone surrogates among them."""
    return chr(rng.choice((rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000))))


def hostile_text(rng, sentences, longest=100_000):
    """One text; most are short, and about one in a hundred has the maximum length."""
    kind = rng.choices(range(8), (30, 20, 15, 10, 10, 5, 5, 0.4))[0]
    if kind == 0:
        text = rng.choice(sentences)
    elif kind == 1:
        text = "".join(any_character(rng) for _ in range(rng.randrange(1, 200)))
    elif kind == 2:
        text = rng.choice(("", " ")).join(rng.choices(PARTS, k=rng.randrange(1, 30)))
    elif kind == 3:
        text = " ".join(rng.choices(sentences, k=rng.randrange(2, 12)))
    elif kind == 4:
        text = "".join(chr(rng.randrange(0x20)) for _ in range(rng.randrange(1, 40))) + rng.choice(sentences)[:30]
    elif kind == 5:
        text = rng.choice(("", " ", "\n", "\u3000", "\0"))
    elif kind == 6:
        text = rng.choice("aé中😀") * rng.randrange(190, 5000)
    else:
        text = rng.choice(("x", " ", "a b ", "\u0301", "😀", rng.choice(sentences) + " ")) * 100_000
    return text[:longest]


# Values instead of a number, a word or a list.
ABSURD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    10**6,
    10**9,
    2**31,
    2**63,
    2**64,
    10**400,
    -(10**400),
    0.5,
    1e-300,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "gelu",
    "evil",
    "12",
    "../../etc/passwd",
    "a\x00b",
    "line\nEvery weight has a variable.\x1b[2J",
    "\ud800",
    "x" * 100_000,
    [],
    [1],
    ["a", ["b"]],
    [None] * 1000,
    {},
    {"a": 1},
    {"0": {"a": []}},
    {str(i): "same" for i in range(100)},
    {"module": "builtins", "class_name": "eval", "config": {}, "registered_name": "eval"},
    {"class_name": "__lambda__", "config": {"value": "ZXZpbA=="}},
)


def fuzzed_config(rng, values):
    """A config with one to three keys taken out, made absurd, or added: the text of a file.

    Args:
        rng: a generator of NumPy.
        values: a dictionary.
    """
    values = copy.deepcopy(values)
    keys = [*values, "num_labels", "id2label", "label2id", "problem_type", "architectures", "model_type", "embedding_size", "dtype"]
    for _ in range(int(rng.integers(1, 4))):
        key = keys[rng.integers(len(keys))]
        if rng.integers(8) == 0:
            values.pop(key, None)
        else:
            values[key] = copy.deepcopy(ABSURD[rng.integers(len(ABSURD))])
    return json.dumps(values)
