"""Token vectors and their table, and the output layer over the vocabulary that is tied to it."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.keras_layers import Embedding
from keras_bert_rebuild.layers.masks import MaskOutsideGraph
from keras_bert_rebuild.layers.products import similarities
from keras_bert_rebuild.layers.seam import seam


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TokenEmbedding(MaskOutsideGraph, Embedding):
    """Looks up the vector of every token and also returns the whole table, for the tied output layer.

        outputs[0][b, l] = embeddings[inputs[b, l]]        outputs[1] = embeddings

    An id outside the table gives NaN; otherwise the backends would silently return another row (a negative id counts from the end,
    compiled code takes the last row).

    Args:
        input_dim: size of the vocabulary.
        output_dim: hidden size.
        mask_zero: whether `pad_id` is masked; has no effect with an explicit mask.
        pad_id: the id of the padding token.
        packed: whether the second input has sequence numbers, see `layers.masks`, not just a padding mask.
        **kwargs: see `keras.layers.Embedding`.

    Input shape: ids `(batch, length)`, or a list of the ids and a padding mask `(batch, length)`, nonzero at tokens; with `packed`
        the column, from 1, in which the sequence of each token begins.
    Output shape: a list of `(batch, length, output_dim)` and `(input_dim, output_dim)`.
    Mask: for the first output the explicit mask (with `packed` the sequence numbers, int32), or ids ≠ `pad_id` with `mask_zero`;
        none for the second output. None while the graph is built, since recorded masks would become rows of the summary;
        Functional models supply it when they run.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805); Press and Wolf, 2017, for the tied table.
    """

    def __init__(self, input_dim: int, output_dim: int, *args: Any, pad_id: int = 0, packed: bool = False, **kwargs: Any) -> None:
        super().__init__(input_dim, output_dim, *args, **kwargs)
        self.pad_id = pad_id
        self.packed = packed

    def build(self, input_shape=None):
        super().build()

    def call(self, inputs):
        return self.look_up(inputs, super().call, ops.cast(ops.convert_to_tensor(self.embeddings), self.compute_dtype))

    def quantized_call(self, inputs):
        # A look-up of every row gives the dequantised table.
        return self.look_up(inputs, super().quantized_call, super().quantized_call(ops.arange(self.input_dim, dtype="int32")))

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        ids, padding_mask = _split(inputs)
        if padding_mask is not None:
            return [ops.cast(padding_mask, "int32") if self.packed else ops.not_equal(padding_mask, 0), None]
        return [ops.not_equal(ids, self.pad_id) if self.mask_zero else None, None]

    def compute_output_shape(self, input_shape):
        if isinstance(input_shape[0], (list, tuple)):
            input_shape = input_shape[0]
        return [(*input_shape, self.output_dim), (self.input_dim, self.output_dim)]

    def compute_output_spec(self, inputs):
        ids, _ = _split(inputs)
        return [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in self.compute_output_shape(ids.shape)]

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras refuses subclasses of Embedding because they may read the table directly; this one does not.
        super().quantize(mode, type_check=type_check and type(self) is not TokenEmbedding, config=config)

    def get_config(self):
        return {**super().get_config(), "pad_id": self.pad_id, **({"packed": True} if self.packed else {})}

    @seam
    def look_up(self, inputs: Any, look_up: Callable[[Any], Any], table: Any) -> list[Any]:
        """The vectors of the tokens, `(batch, length, hidden)`, and the table; NaN for ids outside of it."""
        ids, _ = _split(inputs)
        valid = ops.logical_and(ids >= 0, ids < self.input_dim)
        vectors = look_up(ops.cast(ops.clip(ids, 0, self.input_dim - 1), "int32"))
        nan = ops.cast(ops.where(valid, 0.0, float("nan")), vectors.dtype)
        return [vectors + nan[..., None], table]


def _split(inputs):
    """Ids and the explicit padding mask, or None."""
    return inputs if isinstance(inputs, (list, tuple)) else (inputs, None)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class EmbeddingSimilarity(BertLayer):
    """Probability of every token of the vocabulary at every position.

        outputs = softmax(logits)        logits = features · embeddingsᵀ + bias

    Logits and softmax are float32 under every dtype policy; the product uses the compute dtype.

    Args:
        initializer, regularizer, constraint: for the bias.
        use_bias: whether there is a bias.
        stop_gradient: stop the gradient from the output layer to the embedding table.

    Call arguments:
        inputs: the features and the token table.
        return_logits: return the logits instead of the probabilities.

    Input shape: a list of features `(..., hidden)` and the token table `(vocabulary, hidden)`.
    Output shape: `(..., vocabulary)`, float32.
    Mask: the mask of the features, if they have one.

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
        self.keep(
            initializer=initializer, regularizer=regularizer, constraint=constraint, use_bias=use_bias, stop_gradient=stop_gradient
        )

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
        flat = similarities(ops.reshape(features, (-1, features.shape[-1])), embeddings)
        logits = ops.reshape(flat, (*ops.shape(features)[:-1], embeddings.shape[0]))
        if self.use_bias:
            logits = logits + self.bias
        return logits if return_logits else ops.softmax(logits)

    def compute_mask(self, inputs, mask=None):
        return mask[0] if isinstance(mask, (list, tuple)) else mask

    def compute_output_spec(self, inputs, return_logits=False):
        features, embeddings = inputs
        return keras.KerasTensor((*features.shape[:-1], embeddings.shape[0]), dtype="float32")
