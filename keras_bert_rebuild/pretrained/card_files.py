"""The card of a folder: written with a model, and read for the card of what is made from it.

A README.md that someone else wrote, or a card that was changed, is never overwritten.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.hub import CARD, NAME, origin_of
from keras_bert_rebuild.files.kinds import TOKENIZER_NAMES
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.reading import json_object, read_text
from keras_bert_rebuild.files.yaml_files import parse_yaml
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.model_card import Card, Training, card_text, is_unchanged
from keras_bert_rebuild.pretrained.sentence_transformers_folder import SETTINGS

_FRONT = re.compile(r"\A\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
# Results of others may have thousands of lines, which are not read.
_RESULTS = re.compile(r"^model-index:.*?(?=^[A-Za-z]|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[\w.+-]{1,64}")


def write_card(
    folder: Path, model: Any, config: Any = None, *, base: Any = None, training: Training | None = None, replaced: Any = None
) -> None:
    """Write the card of a model into its folder, unless the folder has a README.md that is not an unchanged card.

    Args:
        folder: a folder with the model, complete but for the card.
        model: the model.
        config: its `BertConfig`; None for that of the model.
        base: metadata of the model that it was made from; None for what its `load_report` has.
        training: how it was trained; None if that is not known.
        replaced: the folder that this one replaces, whose README.md counts; None for the folder itself.
    """
    earlier = Path(replaced or folder) / CARD
    if os.path.lexists(earlier) and not is_unchanged_card(earlier):
        return
    base = getattr(getattr(model, "load_report", None), "base", {}) if base is None else base
    card = describe(Path(folder), model, config or model.config, base)
    write_text(Path(folder) / CARD, card_text(dataclasses.replace(card, training=training or Training())), claimed=True)


def describe(folder: Path, model: Any, config: Any, base: Mapping[str, Any]) -> Card:
    """The `Card` of a model and the folder that it was saved to, without its training."""
    values, names = json_object(folder / "config.json"), set(os.listdir(folder))
    sentence = json_object(folder / SETTINGS).get("model_type", "")
    library, loaded_by = "keras_bert_rebuild", ""
    if sentence:
        library, loaded_by = "sentence-transformers", sentence
    elif values and not values.get("crf"):  # transformers would leave out the transitions
        library, loaded_by = "transformers", values["architectures"][0]
    elif "model.keras" in names:
        library = "keras"
    kind = json_object(folder / "task.json").get("task", "")
    sizes = {
        "parameters": model.count_params(),
        "blocks": config.num_hidden_layers,
        "width": config.hidden_size,
        "attention heads": config.num_attention_heads,
        "tokens of the vocabulary": config.vocab_size,
        "tokens of the longest row": config.max_length,
    }
    return Card(
        family=config.family,
        kind=kind,
        heads=tuple(heads_of(model)),
        sizes=sizes,
        labels=tuple(config.labels) if kind in ("classification", "token_classification") else (),
        tokenizer=not names.isdisjoint(TOKENIZER_NAMES),
        library=library,
        loaded_by=loaded_by,
        base=base,
    )


def is_unchanged_card(path: Path) -> bool:
    """Whether a README.md is a card that `card_text` made and nobody has changed."""
    try:
        return is_unchanged(read_text(path, "yaml_bytes"))
    except (ValueError, OSError):
        return False


def base_of(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What the card of a model that is made from the one in a folder says of it, as far as it is known.

    Returns:
        Metadata of the hub. Of a folder of the hub's cache: its name as `base_model`, its commit as `base_model_revision`, and of
        its card `language` and `license`. Of another folder: these and `datasets`, as its card has them.
    """
    values = _front_of(Path(folder) / CARD)
    base = {name: values[name] for name in ("language", "license", "datasets") if _are_words(values.get(name), name)}
    origin = origin_of(folder)
    if origin is not None:
        base.pop("datasets", None)
        return {**base, "base_model": origin.repository, "base_model_revision": origin.commit}
    name, commit = values.get("base_model"), values.get("base_model_revision")
    if isinstance(name, str) and NAME.fullmatch(name):
        base["base_model"] = name
        if isinstance(commit, str) and _WORD.fullmatch(commit):
            base["base_model_revision"] = commit
    return base


def _front_of(path):
    """The metadata of a README.md without results; empty if it has none that can be read."""
    try:
        front = _FRONT.match(read_text(path, "yaml_bytes"))
        text = _RESULTS.sub("", front[1]) if front else ""
        check_limit("settings_bytes", len(text), str(path))
        values = parse_yaml(text, path)
    except (ValueError, OSError):  # the model can be loaded whatever its README.md is
        return {}
    return values if isinstance(values, dict) else {}


def _are_words(value, name):
    words = value if isinstance(value, list) else [value]
    pattern = NAME if name == "datasets" else _WORD
    return bool(words) and all(isinstance(word, str) and pattern.fullmatch(word) for word in words)
