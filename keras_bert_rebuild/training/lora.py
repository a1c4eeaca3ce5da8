"""Low-rank adaptation (LoRA): small matrices are trained, and the kernels that they are added to are frozen.

The settings in a file of adapters are checked, because it may be untrusted.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from keras_bert_rebuild.anatomy.parts import adapted_patterns
from keras_bert_rebuild.checkpoints.safetensors_files import check_safetensors
from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import ADAPTERS
from keras_bert_rebuild.files.limits import check_limit, is_number, limit
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import parse_json
from keras_bert_rebuild.layers.arguments import CompositeLayer
from keras_bert_rebuild.layers.keras_layers import drawn_by_name
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.models.named_tensors import settings_of_inputs
from keras_bert_rebuild.training.optimizers.path_patterns import check_patterns, matches_any

KEYS = ("rank", "alpha", "patterns", "trained")

# Searching for a repeated group can take exponential time; a repeated character cannot.
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+?{]")
_REPETITION = re.compile(r"(?<!\\)[*+{]")


def checked_settings(settings, where):
    """The settings of a file of low-rank matrices, checked.

    Args:
        settings: the parsed JSON.
        where: the file, for errors.

    Raises:
        ValueError: rank or alpha is invalid, or matching a pattern could take extremely long.
    """
    if not isinstance(settings, dict) or set(settings) != set(KEYS):
        raise ValueError(f"{where} must have the settings {', '.join(KEYS)} of low-rank matrices; got {settings!r:.80}.")
    rank, alpha = settings["rank"], settings["alpha"]
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"{where} must have a whole number of at least 1 as rank; got {rank!r:.80}.")
    check_limit("hidden_size", rank, f"the rank in {where}")
    if alpha is not None and not (is_number(alpha) and 0 < alpha < 1e30):
        raise ValueError(f"{where} must have a number above 0 as alpha; got {alpha!r:.80}.")
    for name in ("patterns", "trained"):
        patterns = settings[name]
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise ValueError(f"{where} must have a list of regular expressions as {name}; got {patterns!r:.80}.")
        check_limit("patterns", len(patterns), f"{name} of {where}")
        for pattern in patterns:
            _check_pattern(pattern, where)
        check_patterns(name, patterns)
    return settings


def _check_pattern(pattern, where):
    check_limit("pattern_characters", len(pattern), f"a pattern of {where}")
    maximum = limit("pattern_repetitions")
    if _REPEATED_GROUP.search(pattern) or len(_REPETITION.findall(pattern)) > maximum:
        raise ValueError(
            f"{where} must have patterns that repeat no group and have at most {maximum} repetitions; got {printable(pattern)}: "
            "write several patterns instead."
        )


# The kernels of queries and values: Hu et al., 2022, section 7.1.
ADAPTED = adapted_patterns()

# Heads are newly initialised, so all their weights are trained: the last layers and the pooler.
TRAINED = ("^(NSP-Dense|Classification|Token-Classification|Token-Classification-CRF|Question-Answering)/",)

FORMAT = "keras_bert_rebuild.lora"


def add_lora(
    model: keras.Model,
    rank: int,
    alpha: float | None = None,
    *,
    patterns: Sequence[str] = ADAPTED,
    trained: Sequence[str] = TRAINED,
    seed: int = 0,
) -> None:
    """Add low-rank matrices to kernels of a model; call it before `compile`.

        kernel + (alpha / rank) · A · B        A: (inputs, rank), random        B: (rank, outputs), initially 0

    Afterwards only A, B and the variables in `trained` are trained. When Keras saves a model, it merges the matrices into the
    kernels, and a model loaded from such a file cannot be trained further: save the matrices with `save_lora`.

    Args:
        model: a `BertModel`.
        rank: columns of A; 4 to 16 suffice for most tasks.
        alpha: factor of the product; None for `rank`.
        patterns: regular expressions over the paths of kernels of dense layers.
        trained: regular expressions over the paths of further trained variables, by default the heads.
        seed: seed of A, which is the same on every backend.

    Raises:
        ValueError: the rank is below 1, a pattern matches no kernel, or the model already has such matrices or a built optimizer.

    Reference: Hu et al., 2022, section 4 (https://arxiv.org/abs/2106.09685).
    """
    check_patterns("patterns", patterns)
    check_patterns("trained", trained)
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise ValueError(f"rank must be a whole number of at least 1; got {rank!r}.")
    if alpha is not None and not alpha > 0:
        raise ValueError(f"alpha must be above 0; got {alpha}.")
    kernels = _kernels(model)
    if not kernels:
        raise ValueError(f"the model must have dense layers, whose kernels are adapted; {model.name} has none.")
    if has_lora(model) or getattr(getattr(model, "optimizer", None), "built", False):
        raise ValueError("add_lora must be called once, before training; the model has low-rank matrices or a built optimizer.")
    for pattern in patterns:
        if not any(matches_any(path, [pattern]) for path in kernels):
            raise ValueError(
                f"every pattern must match a kernel's path, such as {next(iter(kernels))!r}; {pattern!r} matches none."
            )
    for variable in model.weights:
        variable.trainable = matches_any(variable.path, trained)
    for path, layer in kernels.items():
        if matches_any(path, patterns):
            layer.enable_lora(rank, lora_alpha=alpha)
            layer.lora_kernel_a.assign(_drawn(layer.lora_kernel_a, seed))
    model.lora = {"rank": rank, "alpha": alpha, "patterns": list(patterns), "trained": list(trained)}


def has_lora(model):
    """Whether a model has low-rank matrices."""
    return any(layer.lora_enabled for layer in _kernels(model).values())


def save_lora(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Write the low-rank matrices and the other trained variables into a safetensors file, without the frozen weights.

    Args:
        model: after `add_lora`.
        path: the file, .safetensors; it is written atomically. An existing file of this kind is replaced, but no other file.

    Raises:
        ValueError: the model has no low-rank matrices, `load_lora` would reject its patterns, or the existing file is not such a
            file.
        OSError: the file cannot be written.
    """
    if not has_lora(model):
        raise ValueError("the model must have low-rank matrices; call add_lora first.")
    path = Path(path)
    arrays = {v.path: np.ascontiguousarray(to_numpy(v).astype("float32")) for v in model.trainable_variables}
    checked_settings(model.lora, "the model to save")
    content = save(arrays, metadata={"format": FORMAT, "lora": json.dumps(model.lora)})
    path.parent.mkdir(parents=True, exist_ok=True)
    check_file(path, ADAPTERS)
    write_file(path, lambda file: file.write(content))


def load_lora(model: keras.Model, path: str | os.PathLike[str]) -> None:
    """Add the low-rank matrices of a file to a model, for inference or further training; call it before `compile`.

    Args:
        model: the model that they were trained for, with its original weights; it may already have matrices of the same shapes and
            alpha, which are overwritten.
        path: a file that `save_lora` wrote.

    Raises:
        ValueError: the file does not exist, is not such a file, or has matrices of another model.
    """
    settings, arrays = _read(Path(path))
    shapes = _trained_shapes(model, settings)
    wrong = sorted(name for name in shapes.keys() | arrays.keys() if name not in arrays or shapes.get(name) != arrays[name].shape)
    if wrong:
        raise ValueError(f"{path} must hold the matrices of this model; {len(wrong)} differ, such as {wrong[0]}.")
    if not has_lora(model):
        add_lora(model, settings["rank"], settings["alpha"], patterns=settings["patterns"], trained=settings["trained"])
    alpha = settings["rank"] if settings["alpha"] is None else settings["alpha"]
    alphas = [layer.lora_alpha for layer in _kernels(model).values() if layer.lora_enabled and layer.lora_alpha != alpha]
    if alphas:
        raise ValueError(f"{path} must have the alpha of the model's matrices, {alphas[0]}; got {alpha}.")
    for variable in model.trainable_variables:
        variable.assign(arrays[variable.path])


def without_lora(model: keras.Model) -> keras.Model:
    """The model itself, or if it has low-rank matrices, a new model with the matrices merged into its kernels.

    Raises:
        ValueError: the model has low-rank matrices and is quantised.
    """
    if not has_lora(model):
        return model
    kernels = _kernels(model)
    if any(layer.quantization_mode not in (None, "float8") for layer in kernels.values()):  # float8 does not change kernels
        raise ValueError("the model must not be quantised, because low-rank matrices are added to its kernels in float32.")
    plain = build_model(model.config, heads_of(model), **settings_of_inputs(model))
    values = {variable.path: variable for variable in model.weights}
    for variable in plain.weights:
        value, layer = to_numpy(values[variable.path]).astype("float32"), kernels.get(variable.path)
        if layer is not None and layer.lora_enabled:
            # Not Keras's `layer.kernel`, which has the compute dtype, such as bfloat16.
            value = value + layer.lora_alpha / layer.lora_rank * (to_numpy(layer.lora_kernel_a) @ to_numpy(layer.lora_kernel_b))
        variable.assign(value)
    plain.load_report = getattr(model, "load_report", None)
    return plain


def _kernels(model):
    """The dense layers of a model and of its composed layers, by the path of their kernel."""
    kernels = {}
    for layer in model.layers:
        for part in (layer, *(layer.denses if isinstance(layer, CompositeLayer) else ())):
            if isinstance(part, keras.layers.Dense):
                path = next((variable.path for variable in part.weights if variable.path.endswith("/kernel")), None)
                if path is not None:
                    kernels[path] = part
    return kernels


def _trained_shapes(model, settings):
    """Shapes of the trained variables by path: as they are in a model with matrices, or as they would be after `add_lora`."""
    if has_lora(model):
        return {variable.path: tuple(variable.shape) for variable in model.trainable_variables}
    shapes = {v.path: tuple(v.shape) for v in model.weights if matches_any(v.path, settings["trained"])}
    for path, layer in _kernels(model).items():
        if matches_any(path, settings["patterns"]):
            inputs, outputs = layer.kernel.shape
            stem = path.removesuffix("kernel")
            shapes |= {f"{stem}lora_kernel_a": (inputs, settings["rank"]), f"{stem}lora_kernel_b": (settings["rank"], outputs)}
    return shapes


def _drawn(variable, seed):
    """Values of He's uniform distribution, as in Keras."""
    limit = math.sqrt(6 / variable.shape[0])
    return drawn_by_name(variable, seed, lambda generator, shape: generator.uniform(-limit, limit, shape))


def _read(path):
    if not path.exists():
        raise ValueError(f"expected a file of save_lora at {path}; it does not exist.")
    check_safetensors(path)
    try:
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is not a dictionary
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file or is damaged: {error}.") from None
    if metadata.get("format") != FORMAT:
        raise ValueError(f"expected a file that save_lora wrote; {path} is a safetensors file with other content.")
    return checked_settings(parse_json(metadata.get("lora", ""), f"the settings in {path}"), path), arrays
