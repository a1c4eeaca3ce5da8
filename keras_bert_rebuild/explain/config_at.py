"""The config that `keras-bert explain` explains: by the name of a released model, or from a config file or checkpoint."""

from pathlib import Path

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import FAMILIES, WITHOUT_FILES, derived, own
from keras_bert_rebuild.files.hub import located
from keras_bert_rebuild.models.heads import without_implied
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, heads_of_class, read_json
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

# The model of the article "Understanding BERT architecture".
ARTICLE = BertConfig(vocab_size=30000)

# Config files that are read if no weights are next to them.
CONFIG_FILES = ("config.json", "bert_config.json")


def released():
    """Released models and the sizes in papers: name to `(config, heads)`, where heads is the pooler or empty."""
    configs = {}
    for module in dict.fromkeys(FAMILIES.values()):
        heads = ("pooler",) if "pooler" in module.HUGGINGFACE.heads else ()
        for name, changes, _ in module.SIZES:
            family = max(
                (model_type for model_type in module.MODEL_TYPES if name.startswith(model_type)),
                key=len,
                default=next(iter(module.MODEL_TYPES)),
            )
            configs[name] = derived(BertConfig.from_dict({"family": family, **own(module, "DEFAULTS"), **changes})), heads
    for module in WITHOUT_FILES:
        configs |= {name: (BertConfig.from_dict({"family": module.FAMILY, **changes}), ()) for name, changes, _ in module.SIZES}
    return configs


def config_at(path=None):
    """A config and its heads, without reading weights; for a Keras file of this library, the model itself.

    Args:
        path: the name of a released model, a config file, or a path or name for `from_pretrained`; None for the article's model.

    Returns:
        `(config, heads)`, or `(model, None)`.

    Raises:
        ValueError: the path does not exist or cannot be read.
    """
    if path is None:
        return ARTICLE, ("mlm", "nsp")
    names = released()
    if str(path) in names and not Path(path).exists():
        return names[str(path)]
    path = located(path, weights=False)
    file = _config_file(path)
    if file is not None:
        values = read_json(file, "a config")
        if "model_type" in values or file.name == "config.json":
            return config_from_huggingface(values, file), heads_of_class(values) or ()
        return config_from_google(values, file), ("mlm", "nsp")
    if not path.exists() and not Path(f"{path}.index").exists():
        raise ValueError(f"expected a folder, a file, or one of {', '.join(names)}; {path} does not exist.")
    checkpoint = find_checkpoint(path)
    if checkpoint.config is None:
        from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained

        return from_pretrained(path), None
    return checkpoint.config, without_implied(checkpoint.heads)


def _config_file(path):
    """The config file at a path or in a folder without weights; else None."""
    if path.suffix == ".json" and not path.name.endswith(".index.json"):
        return path
    if not path.is_dir():
        return None
    weights = [file for pattern in ("*.safetensors*", "*.bin", "*.h5", "*.index", "*.keras") for file in path.glob(pattern)]
    files = [path / name for name in CONFIG_FILES if (path / name).is_file()]
    return files[0] if files and not weights else None
