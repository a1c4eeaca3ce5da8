"""Checks for configs with rotary positions: bases of angles, and fields that must not be set."""

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import is_number

# Maximum base of angles; those in use are below 10 million.
MAX_THETA = 1e12


def check_rotary(config: BertConfig, thetas: tuple[str, ...]) -> None:
    """Refuse invalid values for rotary positions, and convert the bases to floats.

    Args:
        config: a config in its `__post_init__`.
        thetas: the names of its fields that are bases.

    Raises:
        ValueError: a base is not a number or too large, a field of other positions or tables is set, or the head width is odd.
    """
    for name in thetas:
        value = getattr(config, name)
        if not is_number(value) or not 0 < value <= MAX_THETA:
            raise ValueError(f"{name} must be a number above 0 and at most {MAX_THETA:,.0f}; got {value!r:.80}.")
        object.__setattr__(config, name, float(value))
    for name in ("embedding_size", "num_hidden_groups", "position_offset"):
        if getattr(config, name):
            raise ValueError(f"{name} must not be set, since {config.family} has no such part; got {getattr(config, name)!r:.80}.")
    if config.hidden_size % (2 * config.num_attention_heads) and not config.hidden_size % config.num_attention_heads:
        width = config.hidden_size // config.num_attention_heads
        raise ValueError(f"the width of a head must be even for rotary positions; got {width}.")
