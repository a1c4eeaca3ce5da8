"""Modules applied after pooling, as Keras layers and as arrays: dense layers, norms and scaling to unit length."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild import layers
from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.pretrained.sentence_modules import ACTIVATIONS, DenseModule, NormModule, ResidualModule, UnitModule

MODULES = (DenseModule, ResidualModule, NormModule, UnitModule)

# torch's epsilon of a LayerNorm.
EPSILON = 1e-5


def module_layers(modules: Iterable[Any], width: int) -> list[keras.layers.Layer]:
    """Modules as layers with weights, in float32 under any dtype policy.

    Args:
        modules: `DenseModule`, `ResidualModule`, `NormModule`, `UnitModule` or Keras layers, which are built and used unchanged; in
            order of application.
        width: width of the vector that the first one takes.

    Returns:
        A layer for each; they take `(..., width)`.

    Raises:
        ValueError: the weights of a module have a different width, or an item is neither a module nor a layer.
    """
    made = []
    for number, module in enumerate(modules, 1):
        layer = module if isinstance(module, keras.layers.Layer) else _layer(module, number, width)
        if not layer.built:
            layer.build((None, width))
        made.append(layer)
        width = layer.compute_output_shape((None, width))[-1]
    return made


def _layer(module, number, width):
    if not isinstance(module, MODULES):
        names = ", ".join(kind.__name__ for kind in MODULES)
        raise ValueError(f"modules must be {names} or Keras layers; got {type(module).__name__}.")
    if isinstance(module, UnitModule):
        return keras.layers.UnitNormalization(dtype="float32", name=f"Sentence-Unit-{number}")
    if len(module[0]) != width:
        raise ValueError(f"module {number} after the pooling must take the width {width}; its weights have {len(module[0])}.")
    if isinstance(module, NormModule):
        layer = keras.layers.LayerNormalization(epsilon=EPSILON, dtype="float32", name=f"Sentence-Norm-{number}")
        arrays = [module.gamma, module.beta]
    else:
        kind = layers.ResidualDense if isinstance(module, ResidualModule) else keras.layers.Dense
        layer = kind(
            module.kernel.shape[1],
            layers.get_activation(module.activation),
            use_bias=module.bias is not None,
            dtype="float32",
            name=f"Sentence-Dense-{number}",
        )
        arrays = [module.kernel, module.bias, getattr(module, "shortcut", None)]
    layer.build((None, width))
    layer.set_weights([array for array in arrays if array is not None])
    return layer


def modules_of(layers_after: Iterable[keras.layers.Layer]) -> list[Any]:
    """Layers as `MODULES` with arrays, as stored in a folder: the inverse of `module_layers`.

    Raises:
        ValueError: a layer has no counterpart in sentence-transformers.
    """
    return [_module(layer) for layer in layers_after if not isinstance(layer, keras.layers.Dropout)]


def _module(layer):
    if isinstance(layer, keras.layers.UnitNormalization):
        return UnitModule()
    if isinstance(layer, keras.layers.LayerNormalization) and abs(layer.epsilon - EPSILON) < 1e-9 and layer.center and layer.scale:
        return NormModule(_array(layer.gamma), _array(layer.beta))
    if isinstance(layer, (keras.layers.Dense, layers.ResidualDense)):
        names = {layers.get_activation(name): name for name in ACTIVATIONS.values()}
        dense = layer.dense if isinstance(layer, layers.ResidualDense) else layer
        if layer.activation in names:
            arrays = _array(dense.kernel), _array(dense.bias) if layer.use_bias else None, names[layer.activation]
            if dense is layer:
                return DenseModule(*arrays)
            return ResidualModule(*arrays, None if layer.shortcut is None else _array(layer.shortcut.kernel))
    raise ValueError(
        "a layer after the pooling must be a Dense or ResidualDense with one of the activations "
        f"{', '.join(ACTIVATIONS.values())}, a LayerNormalization with epsilon {EPSILON} or a UnitNormalization to be saved; "
        f"{layer.name} is a {type(layer).__name__}."
    )


def shown(module: Any) -> list[Any]:
    """A description of one of `MODULES` without its weights, as plain values."""
    return [
        type(module).__name__,
        *(part if isinstance(part, str) else None if part is None else list(part.shape) for part in module),
    ]


def _array(variable):
    return to_numpy(variable).astype("float32")


def new_dense(width: int, units: int, activation: str = "linear", bias: bool = True, seed: int = 0) -> DenseModule:
    """A newly initialised dense layer, the same on every backend.

    Args:
        width: width of its inputs.
        units: width of its outputs.
        activation: one of `ACTIVATIONS`.
        bias: whether it has a bias, initially 0.
        seed: seed of the kernel, which is uniform within ±1/√width, as in torch's linear layer.
    """
    kernel = np.random.default_rng([seed, width, units]).uniform(-1, 1, (width, units)) * width**-0.5
    return DenseModule(kernel.astype("float32"), np.zeros(units, "float32") if bias else None, activation)
