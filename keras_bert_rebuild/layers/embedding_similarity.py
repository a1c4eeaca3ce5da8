"""The output layer over the vocabulary, tied to the token embedding."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class EmbeddingSimilarity(keras.layers.Layer):
    """Probability of every token of the vocabulary at every position.

        outputs = softmax(logits)        logits = features · embeddingsᵀ + bias

    Logits and softmax are float32 whatever the dtype policy; the product is taken in the compute dtype.

    Args:
        initializer, regularizer, constraint: for the bias.
        use_bias: whether there is one.
        stop_gradient: stop the gradient of the output layer before the embedding table.

    Call arguments:
        inputs: the features and the token table.
        return_logits: return the logits instead of the probabilities.

    Input shape: a list of features `(..., hidden)` and the token table `(vocabulary, hidden)`.
    Output shape: `(..., vocabulary)`, float32.
    Mask: that of the features, if they have one.

    Reference: Press and Wolf, 2017 (https://arxiv.org/abs/1608.05859); `get_masked_lm_output` of google-research/bert.
    """

    def __init__(
        self,
        initializer: Any = "zeros",
        regularizer: Any = None,
        constraint: Any = None,
        use_bias: bool = True,
        stop_gradient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)
        self.regularizer = keras.regularizers.get(regularizer)
        self.constraint = keras.constraints.get(constraint)
        self.use_bias = use_bias
        self.stop_gradient = stop_gradient
        self.supports_masking = True

    def build(self, input_shape):
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(input_shape[1][0],),
                initializer=self.initializer,
                regularizer=self.regularizer,
                constraint=self.constraint,
                name="bias",
                autocast=False,  # added to float32
            )
        self.built = True

    def call(self, inputs, return_logits=False):
        features, embeddings = inputs
        if self.stop_gradient:
            embeddings = ops.stop_gradient(embeddings)
        # Not a product with the transposed table, of which TensorFlow would make a copy.
        flat = ops.einsum("nd,vd->nv", ops.reshape(features, (-1, features.shape[-1])), embeddings)
        logits = ops.cast(ops.reshape(flat, (*ops.shape(features)[:-1], embeddings.shape[0])), "float32")
        if self.use_bias:
            logits = logits + self.bias
        return logits if return_logits else ops.softmax(logits)

    def compute_mask(self, inputs, mask=None):
        return mask[0] if isinstance(mask, (list, tuple)) else mask

    def compute_output_spec(self, inputs, return_logits=False):
        features, embeddings = inputs
        return keras.KerasTensor((*features.shape[:-1], embeddings.shape[0]), dtype="float32")

    def get_config(self):
        return {
            **super().get_config(),
            "initializer": keras.initializers.serialize(self.initializer),
            "regularizer": keras.regularizers.serialize(self.regularizer),
            "constraint": keras.constraints.serialize(self.constraint),
            "use_bias": self.use_bias,
            "stop_gradient": self.stop_gradient,
        }
