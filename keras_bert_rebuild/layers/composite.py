"""Helpers for layers composed of `Dense` layers: building them, and saving their quantisation."""

from typing import Any

import keras

from keras_bert_rebuild.layers.editable import Editable

# Options of `Dense` layers for kernel and bias, and the Keras module of each.
OPTIONS = {
    f"{weight}_{kind}": module
    for kind, module in (
        ("initializer", keras.initializers),
        ("regularizer", keras.regularizers),
        ("constraint", keras.constraints),
    )
    for weight in ("kernel", "bias")
}


class CompositeLayer(Editable, keras.layers.Layer):
    """Abstract base class of layers with several `Dense` layers that share `OPTIONS`, whose output has the shape of the input.

    With `output_initializer` the kernel of the layer `output` has its own initializer. The input of that layer is editable.
    """

    def __init__(self, activation: Any, use_bias: bool, *options: Any, output_initializer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.output_initializer = keras.initializers.get(output_initializer)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        for (name, module), option in zip(OPTIONS.items(), options, strict=True):
            setattr(self, name, module.get(option))
        self.supports_masking = True

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def dense_config(self) -> dict[str, Any]:
        """The part of the layer's config that concerns its `Dense` layers."""
        options = {name: module.serialize(getattr(self, name)) for name, module in OPTIONS.items()}
        if self.output_initializer is not None:
            options["output_initializer"] = keras.initializers.serialize(self.output_initializer)
        return {"activation": keras.activations.serialize(self.activation), "use_bias": self.use_bias, **options}


def sub_dense(layer, name, input_size, units, activation=None, use_bias=None):
    """A built `Dense` called `name`, with the initializers, regularizers, constraints and dtype of `layer`.

    `use_bias` overrides that of `layer`; None keeps it.
    """
    options = {option: _clone(getattr(layer, option)) for option in OPTIONS}
    if name == "output" and layer.output_initializer is not None:
        options["kernel_initializer"] = _clone(layer.output_initializer)
    dense = keras.layers.Dense(
        units,
        activation=activation,
        use_bias=layer.use_bias if use_bias is None else use_bias,
        **options,
        dtype=layer.dtype_policy,
        trainable=layer.trainable,  # a layer may be frozen before it has sub-layers, when it is loaded as frozen
        name=name,
    )
    dense.build((None, input_size))
    return dense


def sub_layer_dtype(layer, attributes):
    """The `dtype` for the config of `layer`: its own policy, or, if a sub-layer is quantised, a map from path to policy.

    Keras does not do this for its own composite layers, which fail to load when quantised ("expected 2 variables, received 3").
    """
    sub_layers = [getattr(layer, attribute) for attribute in attributes if hasattr(layer, attribute)]
    policy = layer.dtype_policy
    if all(sub_layer.dtype_policy.quantization_mode is None for sub_layer in sub_layers):
        return keras.dtype_policies.serialize(policy)
    default = policy.default_policy if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
    policies = {sub_layer.path: _own_policy(sub_layer) for sub_layer in sub_layers}
    return keras.dtype_policies.serialize(keras.dtype_policies.DTypePolicyMap(default, policies))


def _clone(initializer):
    """A copy of an initializer: one instance gives equal shapes equal values, so all projections would start with the same."""
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _own_policy(layer):
    policy = layer.dtype_policy
    return policy[layer.path] if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
