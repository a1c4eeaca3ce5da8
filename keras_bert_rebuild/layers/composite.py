"""What a layer needs that is composed of `Dense` layers: making them, and saving how they are quantised."""

from typing import Any

import keras


class CompositeLayer(keras.layers.Layer):
    """A layer of several `Dense` layers, whose options it shares among them; the output has the shape of the input. Abstract."""

    def __init__(
        self,
        activation: Any,
        use_bias: bool,
        kernel_initializer: Any,
        bias_initializer: Any,
        kernel_regularizer: Any,
        bias_regularizer: Any,
        kernel_constraint: Any,
        bias_constraint: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.supports_masking = True

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def dense_config(self) -> dict[str, Any]:
        """What the config of the layer says of the shared options."""
        return {
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }


def sub_dense(layer, name, input_size, units, activation=None):
    """A built `Dense` called `name`, with the initializers, regularizers, constraints and dtype of `layer`."""
    dense = keras.layers.Dense(
        units,
        activation=activation,
        use_bias=layer.use_bias,
        kernel_initializer=_fresh(layer.kernel_initializer),
        bias_initializer=_fresh(layer.bias_initializer),
        kernel_regularizer=layer.kernel_regularizer,
        bias_regularizer=layer.bias_regularizer,
        kernel_constraint=layer.kernel_constraint,
        bias_constraint=layer.bias_constraint,
        dtype=layer.dtype_policy,
        trainable=layer.trainable,  # a frozen layer of a file is frozen before it has sub-layers
        name=name,
    )
    dense.build((None, input_size))
    return dense


def sub_layer_dtype(layer, attributes):
    """The `dtype` for the config of `layer`: its own policy, or once a sub-layer is quantised a map from path to policy.

    Keras does not do this for its own composites, and a quantised one does not load again ("expected 2 variables, received 3").
    """
    sub_layers = [getattr(layer, attribute) for attribute in attributes if hasattr(layer, attribute)]
    policy = layer.dtype_policy
    if all(sub_layer.dtype_policy.quantization_mode is None for sub_layer in sub_layers):
        return keras.dtype_policies.serialize(policy)
    default = policy.default_policy if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
    policies = {sub_layer.path: _own_policy(sub_layer) for sub_layer in sub_layers}
    return keras.dtype_policies.serialize(keras.dtype_policies.DTypePolicyMap(default, policies))


def _fresh(initializer):
    """A new initializer of the same kind: one instance gives equal shapes equal values, and all projections would start alike."""
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _own_policy(layer):
    policy = layer.dtype_policy
    return policy[layer.path] if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else policy
