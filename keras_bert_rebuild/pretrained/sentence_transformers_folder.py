"""Folders of sentence-transformers 6: pooling, then dense layers, norms and unit length, or a refusal in one sentence."""

from dataclasses import dataclass
from pathlib import Path

from keras_bert_rebuild.files.json_text import parsed_json
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule, read_module

# Older key of 1_Pooling/config.json and name of the pooling there and here; several are concatenated in this order.
OLD_KEYS = (
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
)
POOLINGS = ("cls", "max", "mean")

# Names of the file with the limits; the first one that exists is used.
LIMITS = tuple(
    f"sentence_{family}_config.json" for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta")
)

# Settings of the first module that change what it computes, and their allowed values.
PLAIN: tuple = (
    ("transformer_task", (None, "feature-extraction")),
    ("module_output_name", (None, "token_embeddings")),
    ("tokenizer_name_or_path", (None,)),
    ("processing_kwargs", (None, {})),
    ("query_expansion", (None,)),
    *((key, (None, {})) for what in ("model", "tokenizer", "processor", "config") for key in (f"{what}_args", f"{what}_kwargs")),
)


@dataclass(frozen=True)
class SentencePooling:
    """The settings of a folder of sentence-transformers."""

    folder: Path
    """Where the weights and the tokenizer are."""

    poolings: tuple
    """Names of poolings, concatenated in this order."""

    normalize: bool
    """Whether vectors are finally scaled to length 1."""

    max_len: int | None
    """Maximum tokens of a text; None if the folder does not set it."""

    modules: tuple = ()
    """The modules between pooling and unit length, each a `DenseModule`, `NormModule` or `UnitModule`."""

    prompt: str = ""
    """The text that is put before every text."""

    lower_case: bool = False
    """Whether the tokenizer must lower-case, whatever its own settings."""


def read_sentence_pooling(path):
    """Read modules.json and the modules that it names, or the task.json of a `SentenceEmbedder`.

    Args:
        path: the folder.

    Returns:
        A `SentencePooling`; None if neither exists.

    Raises:
        ValueError: a module, a pooling or a setting is not supported.
    """
    path = Path(path)
    if not (path / "modules.json").is_file():
        return _of_task(path)
    modules = _modules(path / "modules.json")
    kinds = [_kind(module, path) for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ValueError(f"{path / 'modules.json'} must name the modules Transformer and Pooling first; got {', '.join(kinds)}.")
    folder, pooling, *folders = (_inside(path, module.get("path", "")) for module in modules)
    further = [read_module(kind, inner) for kind, inner in zip(kinds[2:], folders, strict=True)]
    further = [module for module in further if module is not None]
    normalize = further[-1:] == [UnitModule()]
    limits = next((read_json(folder / name, "the limits of a text") for name in LIMITS if (folder / name).is_file()), {})
    _check_plain(limits, folder)
    poolings, include_prompt = _poolings(pooling / "config.json")
    prompt = _prompt(path / "config_sentence_transformers.json")
    if prompt and not include_prompt:
        raise ValueError(f"{pooling / 'config.json'} must have include_prompt true if there is a default prompt; got false.")
    return SentencePooling(
        folder,
        poolings,
        normalize,
        _max_len(limits, folder),
        tuple(further[:-1] if normalize else further),
        prompt,
        bool(limits.get("do_lower_case")),
    )


def check_case(pooling, tokenizer):
    """Refuse a cased tokenizer if the folder asks for lower case, which it does for its own tokenizer."""
    lowers = not getattr(tokenizer, "cased", True) or getattr(tokenizer, "lower", False)
    if pooling is not None and pooling.lower_case and not lowers:
        raise ValueError(f"{pooling.folder} has do_lower_case true; expected a tokenizer that lower-cases, but it is cased.")


def _of_task(path):
    values = read_json(path / "task.json", "the settings of a task") if (path / "task.json").is_file() else {}
    return SentencePooling(path, ("mean",), True, values.get("max_len")) if values.get("task") == "embedding" else None


def _modules(file):
    modules = parsed_json(file)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ValueError(f"{file} must hold a list of modules; got {type(modules).__name__}.")
    return modules


def _kind(module, path):
    kind = str(module.get("type", ""))
    if not kind.startswith("sentence_transformers."):
        raise ValueError(f"{path / 'modules.json'} must name modules of sentence_transformers; got {kind!r}.")
    return kind.rsplit(".", 1)[-1]


def _poolings(file):
    """The poolings in order, and whether the tokens of a prompt are pooled too."""
    values = read_json(file, "the pooling of sentence-transformers")
    if "pooling_mode" in values:
        named = values["pooling_mode"] if isinstance(values["pooling_mode"], list) else [values["pooling_mode"]]
    else:
        named = [name for key, name in OLD_KEYS if values.get(key)] or ["mean"]
    unknown = [str(name) for name in named if name not in POOLINGS]
    if unknown or not named or len(set(named)) < len(named):
        raise ValueError(
            f"{file} must choose some of {', '.join(POOLINGS)}, each once; got {', '.join(map(str, named)) or 'none'}."
        )
    return tuple(named), bool(values.get("include_prompt", True))


def _prompt(file):
    """The default prompt of the folder, which is put before every text."""
    values = read_json(file, "the settings of sentence-transformers") if file.is_file() else {}
    for key, plain in (("model_type", (None, "SentenceTransformer")), ("truncate_dim", (None,))):
        if values.get(key) not in plain:
            raise ValueError(f"{file} must have {key} {' or '.join(map(str, plain))}; got {values[key]!r}.")
    name, prompts = values.get("default_prompt_name"), values.get("prompts") or {}
    if name is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(name, str) or not isinstance(prompts.get(name) or "", str):
        raise ValueError(f"{file} must have prompts by name, including the default one; got {name!r:.80} and {prompts!r:.80}.")
    if name not in prompts and name not in ("query", "document"):  # these two always exist, and are empty
        raise ValueError(f"{file} must have the default prompt {name!r} among its prompts; it has {', '.join(prompts) or 'none'}.")
    return prompts.get(name) or ""


def _check_plain(limits, folder):
    other = [f"{key} must be {plain[-1]!r}, got {limits[key]!r:.80}" for key, plain in PLAIN if limits.get(key) not in plain]
    if other:
        raise ValueError(f"{folder} describes another computation of vectors: {'; '.join(other)}.")


def _max_len(limits, folder):
    """The limit of the file; without one that of the tokenizer, if the model has more positions."""
    limit = limits.get("max_seq_length")
    if limit is not None:
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise ValueError(f"{folder} must have a whole number as max_seq_length; got {limit!r:.80}.")
        return limit
    values = [
        read_json(folder / name, "a config") if (folder / name).is_file() else {}
        for name in ("tokenizer_config.json", "config.json")
    ]
    of_tokenizer, of_model = (of.get(key) for of, key in zip(values, ("model_max_length", "max_position_embeddings"), strict=True))
    if not isinstance(of_tokenizer, (int, float)) or (isinstance(of_model, int) and of_tokenizer >= of_model):
        return None
    return int(of_tokenizer)


def _inside(folder, name):
    """The folder of a module, which must be inside `folder`."""
    inner = folder / name
    if not inner.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the modules of {folder} must be inside it; got {name!r}.")
    return inner
