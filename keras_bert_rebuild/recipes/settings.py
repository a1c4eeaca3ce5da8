"""Settings as frozen dataclasses: how they are read from plain values and checked; phases of a run, and sizes of a new model."""

import difflib
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import numpy as np

from keras_bert_rebuild.config import CONFIG_CLASSES, BertConfig
from keras_bert_rebuild.families import electra, transformer, xlnet
from keras_bert_rebuild.files.limits import check_limit, is_number
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, read_json


def settings_from_dict(cls, values, what):
    """Settings from plain values.

    Args:
        cls: a dataclass, which checks its values.
        values: a dictionary by the names of its fields.
        what: what the settings configure, for the error, such as "a pretraining run".

    Raises:
        ValueError: the values are no dictionary, or a name is unknown; the error lists the nearest known ones.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"expected settings of {what}, by name; got {values!r:.80}.")
    names = [field.name for field in fields(cls)]
    unknown = [name for name in values if name not in names]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), names, n=2)
        hint = f"; did you mean {' or '.join(near)}" if near else ""
        raise ValueError(f"expected settings of {what}; got {', '.join(map(str, unknown))}{hint}.")
    # YAML 1.1 reads 1e-4, without a point, as a word.
    numbers_of = {field.name for field in fields(cls) if field.type in (float, float | None)}
    return cls(**{name: _as_number(value) if name in numbers_of else value for name, value in values.items()})


def plain(value):
    """A value, with everything nested in it, as YAML would read it back: tuples as lists, paths as strings, no NumPy numbers."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _as_number(value):
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def setting(default: Any = MISSING, **rules: Any) -> Any:
    """A field of settings, with rules for its values besides the type.

    Args:
        default: its default.
        **rules: `least` and `most`, or `above`, for a number; `choices`, a tuple or a function that returns one; `each`, for a
            list, the minimum of its whole numbers, or None for any; `accepts`, a function of the value that returns whether it is
            allowed; and `words`, which replace the description of allowed values in the error. Others are for those who read them.
    """
    return field(default=default, metadata=rules)


def check_settings(settings):
    """Refuse a field with a value that its type or its rules do not allow, and make tuples of lists.

    Args:
        settings: a dataclass, whose fields may be `setting`s.

    Raises:
        ValueError: there is one; the error says what is expected.
    """
    for one in fields(settings):
        value, kinds = getattr(settings, one.name), _kinds(one.type)
        if value is None and NoneType in get_args(one.type):
            continue
        expected = _expected(value, kinds, one.metadata)
        if expected is not None:
            raise ValueError(f"{one.name} must be {one.metadata.get('words', expected)}; got {value!r:.80}.")
        if kinds == [Sequence]:
            object.__setattr__(settings, one.name, tuple(value))


