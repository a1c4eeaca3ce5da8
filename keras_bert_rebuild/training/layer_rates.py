"""Learning rates that fall from the head of a model to its embeddings."""

import keras

from keras_bert_rebuild.config import BertConfig


def layer_rates(model: keras.Model | BertConfig, decay: float) -> dict[str, float]:
    """Multipliers of the learning rate for fine-tuning: 1 for the heads and the last block, less for every block below.

        Encoder-L: decay^(N − L)        Embedding-…: decay^N

    What is near the input is general and should change little. N counts blocks with weights of their own, so the shared block of
    an ALBERT has one multiplier, 1.

    Args:
        model: a `BertModel` from one of the builders, or its `BertConfig`.
        decay: factor from a block to the one below, in (0, 1]; ELECTRA takes 0.8 to 0.9, ULMFiT 1 / 2.6.

    Returns:
        `{regular expression over variable paths: multiplier}`, as `AdamW(rate_multipliers=...)` takes it. What no pattern names,
        the heads and the pooler, has 1.

    Raises:
        ValueError: a model without a config, or a `decay` out of its range.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> layer_rates(BertConfig(num_hidden_layers=2), decay=0.5)
    {'(^|/)Encoder-2-': 1.0, '(^|/)Encoder-1-': 0.5, '(^|/)Embedding-': 0.25}

    Reference: Howard and Ruder, 2018, section 3.2 (https://arxiv.org/abs/1801.06146); Clark et al., 2020, appendix B
    (https://arxiv.org/abs/2003.10555).
    """
    config = getattr(model, "config", model)
    num_blocks = getattr(config, "num_distinct_blocks", None)
    if num_blocks is None:
        raise ValueError(f"expected a BertConfig or a model that has one as its config; got {type(model).__name__}.")
    if not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1]; got {decay}.")
    # The hyphen behind the number keeps Encoder-1 and Encoder-12 apart.
    rates = {f"(^|/)Encoder-{block}-": float(decay ** (num_blocks - block)) for block in range(num_blocks, 0, -1)}
    return {**rates, "(^|/)Embedding-": float(decay**num_blocks)}
