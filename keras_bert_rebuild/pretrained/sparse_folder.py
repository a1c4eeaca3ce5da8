"""A sentence-transformers folder for sparse vectors (SPLADE), as the settings of a `SparseEmbedder`."""

from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import value_of
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    SETTINGS,
    Module,
    first_settings,
    folder_prompts,
    folder_settings,
    longest_text,
)

POOLINGS = ("max", "sum")

# Name in the folder of the function from logit to weight, to ours: log(1 + relu(x)), and log(1 + log(1 + relu(x))).
ACTIVATIONS = {"relu": "log1p_relu", "log1p_relu": "log1p_log1p_relu"}


def sparse_settings(path: Path, modules: list[Module]) -> tuple[dict[str, Any], bool]:
    """The settings of a `SparseEmbedder`, and whether texts are always lower-cased: see `dense_settings`."""
    kinds = [module.kind for module in modules]
    if kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
        raise ValueError(f"{path / MODULES} must name the modules Transformer and SpladePooling; got {', '.join(kinds)}.")
    folder = modules[0].folder
    # Before version 5.4 the first module was a class for masked language models only.
    first = first_settings(folder, ("fill-mask",) if kinds[0] == "Transformer" else (None, "fill-mask"))
    file = modules[1].folder / "config.json"
    pooled = read_json(file, "the pooling of sentence-transformers")
    pooling = value_of(pooled, "pooling_strategy", str, file, "max")
    activation = value_of(pooled, "activation_function", str, file, "relu")
    if pooling not in POOLINGS or activation not in ACTIVATIONS:
        raise ValueError(
            f"{file} must have a pooling_strategy of {' or '.join(POOLINGS)} and an activation_function of "
            f"{' or '.join(ACTIVATIONS)}; got {pooling!r:.80} and {activation!r:.80}."
        )
    values = folder_settings(path)
    if values.get("similarity_fn_name") not in (None, "dot"):
        raise ValueError(f"{path / SETTINGS} must have similarity_fn_name dot; got {values['similarity_fn_name']!r:.80}.")
    prompts, default = folder_prompts(values, path / SETTINGS)
    settings = {
        "pooling": pooling,
        "activation": ACTIVATIONS[activation],
        "prompts": prompts,
        "default_prompt": default,
        "max_active": value_of(values, "max_active_dims", int, path / SETTINGS),
        "truncate": True,
        "max_len": longest_text(first, folder),
    }
    return settings, bool(first.get("do_lower_case"))
