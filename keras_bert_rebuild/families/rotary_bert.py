"""BERT with rotary positions and gates, what the Nomic and GTE families share; and the checks of all configs with rotary positions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, Positions, bert_encoder
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


# Maximum factor that positions are divided by.
MAX_FACTOR = 1e6

# Keys that are read after `in_one_spelling`, and written by `rotary_keys`.
ALIASES: tuple = (("rope_theta", "rope_theta"), ("rope_factor", "rope_factor"))


@dataclass(frozen=True, kw_only=True)
class RotaryBertConfig(BertConfig):
    """The fields of BERT and of rotary positions."""

    rope_theta: float = 10_000.0
    """Base of the rotary positions."""

    rope_factor: float = 1.0
    """Linear scaling factor: positions are divided by it before the rotation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rotary(self, ("rope_theta",))
        if not is_number(self.rope_factor) or not 1 <= self.rope_factor <= MAX_FACTOR:
            raise ValueError(
                f"rope_factor must be a number of at least 1 and at most {MAX_FACTOR:,.0f}; got {self.rope_factor!r:.80}."
            )
        object.__setattr__(self, "rope_factor", float(self.rope_factor))


def rotary_encoder(config: RotaryBertConfig, *, biased: bool, inner_dropout: float) -> Encoder:
    """The anatomy: BERT's blocks with rotary positions instead of a position table, and with gates.

    Args:
        config: the config.
        biased: whether attention projections and feed-forward outputs have biases; the other layers have none.
        inner_dropout: dropout rate of gated values.

    Reference: Su et al., 2021 (https://arxiv.org/abs/2104.09864), rotary positions; Shazeer, 2020
    (https://arxiv.org/abs/2002.05202), gates.
    """
    bert = bert_encoder(config)
    positions = Positions("rotary", config.max_position_embeddings, theta=config.rope_theta, factor=config.rope_factor)
    heads, activation, dropout = config.num_attention_heads, config.attention_act, config.attention_probs_dropout_prob
    attention = Attention(heads, activation, dropout, bias=biased, rotary=positions)
    feed_forward = FeedForward(
        config.intermediate_size, config.hidden_act, gated=True, bias=False, dropout=inner_dropout, output_bias=biased or None
    )
    return replace(
        bert,
        embedding=replace(bert.embedding, positions=positions, normalised_first=True),
        blocks=tuple(replace(block, attention=attention, feed_forward=feed_forward) for block in bert.blocks),
    )


def with_rotary_values(
    values: Mapping[str, Any],
    config: type[RotaryBertConfig],
    where: Any,
    *,
    theta: float,
    kinds: tuple[str, ...] = ("linear",),
) -> dict[str, Any]:
    """The values of a config.json, with `rope_theta` and `rope_factor` for every spelling of rotary positions.

    Type "linear" divides positions by `factor`. Type "ntk" of GTE's own code multiplies the base by `factor` and divides positions
    by factor^(2 / head width), at every length.

    Args:
        values: the dictionary in the file.
        config: the config class, with defaults for sizes that are missing in the file.
        where: the file, for errors.
        theta: the base if the file gives none.
        kinds: the types that the family supports besides "default".

    Raises:
        ValueError: rotary positions of another kind, or a head width other than hidden_size / num_attention_heads.
    """
    values = dict(values)
    spellings = [values.pop(key, None) or {} for key in ("rope_scaling", "rope_parameters")]
    if any(not isinstance(each, dict) for each in spellings) or (all(spellings) and spellings[0] != spellings[1]):
        raise ValueError(f"{where}: rope_parameters must be an object, and rope_scaling equal or missing; got {spellings!r:.80}.")
    rotary = spellings[0] or spellings[1]
    sizes = [values.get(key) or getattr(config, key) for key in ("hidden_size", "num_attention_heads")]
    are_sizes = all(type(size) is int and size > 0 for size in sizes)
    if values.get("head_dim") is not None and (not are_sizes or sizes[0] != values["head_dim"] * sizes[1]):
        raise ValueError(f"{where}: head_dim must be hidden_size / num_attention_heads; got {values['head_dim']!r:.80}.")
    kind, factor = rotary.get("rope_type", rotary.get("type", "default")), rotary.get("factor", 1)
    base = next((each for each in (rotary.get("rope_theta"), values.get("rope_theta")) if each is not None), theta)
    unread = {key: value for key, value in rotary.items() if key not in ("rope_type", "type", "rope_theta", "factor")}
    unread = {key: value for key, value in unread.items() if value is not None and (key, value) != ("partial_rotary_factor", 1)}
    most = MAX_FACTOR if kind in kinds else 1 if kind == "default" else 0
    if unread or not is_number(factor) or not 1 <= factor <= most:
        raise ValueError(
            f"{where}: rotary positions must have the type default, or {' or '.join(kinds)} with a factor of at least 1, and no other "
            f"settings; got {rotary!r:.120}."
        )
    if kind == "ntk" and are_sizes and is_number(base):
        base, factor = base * factor, factor ** (2 * sizes[1] / sizes[0])
    return {**values, "rope_theta": base, "rope_factor": factor}


def rotary_keys(config: RotaryBertConfig) -> dict[str, Any]:
    """The keys of config.json for rotary positions.

    Args:
        config: its config.
    """
    scaled = {"rope_type": "default"} if config.rope_factor == 1 else {"rope_type": "linear", "factor": config.rope_factor}
    return {"rope_parameters": {**scaled, "rope_theta": config.rope_theta}, "tie_word_embeddings": True}
