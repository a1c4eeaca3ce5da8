"""The modules of a sentence-transformers folder as layers behind a model's vector."""

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, NormModule

# torch's epsilon of a LayerNorm.
EPSILON = 1e-5


def with_modules(model, modules, normalize=False):
    """A model whose vector goes through further layers.

    Args:
        model: its output is a vector for each row, `(batch, width)`.
        modules: `DenseModule`, `NormModule` or `UnitModule`, in their order.
        normalize: scale the result to length 1.

    Returns:
        A `BertModel` that shares all layers with the model, or the model itself where there is nothing to add.

    Raises:
        ValueError: the weights of a module are of another width.
    """
    if not modules and not normalize:
        return model
    x = model.outputs[0]
    for number, module in enumerate(modules, 1):
        width = len(module[0]) if module else x.shape[-1]
        if width != x.shape[-1]:
            raise ValueError(f"module {number} behind the pooling must take {x.shape[-1]} numbers; its weights are for {width}.")
        if isinstance(module, DenseModule):
            activation = layers.get_activation(module.activation)
            layer = keras.layers.Dense(
                module.kernel.shape[1],
                activation,
                use_bias=module.bias is not None,
                dtype="float32",
                name=f"Sentence-Dense-{number}",
            )
            arrays = [module.kernel] if module.bias is None else [module.kernel, module.bias]
        elif isinstance(module, NormModule):
            layer = keras.layers.LayerNormalization(epsilon=EPSILON, dtype="float32", name=f"Sentence-Norm-{number}")
            arrays = [module.gamma, module.beta]
        else:
            layer, arrays = keras.layers.UnitNormalization(name=f"Sentence-Unit-{number}"), []
        x = layer(x)
        layer.set_weights(arrays)
    if normalize:
        x = keras.layers.UnitNormalization(name="Sentence-Unit")(x)
    result = BertModel(model.inputs if len(model.inputs) > 1 else model.inputs[0], x)
    result.config = getattr(model, "config", None)
    return result
