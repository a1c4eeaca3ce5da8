"""Layers that keep the arguments of their constructors for `get_config`, and that are composed of dense layers."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

# The Keras module that reads and writes an argument, by the end of its name.
MODULES = {
    "activation": keras.activations,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}

# The options of dense layers for kernel and bias.
OPTIONS = tuple(f"{weight}_{kind}" for kind in ("initializer", "regularizer", "constraint") for weight in ("kernel", "bias"))


class BertLayer(keras.layers.Layer):
    """Abstract base class of layers that keep their arguments as attributes of the same names, and pass masks on."""

    left_out: ClassVar[Mapping[str, Any]] = {}
    """Arguments that the config leaves out if they have these values."""

    _kept: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def keep(self, **arguments: Any) -> None:
        """Keep arguments of the constructor; initializers, regularizers, constraints and activations as Keras's objects."""
        for name, value in arguments.items():
            module = _module_of(name)
            setattr(self, name, value if module is None else module.get(value))
        self._kept = (*self._kept, *arguments)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in self._kept:
            value, module = getattr(self, name), _module_of(name)
            if name not in self.left_out or value != self.left_out[name]:
                config[name] = value if module is None else module.serialize(value)
        return config


def _module_of(name):
    return MODULES.get(name.rpartition("_")[2])


class CompositeLayer(BertLayer):
    """Abstract base class of layers with several `Dense` layers that share `OPTIONS`, whose output has the shape of the input.

    With `output_initializer` the kernel of the layer `output` has its own initializer.
    """

    left_out: ClassVar[Mapping[str, Any]] = {"output_initializer": None}

    _denses: tuple[str, ...] = ()

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return tuple(input_shape)

    def add_dense(self, name: str, input_size: int, units: int, activation: Any = None, use_bias: bool | None = None) -> Any:
        """Build a `Dense` called `name`, the attribute `<name>_dense`, with the options and the dtype of this layer.

        Args:
            name: its name, which is part of the paths of its weights.
            input_size: width of its inputs.
            units: width of its outputs.
            activation: its activation.
            use_bias: whether it has a bias; None for that of this layer.
        """
        options = {option: cloned(getattr(self, option)) for option in OPTIONS}
        if name == "output" and self.output_initializer is not None:
            options["kernel_initializer"] = cloned(self.output_initializer)
        dense = keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias if use_bias is None else use_bias,
            **options,
            dtype=self.dtype_policy,
            trainable=self.trainable,  # a layer may be frozen before it has sub-layers, when it is loaded as frozen
            name=name,
        )
        dense.build((None, input_size))
        setattr(self, f"{name}_dense", dense)
        self._denses = (*self._denses, f"{name}_dense")
        return dense

    @property
    def denses(self) -> list[keras.layers.Dense]:
        """The dense layers, once built."""
        return [getattr(self, attribute) for attribute in self._denses]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": dtype_of_composite(self, self.denses)}


def dtype_of_composite(layer, sub_layers):
    """The `dtype` for the config of a layer: its own policy, or, if a sub-layer is quantised, a map from path to policy.

    Keras does not do this for its own composite layers, which fail to load when quantised ("expected 2 variables, received 3").
    """
    policy = layer.dtype_policy
    if all(sub_layer.dtype_policy.quantization_mode is None for sub_layer in sub_layers):
        return keras.dtype_policies.serialize(policy)
    default = policy.default_policy if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
    policies = {sub_layer.path: _own_policy(sub_layer) for sub_layer in sub_layers}
    return keras.dtype_policies.serialize(keras.dtype_policies.DTypePolicyMap(default, policies))


def cloned(initializer: Any) -> Any:
    """A copy of an initializer: one instance gives equal shapes equal values, so all projections would start with the same."""
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _own_policy(layer):
    policy = layer.dtype_policy
    return policy[layer.path] if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
