"""Additional files that make a Hugging Face folder a sentence-transformers model for text vectors: name to bytes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from safetensors.numpy import save

from keras_bert_rebuild.pretrained.sentence_modules import ACTIVATIONS, DenseModule, NormModule, ResidualModule, UnitModule

# Poolings of `SentenceEmbedder`, in the order in which sentence-transformers concatenates them, to the key up to version 5 and the
# name in version 6.
POOLING_NAMES = {
    "cls": ("pooling_mode_cls_token", "cls"),
    "max": ("pooling_mode_max_tokens", "max"),
    "mean": ("pooling_mode_mean_tokens", "mean"),
    "mean_sqrt_len": ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    "weightedmean": ("pooling_mode_weightedmean_tokens", "weightedmean"),
    "lasttoken": ("pooling_mode_lasttoken", "lasttoken"),
}

# The keys that all versions support.
FIRST_KEYS = 4

# Names of torch's activations in modules.
TORCH_MODULES = {"Identity": "torch.nn.modules.linear"}

# The output of the first module, for modules that process token vectors.
TOKENS = "token_embeddings"


def dense_files(
    hidden_size: int,
    max_len: int,
    *,
    poolings: Sequence[str] = ("mean",),
    modules: Iterable[Any] = (),
    normalize: bool = True,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    include_prompt: bool = True,
    truncate_dim: int | None = None,
    measure: str = "cosine",
) -> dict[str, bytes]:
    """The files of a `SentenceTransformer`, for versions 2 to 6.

    Args:
        hidden_size: width of token vectors.
        max_len: maximum number of tokens of a text.
        poolings, normalize, prompts, default_prompt, include_prompt, truncate_dim, measure: see `SentenceEmbedder`.
        modules: `DenseModule`, `ResidualModule`, `NormModule` or `UnitModule`.
    """
    later = [*modules, *([UnitModule()] if normalize else [])]
    named = [("Transformer", "", {}), ("Pooling", "1_Pooling", pooling_files(hidden_size, poolings, include_prompt))]
    named += [(kind_of(module), f"{i}_{kind_of(module)}", module_files(module)) for i, module in enumerate(later, 2)]
    settings = {"similarity_fn_name": measure, **({} if truncate_dim is None else {"truncate_dim": truncate_dim})}
    return {
        **folder_files("SentenceTransformer", named, prompts, default_prompt, settings),
        **transformer_files(max_len),
    }


def folder_files(
    model_type: str,
    modules: Iterable[tuple[str, str, Mapping[str, bytes]]],
    prompts: Mapping[str, str] | None,
    default_prompt: str | None,
    settings: Mapping[str, Any],
) -> dict[str, bytes]:
    """modules.json with the files of the modules, and config_sentence_transformers.json.

    Args:
        model_type: the class of sentence-transformers.
        modules: class, folder and files of every module, in order.
        prompts, default_prompt: texts by name, and the name of the default one.
        settings: other settings of the class.
    """
    files: dict[str, bytes] = {}
    listed = []
    for index, (kind, folder, content) in enumerate(modules):
        # The import path of the classes up to version 5, which version 6 also accepts.
        package = "sparse_encoder" if kind == "SpladePooling" else "models"
        package = "multi_vector_encoder.modules" if kind == "MultiVectorMask" else package
        where = "sparse_encoder.models" if package == "sparse_encoder" else package
        listed.append({"idx": index, "name": str(index), "path": folder, "type": f"sentence_transformers.{where}.{kind}"})
        files |= {f"{folder}/{name}": data for name, data in content.items()}
    named = {"query": "", "document": "", **(prompts or {})}
    values = {"model_type": model_type, "prompts": named, "default_prompt_name": default_prompt, **settings}
    return {"modules.json": json_bytes(listed), "config_sentence_transformers.json": json_bytes(values), **files}


def transformer_files(max_len: int | None, **settings: Any) -> dict[str, bytes]:
    """The settings of the first module, which is the folder itself; `max_seq_length` is the maximum length in all versions."""
    limit = {} if max_len is None else {"max_seq_length": max_len}
    return {"sentence_bert_config.json": json_bytes({**limit, "do_lower_case": False, **settings})}


def pooling_files(hidden_size: int, poolings: Sequence[str], include_prompt: bool) -> dict[str, bytes]:
    """The settings of a `Pooling`, with the keys of old versions where possible, which version 6 also reads."""
    values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    for number, (name, (key, _)) in enumerate(POOLING_NAMES.items()):
        if number < FIRST_KEYS or name in poolings:
            values[key] = name in poolings
    if list(poolings) != [name for name in POOLING_NAMES if name in poolings]:  # an order that only version 6 supports
        values = {"embedding_dimension": hidden_size, "pooling_mode": [POOLING_NAMES[name][1] for name in poolings]}
    return {"config.json": json_bytes({**values, **({} if include_prompt else {"include_prompt": False})})}


def kind_of(module: Any) -> str:
    """The name of a module's class in sentence-transformers."""
    return {DenseModule: "Dense", ResidualModule: "Dense", NormModule: "LayerNorm", UnitModule: "Normalize"}[type(module)]


def module_files(module: Any, of: str | None = None) -> dict[str, bytes]:
    """The settings and weights of a module.

    Args:
        module: a `DenseModule`, `ResidualModule`, `NormModule` or `UnitModule`.
        of: its input and output, such as `TOKENS`; None for the vector of a text.
    """
    names = {} if of is None else {"module_input_name": of, "module_output_name": of}
    if isinstance(module, UnitModule):
        return {"config.json": json_bytes(names)} if names else {}
    if isinstance(module, NormModule):
        weights = save({"norm.weight": module.gamma, "norm.bias": module.beta})
        return {"config.json": json_bytes({"dimension": len(module.gamma)}), "model.safetensors": weights}
    width, units = module.kernel.shape
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == module.activation)
    values = {
        "in_features": width,
        "out_features": units,
        "bias": module.bias is not None,
        "activation_function": torch_name(activation),
        **({"use_residual": True} if isinstance(module, ResidualModule) else {}),
        **names,
    }
    arrays = {"linear.weight": module.kernel.T.copy(), **({} if module.bias is None else {"linear.bias": module.bias})}
    if getattr(module, "shortcut", None) is not None:
        arrays["residual.weight"] = module.shortcut.T.copy()
    return {"config.json": json_bytes(values), "model.safetensors": save(arrays)}


def torch_name(activation: str) -> str:
    """The full name of an activation's class in torch."""
    return f"{TORCH_MODULES.get(activation, 'torch.nn.modules.activation')}.{activation}"


def json_bytes(values: Any) -> bytes:
    """Plain values as JSON."""
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
