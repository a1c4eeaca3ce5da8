"""sentence-transformers modules after the pooling as arrays, read and written: dense layers, norms, scaling to unit length."""

from collections import namedtuple
from typing import Any

from safetensors.numpy import save

from keras_bert_rebuild.checkpoints.safetensors_files import SafetensorsFiles
from keras_bert_rebuild.checkpoints.torch_file import TorchFile
from keras_bert_rebuild.files.reading import json_bytes, json_object, value_of

# act(x · kernel + bias); bias may be None.
DenseModule = namedtuple("DenseModule", ["kernel", "bias", "activation"])

# act(x · kernel + bias) + x · shortcut; bias may be None; without shortcut x itself is added.
ResidualModule = namedtuple("ResidualModule", ["kernel", "bias", "activation", "shortcut"])

# gamma · (x − mean) / √(variance + 1e-5) + beta, as torch computes it.
NormModule = namedtuple("NormModule", ["gamma", "beta"])

# x / ‖x‖.
UnitModule = namedtuple("UnitModule", [])

# Class of an activation in torch to ours.
ACTIVATIONS = {"Tanh": "tanh", "Identity": "linear", "ReLU": "relu", "GELU": "gelu_erf", "Sigmoid": "sigmoid", "SiLU": "silu"}

# Names of torch's activations in modules.
TORCH_MODULES = {"Identity": "torch.nn.modules.linear"}

# The output of the first module, for modules that process token vectors.
TOKENS = "token_embeddings"


def read_module(kind, folder, of="sentence_embedding"):
    """A module after the first one, or after the pooling.

    Args:
        kind: the last component of its type in modules.json.
        folder: the folder of its files.
        of: its required input and output.

    Returns:
        A `DenseModule`, `ResidualModule`, `NormModule` or `UnitModule`, or None for one without effect, such as dropout.

    Raises:
        ValueError: the module or one of its settings is not supported, or its weights are missing.
    """
    if kind not in READERS:
        raise ValueError(f"the modules of vectors must be some of {', '.join(READERS)}; {folder} is of {kind}.")
    file = folder / "config.json"
    values = json_object(file)
    for key in ("module_input_name", "module_output_name"):
        if values.get(key) not in (None, of):
            raise ValueError(f"{file} must have {key} {of}; got {values[key]!r:.80}.")
    return READERS[kind](folder, values)


def _dense(folder, values):
    file = folder / "config.json"
    # sentence-transformers uses Tanh by default and for classes outside torch.
    path = value_of(values, "activation_function", str, file, "torch.nn.modules.activation.Tanh")
    name = path.rsplit(".", 1)[-1]
    if not path.startswith("torch.nn.") or name not in ACTIVATIONS:
        raise ValueError(f"{file} must have an activation_function of torch.nn among {', '.join(ACTIVATIONS)}; got {path!r}.")
    weights = _weights(folder)
    kernel = _array(weights, "linear.weight", folder).T
    bias = _array(weights, "linear.bias", folder) if value_of(values, "bias", bool, file, True) else None
    if kernel.ndim != 2 or (bias is not None and bias.shape != kernel.shape[1:]):
        shapes = f"{kernel.shape} and {'none' if bias is None else bias.shape}"
        raise ValueError(f"{folder} must have a matrix and a bias of matching width; got {shapes}.")
    if not value_of(values, "use_residual", bool, file, False):
        return DenseModule(kernel, bias, ACTIVATIONS[name])
    shortcut = None if kernel.shape[0] == kernel.shape[1] else _array(weights, "residual.weight", folder).T
    if shortcut is not None and shortcut.shape != kernel.shape:
        raise ValueError(f"{folder} must have residual.weight of the shape of linear.weight; got {shortcut.shape[::-1]}.")
    return ResidualModule(kernel, bias, ACTIVATIONS[name], shortcut)


def _norm(folder, values):
    weights = _weights(folder)
    gamma, beta = (_array(weights, name, folder) for name in ("norm.weight", "norm.bias"))
    if gamma.ndim != 1 or gamma.shape != beta.shape:
        raise ValueError(f"{folder} must have norm.weight and norm.bias of one width; got {gamma.shape} and {beta.shape}.")
    return NormModule(gamma, beta)


def _weights(folder):
    for name, reader in (("model.safetensors", SafetensorsFiles), ("pytorch_model.bin", TorchFile)):
        if (folder / name).is_file():
            return reader(folder / name)
    raise ValueError(f"expected model.safetensors or pytorch_model.bin in {folder}; neither exists.")


def _array(weights, name, folder):
    if name not in weights.names:
        raise ValueError(f"{folder} must have weights named {name}; it has {', '.join(weights.names[:5]) or 'none'}.")
    return weights.read(name).astype("float32")


READERS = {
    "Dense": _dense,
    "LayerNorm": _norm,
    "Normalize": lambda folder, values: UnitModule(),
    "Dropout": lambda folder, values: None,
}


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
