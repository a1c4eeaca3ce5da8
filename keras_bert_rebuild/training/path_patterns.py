"""Matching of variable paths: whether a pattern matches, and the value of the first match."""

import re

# Biases, including those of the heads, and the gamma and beta of layer normalisations: they neither decay nor are adapted.
# `exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"]` of google-research/bert, as patterns over our paths.
NO_DECAY = ("(^|/)bias$", "(^|/)gamma$", "(^|/)beta$")


def matches_any(path, patterns):
    """Whether a regular expression in `patterns` matches a part of a variable path.

    Example:

    >>> [matches_any(path, NO_DECAY) for path in ("MLM-Sim/bias", "Embedding-Norm/gamma", "NSP/kernel")]
    [True, True, False]
    """
    return any(re.search(pattern, path) for pattern in patterns)


def first_match(path, table, default):
    """The value of the first pattern of a table `{pattern: value}` that matches a part of a variable path, or `default`.

    Example:

    >>> first_match("Encoder-12-FeedForward/output/kernel", {"^Encoder-1-": 0.1, "^Encoder-12-": 0.9}, default=1.0)
    0.9
    """
    return next((value for pattern, value in table.items() if re.search(pattern, path)), default)


def check_patterns(name, patterns):
    """Raise a ValueError, with the name of the argument, for anything but a list of regular expressions."""
    if isinstance(patterns, str):
        raise ValueError(f"{name} must be a list of regular expressions over variable paths; got the string {patterns!r}.")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"{name} must hold regular expressions over variable paths; {pattern!r} is not one: {error}."
            ) from None
