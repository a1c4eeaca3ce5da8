"""Settings: frozen dataclasses from and to YAML, the phases of a pretraining run, and the sizes of a new model.

The YAML may be untrusted: plain values, bounded, without anchors, and with errors of one sentence.
"""

import difflib
import math
import numbers
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import yaml

from keras_bert_rebuild.config import CONFIG_CLASSES, BertConfig
from keras_bert_rebuild.families import electra, transformer, xlnet
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
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


# The minimum of every whole number.
MINIMUMS = {"steps": 1, "batch_size": 1, "seq_len": 5, "max_predictions": 1}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of a run in which all examples have the same maximum length."""

    steps: int
    """Optimizer steps."""

    batch_size: int
    """Examples per optimizer step, of all micro-batches together."""

    seq_len: int
    """Tokens of an example, special ones included."""

    max_predictions: int | None = None
    """Maximum number of positions to predict in an example; None: as many as the mask rate of the run needs."""

    def __post_init__(self):
        check_whole_numbers(self, MINIMUMS, optional=("max_predictions",))
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


def check_whole_numbers(settings, minimums, optional=()):
    """Refuse fields that are not whole numbers or below their minimum; optional ones may be None."""
    for name, low in minimums.items():
        value = getattr(settings, name)
        if value is None and name in optional:
            continue
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name} must be a whole number of at least {low}; got {value!r:.80}.")


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
        known = CONFIG_CLASSES.get(str(model.get("family")), BertConfig).__dataclass_fields__
        unknown = [name for name in model if name not in known]
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


# The loader in C is ten times as fast; both load only plain values.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The loader in C refuses lone surrogates, which names of files that are not UTF-8 contain.
HALF = re.compile(r"\\u[dD][89a-fA-F]")
SLOWLY_CHARACTERS = 1 << 16


def parse_yaml(text, where):
    """The value of a YAML text: numbers, strings, lists and dictionaries.

    Args:
        text: a string.
        where: the file, for errors.

    Raises:
        ValueError: it is not YAML, is nested too deeply, or has an anchor or alias, which could expand to a billion values.
    """
    loader = yaml.SafeLoader if len(text) <= SLOWLY_CHARACTERS and HALF.search(text) else LOADER
    try:
        _check_events(text, loader, where)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{printable(where)} must be YAML in UTF-8: {printable(' '.join(str(error).split()))}.") from None
    except (ValueError, OverflowError, RecursionError) as error:  # a number of thousands of digits, a thirteenth month
        raise ValueError(f"{printable(where)} must be YAML with plain values: {printable(error)}") from None


def _check_events(text, loader, where):
    """Refuse anchors, aliases and too deeply nested values before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.YAMLError(f"anchors and aliases are not read, and line {event.start_mark.line + 1} has {event.anchor!r}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            check_limit("yaml_depth", depth, f"{printable(where)}, from the outermost value to the innermost,")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
