"""What `keras-bert explain` is to explain: a released model by its name, a config file, or a checkpoint."""

from pathlib import Path

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.models.heads import without_implied
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, heads_of_class, read_json
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

# The model of the article "Understanding BERT architecture".
ARTICLE = BertConfig(vocab_size=30000)

# Config files that are enough where no weights lie beside them.
CONFIG_FILES = ("config.json", "bert_config.json")


def released():
    """The released models: name to `(config, heads)`, the encoder with its pooler where it has one."""
    found = {}
    for module in dict.fromkeys(FAMILIES.values()):
        heads = ("pooler",) if "pooler" in module.HUGGINGFACE.heads else ()
        for name, changes, _ in module.SIZES:
            family = max(
                (word for word in module.MODEL_TYPES if name.startswith(word)), key=len, default=next(iter(module.MODEL_TYPES))
            )
            config = BertConfig(family=family, **{**module.DEFAULTS, **changes})
            found[name] = config.replace(**{field: derive(config.to_dict()) for field, derive in module.DERIVED.items()}), heads
    return found


def config_at(path=None):
    """A config and its heads, without reading weights; for a Keras file of this library the model, whose config is in it.

    Args:
        path: the name of a released model, a config file, or what `from_pretrained` reads; None for the model of the article.

    Returns:
        `(config, heads)`, or `(model, None)`.

    Raises:
        ValueError: nothing is there, or what is there cannot be read.
    """
    if path is None:
        return ARTICLE, ("mlm", "nsp")
    names = released()
    if str(path) in names and not Path(path).exists():
        return names[str(path)]
    file = _config_file(Path(path))
    if file is not None:
        values = read_json(file, "a config")
        if "model_type" in values or file.name == "config.json":
            return config_from_huggingface(values, file), heads_of_class(values) or ()
        return config_from_google(values, file), ("mlm", "nsp")
    if not Path(path).exists() and not Path(f"{path}.index").exists():
        raise ValueError(f"expected a folder, a file, or one of {', '.join(names)}; {path} does not exist.")
    checkpoint = find_checkpoint(path)
    if checkpoint.config is None:
        from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained

        return from_pretrained(path), None
    return checkpoint.config, without_implied(checkpoint.heads)


def _config_file(path):
    """A path that is a config file, or the one in a folder that holds no weights; else None."""
    if path.suffix == ".json" and not path.name.endswith(".index.json"):
        return path
    if not path.is_dir():
        return None
    weights = [file for pattern in ("*.safetensors*", "*.bin", "*.h5", "*.index", "*.keras") for file in path.glob(pattern)]
    files = [path / name for name in CONFIG_FILES if (path / name).is_file()]
    return files[0] if files and not weights else None
