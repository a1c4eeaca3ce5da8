"""The settings in a file of low-rank matrices, checked because the file may be untrusted."""

import re

from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.files.limits import check_limit, limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.training.optimizers.path_patterns import check_patterns

KEYS = ("rank", "alpha", "patterns", "trained")

# A repeated group can make a search take exponential time; a repeated character cannot.
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+?{]")
_REPETITION = re.compile(r"(?<!\\)[*+{]")


def checked_settings(settings, where):
    """The settings of a file of matrices, if they are valid.

    Args:
        settings: the parsed JSON.
        where: the file, for errors.

    Raises:
        ValueError: rank or alpha is invalid, or a search with the patterns could take extremely long.
    """
    if not isinstance(settings, dict) or set(settings) != set(KEYS):
        raise ValueError(f"{where} must have the settings {', '.join(KEYS)} of low-rank matrices; got {settings!r:.80}.")
    rank, alpha = settings["rank"], settings["alpha"]
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"{where} must have a whole number of at least 1 as rank; got {rank!r:.80}.")
    check_limit("hidden_size", rank, f"the rank in {where}")
    if alpha is not None and not (is_number(alpha) and 0 < alpha < 1e30):
        raise ValueError(f"{where} must have a number above 0 as alpha; got {alpha!r:.80}.")
    for name in ("patterns", "trained"):
        patterns = settings[name]
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(f"{where} must have a list of regular expressions as {name}; got {patterns!r:.80}.")
        check_limit("patterns", len(patterns), f"{name} of {where}")
        for pattern in patterns:
            _check_pattern(pattern, where)
        check_patterns(name, patterns)
    return settings


def _check_pattern(pattern, where):
    check_limit("pattern_characters", len(pattern), f"a pattern of {where}")
    maximum = limit("pattern_repetitions")
    if _REPEATED_GROUP.search(pattern) or len(_REPETITION.findall(pattern)) > maximum:
        raise ValueError(
            f"{where} must have patterns that repeat no group and have at most {maximum} repetitions; got {printable(pattern)}: "
            "write several patterns instead."
        )
