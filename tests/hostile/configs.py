"""Configs that somebody wrote to do harm, or nobody looked at."""

import copy
import json

# What stands where a number, a word or a list should.
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
