"""Rules by patterns of variable paths: which weights decay, their learning rate multipliers, and which are frozen."""

import math
import re
from collections import namedtuple
from collections.abc import Sequence

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.heads import LAYERS

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
    """Raise a ValueError that names the argument, unless it is a list of regular expressions."""
    if isinstance(patterns, str):
        raise ValueError(f"{name} must be a list of regular expressions over variable paths; got the string {patterns!r}.")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"{name} must hold regular expressions over variable paths; {pattern!r} is not one: {error}."
            ) from None


# The heads that fine-tuning initialises; the heads of pretraining and the pooler are trained already.
_NEW_HEADS = tuple(LAYERS[head] for head in ("classification", "token_classification", "question_answering", "multiple_choice"))


def layer_rates(model: keras.Model | BertConfig, decay: float = 1.0, head: float = 1.0) -> dict[str, float]:
    """Multipliers of the learning rate for fine-tuning: 1 for the last block, less for lower blocks, more for a new head.

        Encoder-L: decay^(N − L)        Embedding-…: decay^N        Classification, …: head

    Lower blocks are more general and should change less. N is the number of blocks with separate weights, so the shared block of an
    ALBERT has one multiplier, 1.

    Args:
        model: a `BertModel` from one of the builders, or its `BertConfig`.
        decay: factor from a block to the one below, in (0, 1]; ELECTRA uses 0.8 to 0.9, ULMFiT 1 / 2.6.
        head: factor for the last layer of a head for labels, tags or answers, above 0; `finetune` passes its setting `head_rate`.

    Returns:
        `{regular expression over variable paths: multiplier}`, for `AdamW(rate_multipliers=...)`. Variables without a pattern, such
        as the pooler and the heads of pretraining, have 1; with `decay=1`, only heads have a pattern.

    Raises:
        ValueError: the model has no config, or `decay` or `head` is out of range.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> layer_rates(BertConfig(num_hidden_layers=2), decay=0.5)
    {'(^|/)Encoder-2-': 1.0, '(^|/)Encoder-1-': 0.5, '(^|/)Embedding-': 0.25}
    >>> layer_rates(BertConfig(num_hidden_layers=2), head=5)
    {'(^|/)(Classification|Token-Classification|Question-Answering|Multiple-Choice)/': 5.0}

    Reference: Howard and Ruder, 2018, section 3.2 (https://arxiv.org/abs/1801.06146); Clark et al., 2020, appendix B
    (https://arxiv.org/abs/2003.10555).
    """
    config = getattr(model, "config", model)
    num_blocks = getattr(config, "num_distinct_blocks", None)
    if num_blocks is None:
        raise ValueError(f"expected a BertConfig or a model that has one as its config; got {type(model).__name__}.")
    if not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1]; got {decay}.")
    if not head > 0:
        raise ValueError(f"head must be above 0; got {head}.")
    rates = {} if head == 1 else {f"(^|/)({'|'.join(_NEW_HEADS)})/": float(head)}
    if decay == 1 and rates:
        return rates
    # The hyphen after the number distinguishes Encoder-1 from Encoder-12.
    rates |= {f"(^|/)Encoder-{block}-": float(decay ** (num_blocks - block)) for block in range(num_blocks, 0, -1)}
    return {**rates, "(^|/)Embedding-": float(decay**num_blocks)}


# The number of frozen and of trained parameters.
Frozen = namedtuple("Frozen", ["frozen", "trained"])


def freeze(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Freeze the variables whose path matches a pattern; call it before `compile`.

    A model's file does not record which variables are frozen, only which layers; `from_pretrained(trainable=...)` freezes layers.

    Args:
        model: any Keras model.
        patterns: a list of regular expressions over variable paths, such as "^Embedding-" or "^Encoder-[1-4]-".

    Returns:
        A `Frozen`: the number of frozen and of trained parameters.

    Raises:
        ValueError: a pattern is not a regular expression or matches no path, or the model has no weights.
    """
    _check_found("freeze", model, patterns)
    for variable in model.weights:
        if matches_any(variable.path, patterns):
            variable.trainable = False
    return count_frozen(model)


def train_only(model: keras.Model, patterns: Sequence[str]) -> Frozen:
    """Train only the variables whose path matches a pattern: the opposite of `freeze`, with the same arguments."""
    _check_found("train_only", model, patterns)
    for variable in model.weights:
        variable.trainable = matches_any(variable.path, patterns)
    return count_frozen(model)


def count_frozen(model):
    """The number of frozen and of trained parameters of a model, a `Frozen`."""
    groups = (model.non_trainable_weights, model.trainable_weights)
    return Frozen(*(sum(math.prod(variable.shape) for variable in group) for group in groups))


def _check_found(name, model, patterns):
    check_patterns(name, patterns)
    paths = [variable.path for variable in model.weights]
    if not paths:
        raise ValueError(f"{name} must have a built model, with weights; {model.name} has none.")
    for pattern in patterns:
        if not any(matches_any(path, [pattern]) for path in paths):
            raise ValueError(f"every pattern of {name} must match a variable path, such as {paths[0]!r}; {pattern!r} matches none.")
