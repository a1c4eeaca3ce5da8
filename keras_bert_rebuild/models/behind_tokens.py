"""The graph of a model from the vectors of its tokens on, with the model's own layers."""

from typing import Any

import keras

from keras_bert_rebuild.models.encoder import TOKEN


def graph_behind_tokens(model: keras.Model, outputs: Any = None) -> keras.Model:
    """A model that is entered behind the token table of another one.

    Its inputs are the token vectors `(batch, length, width)`, the table `(vocabulary, width)` and then those of the model, of which
    it reads all but the ids. The layers are called again on symbolic tensors, as in any second model that shares them. A
    `keras.Model` from within the graph would do the same, but where it takes an input of the model as well, that input gets a
    second node, after which Keras cannot describe or save the model any more.

    Args:
        model: a functional model with the layer `Embedding-Token`.
        outputs: symbolic tensors of its graph to end in; None for those of the model.
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
