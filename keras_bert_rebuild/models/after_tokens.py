"""The part of a model's graph that starts from token vectors, with the model's own layers."""

from typing import Any

import keras

from keras_bert_rebuild.models.encoder import TOKEN


def graph_after_tokens(model: keras.Model, outputs: Any = None) -> keras.Model:
    """A model that shares the layers of another one and starts after its token table.

    Its inputs are the token vectors `(batch, length, width)`, the table `(vocabulary, width)` and then those of the model, of which
    the ids are ignored. The layers are called again on symbolic tensors, as in any second model that shares them. (A `keras.Model`
    on tensors within the graph would compute the same, but if it also took an input of the model, that input would get a second
    node, after which Keras could not describe or save the original model.)

    Args:
        model: a functional model with the layer `Embedding-Token`.
        outputs: symbolic tensors of its graph to return; None for the outputs of the model.
    """
    tokens = model.get_layer(TOKEN)
    fresh = [
        keras.Input((None, tokens.output_dim), dtype=tokens.compute_dtype, name="Token-Vectors"),
        keras.Input(batch_shape=(tokens.input_dim, tokens.output_dim), dtype=tokens.compute_dtype, name="Token-Table"),
        *(keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=tensor.name) for tensor in model.inputs),
    ]
    outputs = model.outputs if outputs is None else outputs
    whole = keras.Model([*(keras.Input(x.shape[1:], dtype=x.dtype) for x in fresh[:2]), *model.inputs], outputs)

    def called(layer, *args, **kwargs):
        return fresh[:2] if layer is tokens else layer(*args, **kwargs)

    return keras.models.clone_model(whole, input_tensors=fresh, clone_function=lambda layer: layer, call_function=called)
