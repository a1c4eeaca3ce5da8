"""What configs with rotary positions have in common: the bases of their angles, and the fields that they do not have."""

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.finite import is_number

# The largest base of angles; those in use are below 10 million.
MAX_THETA = 1e12


def check_rotary(config: BertConfig, thetas: tuple[str, ...]) -> None:
    """Refuse values that rotary positions cannot have, and make the bases floats.

    Args:
        config: a config in its `__post_init__`.
        thetas: the names of its fields that are bases.

    Raises:
        ValueError: a base is no number or too large, a field is set that belongs to other positions or tables, or a head has an
            odd width.
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
