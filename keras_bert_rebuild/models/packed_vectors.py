"""One vector for every text of a batch whose texts are packed into rows, with the layers of a given encoder."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.encoder import TOKEN
from keras_bert_rebuild.models.encoder_view import graph_after_tokens
from keras_bert_rebuild.models.rematerialised import recomputed, stateless

# The poolings that are weighted means, with a function from the position of a token in its text and the number of tokens, both
# `(rows, texts, length)`, to unnormalised weights; these are divided by their sum unless stated otherwise.
_WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "mean": lambda position, count: 1.0 / count,
    "mean_sqrt_len": lambda position, count: ops.rsqrt(count),
    "weightedmean": lambda position, count: (position + 1.0) / (count * (count + 1.0) / 2.0),
    "cls": lambda position, count: ops.cast(position == 0, "float32"),
    "lasttoken": lambda position, count: ops.cast(position == count - 1, "float32"),
}
POOLINGS = (*_WEIGHTS, "max")

# The inputs of a `vector_model` in order; the second is missing if the encoder has no segments.
INPUTS = ("Input-Token", "Input-Segment", "Input-Mask", "Input-Begins", "Input-Order")

# The name of the weight of a learned factor, and the maximum of the factor.
LOG_SCALE, MAX_SCALE = "log_scale", 100.0


def can_be_packed(model: keras.Model) -> bool:
    """Whether texts in a row can be independent: no convolution mixes neighbours, and no attention uses distances within rows."""
    encoder = model.config.encoder()
    relative = encoder.relative is not None and encoder.relative.kind == "relative"
    return not relative and all(block.convolution is None for block in encoder.blocks)


def pooled_texts(sequence: Any, numbers: Any, begins: Any, poolings: Sequence[str] = ("mean",)) -> Any:
    """The vectors of the texts of rows, concatenated over poolings: float32 `(rows, texts, poolings · width)`.

    Args:
        sequence: `(rows, length, width)`.
        numbers: for every token 1 + the column in which its text begins, 0 at padding, `(rows, length)`.
        begins: the numbers of the texts of a row, 0 after the last, `(rows, texts)`; their vectors are 0.
        poolings: names in `POOLINGS`.
    """
    sequence = ops.cast(sequence, "float32")
    inside = (numbers[:, None, :] == begins[:, :, None]) & (begins[:, :, None] > 0)  # (R, T, L)
    real = ops.cast(inside, "float32")
    count = ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
    columns = ops.arange(ops.shape(numbers)[1], dtype="int32")
    position = ops.cast(columns - begins[:, :, None] + 1, "float32")
    vectors = [
        _largest(sequence, inside) if name == "max" else ops.matmul(_WEIGHTS[name](position, count) * real, sequence)
        for name in poolings
    ]
    return vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)


def _largest(sequence, inside):
    """The maximum over the tokens of every text, 0 for texts without tokens."""
    rows, texts, length = ops.shape(inside)
    real = ops.any(inside, axis=1)  # (R, L)
    of_row = ops.argmax(ops.cast(inside, "int32"), axis=1) + texts * ops.arange(rows, dtype="int32")[:, None]
    tokens = ops.reshape(ops.where(real[..., None], sequence, -1e6), (rows * length, sequence.shape[-1]))
    largest = ops.segment_max(tokens, ops.reshape(ops.cast(of_row, "int32"), (-1,)), rows * texts)
    largest = ops.reshape(largest, (rows, texts, sequence.shape[-1]))
    return ops.where(ops.any(inside, axis=-1)[..., None], largest, 0.0)


class TextVectors(keras.layers.Layer):
    """The vectors of the texts of a batch, in groups.

    With `chunk` the encoder runs on a few rows at a time, and again in the backward pass: memory holds the activations of one chunk
    and the vectors of all rows, so that it hardly depends on the batch. Values and gradients are those of the whole batch.

    Args:
        encoder: a functional model without `Input-Task`, whose layers are shared.
        poolings: names in `POOLINGS`; or a function from sequence, numbers and begins, as for `pooled_texts`, to
            `(rows, texts, ...)`.
        after: layers after the pooling, in order.
        packed: whether a row may hold several texts, see `can_be_packed`.
        chunk: number of rows at a time; None for all.

    Call arguments, int32:
        inputs: a list of the ids `(rows, length)`; the segments, if the encoder has them; the numbers of texts `(rows, length)`;
            where texts begin, `(rows, texts)`; and the order, `(groups, texts per group)`: row · texts + text, -1 for none.

    Output shape: `(groups, texts per group, width)`; zeros for missing texts.

    Reference: Gao et al., 2021, section 3.2, for chunks (https://arxiv.org/abs/2101.06983).
    """

    def __init__(
        self,
        encoder: keras.Model,
        poolings: Sequence[str] | Callable[..., Any] = ("mean",),
        after: Sequence[keras.layers.Layer] = (),
        *,
        packed: bool = True,
        chunk: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype="float32", **kwargs)
        self.tokens = next(layer for layer in encoder.layers if layer.name == TOKEN)
        # Starts from token vectors, so that the numbers of texts can be the mask; the graph itself would mask padding by its id.
        self.body = graph_after_tokens(encoder, encoder.outputs[0])
        self.body.supports_masking = True
        self.after, self.packed, self.chunk = list(after), packed, chunk
        self.pool: Callable[..., Any] = poolings if callable(poolings) else functools.partial(pooled_texts, poolings=poolings)
        self.built = True

    def call(self, inputs, training=None):
        *tokens, begins, order = [ops.cast(ops.convert_to_tensor(value), "int32") for value in inputs]
        rows = [*tokens, begins]
        if self.chunk is None:
            vectors = self._vectors_of_rows(rows, training)
        else:
            parts = [ops.reshape(value, (-1, self.chunk, *value.shape[1:])) for value in rows]
            vectors = self._in_chunks(parts, training)
        for layer in self.after:
            vectors = layer(vectors)
        vectors = ops.reshape(vectors, (-1, *vectors.shape[2:]))
        groups = ops.take(vectors, ops.maximum(order, 0), axis=0)
        there = ops.reshape(order >= 0, (*ops.shape(order), *[1] * (len(groups.shape) - 2)))
        return ops.where(there, groups, 0.0)

    def compute_output_spec(self, inputs, training=None):
        return keras.KerasTensor((None, None, None), dtype="float32")

    def learn_scale(self, scale: float) -> Callable[[], Any]:
        """Add a weight for the factor of scores, and return a function that returns the factor, for a loss.

        Args:
            scale: the initial value. The weight is its logarithm; the factor is limited to `MAX_SCALE`.

        Reference: Radford et al., 2021, section 2.5 (https://arxiv.org/abs/2103.00020).
        """
        self.log_scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(math.log(scale)), name=LOG_SCALE)
        return lambda: ops.minimum(ops.exp(self.log_scale), MAX_SCALE)

    def _vectors_of_rows(self, rows, training):
        """The vectors of the texts of rows, `(rows, texts, ...)`."""
        ids, *segments, numbers, begins = rows
        inputs = [*self.tokens(ids), ids, *segments]
        masks = [numbers if self.packed else ops.not_equal(numbers, 0), *[None] * (len(inputs) - 1)]
        sequence = self.body.call(inputs, training=training, mask=masks)  # not the layer's method, which compares shapes and masks
        return self.pool(sequence, numbers, begins)

    def _in_chunks(self, parts, training):
        """The vectors of the texts of rows in chunks `(chunks, rows per chunk, ...)`: `(rows, texts, ...)`."""
        weights, seeds, pure = stateless([self.tokens, *self.body.layers], self._vectors_of_rows)

        before, count = [ops.copy(seed) for seed in seeds], ops.shape(parts[0])[0]

        def vectors_of_chunk(part):
            number, *rows = part
            # Every chunk draws its own dropout, from seeds that are unique among chunks and steps.
            states = [ops.concatenate([seed[:1] + ops.cast(number, seed.dtype), seed[1:]]) for seed in before]
            return recomputed(lambda values: pure(values, states, rows, training)[0], weights)

        vectors = ops.map(vectors_of_chunk, [ops.arange(count, dtype="int32"), *parts])
        for seed, value in zip(seeds, before, strict=True):
            seed.assign(ops.concatenate([value[:1] + ops.cast(count, value.dtype), value[1:]]))
        return ops.reshape(vectors, (-1, *vectors.shape[2:]))


def vector_model(encoder: keras.Model, vectors: TextVectors) -> BertModel:
    """The model that is trained on batches of `PackedGroups`, with the inputs and the output of `TextVectors`.

    Args:
        encoder: as for `TextVectors`.
        vectors: the layer.
    """
    names_of_encoder = {tensor.name for tensor in encoder.inputs}
    names = [name for name in INPUTS if name in names_of_encoder or name in INPUTS[2:]]
    inputs = [keras.Input((None,), dtype="int32", name=name) for name in names]
    model = BertModel(inputs, vectors(inputs))
    model.config = getattr(encoder, "config", None)
    return model
