"""Folders of sentence-transformers: which vectors of a model's tokens make the vector of a text."""

from dataclasses import dataclass
from pathlib import Path

from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.text.json_file import parsed_json

# Key of 1_Pooling/config.json, name of the pooling here; joined in this order.
POOLINGS = (
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
)
MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class SentencePooling:
    """What a folder of sentence-transformers says besides the weights."""

    folder: Path
    """Where the weights and the tokenizer are."""

    poolings: tuple
    """Names of poolings, joined in that order."""

    normalize: bool
    """Whether vectors are scaled to length 1."""

    max_len: int | None
    """Tokens of a text at the most; None where the folder does not say."""


def read_sentence_pooling(path):
    """Read modules.json and what it names, or the task.json of a `SentenceEmbedder`.

    Args:
        path: the folder.

    Returns:
        A `SentencePooling`; None where neither is there.

    Raises:
        ValueError: a module or a pooling that is not known here.
    """
    path = Path(path)
    if not (path / "modules.json").is_file():
        return _of_task(path)
    modules = _modules(path / "modules.json")
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if kinds not in (list(MODULES[:2]), list(MODULES)):
        raise ValueError(f"{path / 'modules.json'} must name the modules {', '.join(MODULES)}, the last one if any; got {kinds}.")
    places = dict(zip(kinds, (_inside(path, module.get("path", "")) for module in modules), strict=True))
    limits = places["Transformer"] / "sentence_bert_config.json"
    max_len = read_json(limits, "the limits of a text").get("max_seq_length") if limits.is_file() else None
    return SentencePooling(places["Transformer"], _poolings(places["Pooling"] / "config.json"), "Normalize" in kinds, max_len)


def _of_task(path):
    values = read_json(path / "task.json", "the settings of a task") if (path / "task.json").is_file() else {}
    return SentencePooling(path, ("mean",), True, values.get("max_len")) if values.get("task") == "embedding" else None


def _modules(file):
    modules = parsed_json(file)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ValueError(f"{file} must hold a list of modules; got {type(modules).__name__}.")
    return modules


def _poolings(file):
    values = read_json(file, "the pooling of sentence-transformers")
    if "pooling_mode" in values and not any(key.startswith("pooling_mode_") for key in values):
        named = values["pooling_mode"] if isinstance(values["pooling_mode"], list) else [values["pooling_mode"]]
    else:
        known = dict(POOLINGS)
        named = [known.get(key, key) for key, value in values.items() if key.startswith("pooling_mode_") and value is True]
    names = [name for _, name in POOLINGS]
    unknown = [name for name in named if name not in names]
    if unknown or not named:
        raise ValueError(f"{file} must choose some of {', '.join(key for key, _ in POOLINGS)}; got {', '.join(unknown) or 'none'}.")
    return tuple(name for name in names if name in named)


def _inside(folder, name):
    """A folder of a module, which must not lie elsewhere."""
    place = folder / name
    if not place.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the modules of {folder} must lie in it; got {name!r}.")
    return place
