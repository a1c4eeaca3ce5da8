"""What relative attention reads besides the sequence: distances, segments, and the vector of XLNet's query stream."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.position_embedding import speeds


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistanceEmbedding(BertLayer):
    """A fixed vector for every distance from L to −L + 1 between the tokens of a sequence of length L.

        vector[d] = [sin(d · s_0), ..., sin(d · s_(D/2−1)), cos(d · s_0), ..., cos(d · s_(D/2−1))]        s_i = 10000^(−2i/D)

    Args:
        reach: the distance beyond which distances are clipped; None for no limit.

    Input shape: `(batch, length, hidden)`, of which only the shape is used; `hidden` must be even.
    Output shape: `(2 · length, hidden)`.
    Mask: none.

    Reference: Dai et al., 2019, section 3.3 (https://arxiv.org/abs/1901.02860).
    """

    def __init__(self, reach: int | None = None, **kwargs: Any) -> None:
        if reach is not None and reach < 1:
            raise ValueError(f"reach must be at least 1, or None; got {reach}.")
        super().__init__(**kwargs)
        self.keep(reach=reach)

    def build(self, input_shape=None):
        if input_shape is not None and input_shape[-1] % 2:
            raise ValueError(f"{self.name}: the width must be even, half for sines and half for cosines; got {input_shape[-1]}.")
        self.built = True

    def call(self, inputs):
        return self.vectors(ops.shape(inputs)[1], ops.shape(inputs)[1], inputs.shape[-1])

    def vectors(self, queries, keys, width):
        """The vectors of the distances `keys` to `−queries + 1`, `(queries + keys, width)`."""
        distances = keys - ops.arange(queries + keys, dtype="int32")
        if self.reach is not None:
            distances = ops.clip(distances, -self.reach, self.reach)
        angles = ops.cast(distances, "float32")[:, None] * ops.convert_to_tensor(speeds(width)[::2])
        return ops.cast(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (None if input_shape[1] is None else 2 * input_shape[1], input_shape[2])

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class RelativeEmbedding(BertLayer):
    """A table with a row for every distance between two tokens, or every bucket of distances.

        outputs = embeddings

    Args:
        input_dim: rows of the table.
        output_dim: width of a row.
        embeddings_initializer: for the table.

    Input shape: any; the input is ignored and only connects the layer with the graph.
    Output shape: `(input_dim, output_dim)`.
    Mask: none.

    Reference: He et al., 2021, section 3.1 (https://arxiv.org/abs/2006.03654).
    """

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep(input_dim=input_dim, output_dim=output_dim, embeddings_initializer=embeddings_initializer)

    def build(self, input_shape=None):
        shape = (self.input_dim, self.output_dim)
        self.embeddings = self.add_weight(shape=shape, initializer=self.embeddings_initializer, name="embeddings")
        self.built = True

    def call(self, inputs):
        return ops.cast(ops.convert_to_tensor(self.embeddings), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (self.input_dim, self.output_dim)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class SegmentDifference(keras.layers.Layer):
    """True for pairs of tokens in different segments: `outputs[b, i, j] = inputs[b, i] ≠ inputs[b, j]`.

    Segment ids are only compared, so their values have no meaning, and a text may have any number of segments.

    Input shape: segment ids `(batch, length)`.
    Output shape: `(batch, length, length)`, bool.
    Mask: none.

    Reference: Yang et al., 2019, section 2.5 (https://arxiv.org/abs/1906.08237).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False

    def call(self, inputs):
        return ops.not_equal(inputs[:, :, None], inputs[:, None, :])

    def compute_output_shape(self, input_shape):
        return (*input_shape, input_shape[1])

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="bool")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class QueryEmbedding(BertLayer):
    """Passes the sequence on, and holds the vector that XLNet's query stream has instead of tokens to predict.

        outputs = inputs

    The model is the content stream, whose outputs do not depend on the vector; only XLNet's pretraining uses and trains it. The
    layer exists because files of XLNet have the vector.

    Args:
        initializer: initializer of the vector.
        trained: whether the vector is trainable.

    Input shape: `(batch, length, hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """

    left_out: ClassVar[Mapping[str, Any]] = {"trained": False}

    def __init__(self, initializer: Any = "uniform", trained: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep(initializer=initializer, trained=trained)

    def build(self, input_shape):
        shape = (1, input_shape[-1])
        self.vector = self.add_weight(shape=shape, initializer=self.initializer, trainable=self.trained, name="vector")
        self.built = True

    def call(self, inputs):
        return inputs

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)