def _kinds(annotation):
    """The types of an annotation, without None."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return [get_origin(kind) or kind for kind in kinds if kind is not NoneType]


def _expected(value, kinds, rules):
    """What a value should have been, for the error; None if it is that."""
    if "accepts" in rules:
        return None if rules["accepts"](value) else "other"
    if "choices" in rules or kinds == [bool]:
        choices = rules.get("choices", (True, False))
        choices = choices() if callable(choices) else choices
        return None if value in choices else f"one of {', '.join(map(repr, choices))}"
    if kinds == [int]:
        least = rules["least"]
        return None if is_whole(value) and value >= least else f"a whole number of at least {least}"
    if kinds == [float]:
        words, holds = _limits(rules)
        return None if is_number(value) and holds(value) else words
    if kinds == [str]:
        return None if isinstance(value, (str, os.PathLike)) else "a text"
    if kinds == [Mapping]:
        return None if isinstance(value, Mapping) else "values by name"
    if kinds == [Sequence]:
        if not isinstance(value, (list, tuple)):
            return "a list"
        if "each" in rules and not all(is_whole(item) and (rules["each"] is None or item >= rules["each"]) for item in value):
            return "whole numbers" if rules["each"] is None else f"whole numbers of at least {rules['each']}"
    return None


def is_whole(value):
    """Whether a value is a whole number, of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _limits(rules):
    """The limits of a number as text, and as a function."""
    if "above" in rules:
        return f"a number above {rules['above']}", lambda value: value > rules["above"]
    low, high = rules.get("least", 0 if "most" in rules else -math.inf), rules.get("most", math.inf)
    words = f" from {low} to {high}" if "most" in rules else f" of at least {low}" if "least" in rules else ""
    return f"a number{words}", lambda value: low <= value <= high


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of a run in which all examples have the same maximum length."""

    steps: int = setting(least=1)
    """Optimizer steps."""

    batch_size: int = setting(least=1)
    """Examples per optimizer step, of all micro-batches together."""

    seq_len: int = setting(least=5)
    """Tokens of an example, special ones included."""

    max_predictions: int | None = setting(None, least=1)
    """Maximum number of positions to predict in an example; None: as many as the mask rate of the run needs."""

    def __post_init__(self):
        check_settings(self)
        check_limit("max_position_embeddings", self.seq_len, "seq_len")

    def with_predictions(self, mask_rate):
        """The phase with `max_predictions` filled in: the given number, or one that masking at this rate never exceeds.

        The mask rate times the number of tokens, special ones excluded, is masked, rounded. A whole word or a span may exceed that
        number where it is small, hence one more.
        """
        if self.max_predictions is not None:
            return self
        return replace(self, max_predictions=min(math.ceil(mask_rate * self.seq_len) + 1, self.seq_len))


def as_phase(phase, index):
    """A `Phase`, from one or from its fields.

    Raises:
        ValueError: fields are missing or unknown, or a number is out of range.
    """
    if isinstance(phase, Phase):
        return phase
    names = {f.name for f in fields(Phase)}
    if not isinstance(phase, dict) or set(phase) - names or not {"steps", "batch_size", "seq_len"} <= set(phase):
        expected = "steps, batch_size and seq_len, and may have max_predictions"
        raise ValueError(f"a phase must have {expected}; phase {index} is {phase!r:.80}.")
    return Phase(**phase)


# Sizes by name. Reference: Devlin et al., 2019, section 3; Turc et al., 2019, table 1 (https://arxiv.org/abs/1908.08962);
# Vaswani et al., 2017, table 3, for those of the Transformer; Clark et al., 2020, table 6, for the discriminators of ELECTRA;
# Yang et al., 2019, appendix A.4, for XLNet.
SIZES = {
    name: {"num_hidden_layers": blocks, "hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    for name, blocks, width in (
        ("tiny", 2, 128),
        ("mini", 4, 256),
        ("small", 4, 512),
        ("medium", 8, 512),
        ("base", 12, 768),
        ("large", 24, 1024),
    )
}
SIZES |= {name: {"family": "transformer", **sizes} for name, sizes, _ in transformer.SIZES}
SIZES |= {
    name.removesuffix("-discriminator"): {"family": "electra", **electra.DEFAULTS, **sizes}
    for name, sizes, _ in electra.SIZES
    if name.endswith("-discriminator")
}
SIZES |= {name.removesuffix("-cased"): {"family": "xlnet", **sizes} for name, sizes, _ in reversed(xlnet.SIZES)}


def size_fields(model):
    """The fields of a `BertConfig` that define the size of a model.

    Args:
        model: the name of a size, the path of a config.json, or such fields.

    Raises:
        ValueError: the size, the file or a field does not exist, or a field has an invalid value.
    """
    if isinstance(model, Mapping):
        fields = CONFIG_CLASSES.get(str(model.get("family")), BertConfig).__dataclass_fields__
        unknown = [name for name in model if name not in fields]
        if unknown:
            raise ValueError(f"the model must have fields of a BertConfig; got {', '.join(map(str, unknown))}.")
        BertConfig.from_dict(model)
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise ValueError(f"the model must be a size, the path of a config file or fields of a BertConfig; got {model!r:.80}.")
    if model in SIZES:
        return SIZES[model]
    values = read_json(model, f"one of the sizes {', '.join(SIZES)}, or the config file of a model,")
    read = config_from_huggingface if "model_type" in values else config_from_google
    return read(values, model).to_dict()
