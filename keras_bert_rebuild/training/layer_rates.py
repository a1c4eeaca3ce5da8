"""Learning rates that fall from the head of a model to its embeddings."""

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.heads import LAYERS

# The heads that begin anew in a fine-tuning; those of pretraining, and the pooler below, bring what they have learned.
_FRESH = tuple(LAYERS[head] for head in ("classification", "token_classification", "question_answering", "multiple_choice"))


def layer_rates(model: keras.Model | BertConfig, decay: float = 1.0, head: float = 1.0) -> dict[str, float]:
    """Multipliers of the learning rate for fine-tuning: 1 for the last block, less for every block below, more for a fresh head.

        Encoder-L: decay^(N − L)        Embedding-…: decay^N        Classification, …: head

    What is near the input is general and should change little. N counts blocks with weights of their own, so the shared block of
    an ALBERT has one multiplier, 1.

    Args:
        model: a `BertModel` from one of the builders, or its `BertConfig`.
        decay: factor from a block to the one below, in (0, 1]; ELECTRA takes 0.8 to 0.9, ULMFiT 1 / 2.6.
        head: factor of the last layer of a head for labels, tags or answers, above 0; `finetune` takes its setting `head_rate`.

    Returns:
        `{regular expression over variable paths: multiplier}`, as `AdamW(rate_multipliers=...)` takes it. What no pattern names,
        such as the pooler and the heads of pretraining, has 1; factors of 1 are left out where no other is asked for.

    Raises:
        ValueError: a model without a config, or a `decay` or `head` out of its range.

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
    rates = {} if head == 1 else {f"(^|/)({'|'.join(_FRESH)})/": float(head)}
    if decay == 1 and rates:
        return rates
    # The hyphen behind the number keeps Encoder-1 and Encoder-12 apart.
    rates |= {f"(^|/)Encoder-{block}-": float(decay ** (num_blocks - block)) for block in range(num_blocks, 0, -1)}
    return {**rates, "(^|/)Embedding-": float(decay**num_blocks)}
