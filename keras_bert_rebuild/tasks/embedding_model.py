"""The model that vectors of texts come from: pooling on the last block, and rows of any length."""

import weakref

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.data.length_buckets import padded
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.heads import LAYERS
from keras_bert_rebuild.tasks.one_at_a_time import predicted

# Name of a pooling, what makes its layer.
POOLINGS = {
    "cls": lambda: layers.Extract(index=0, name="Pool-NSP"),
    "max": lambda: layers.MaskedGlobalMaxPool1D(name="Pool-Max"),
    "mean": lambda: keras.layers.GlobalAveragePooling1D(name="Pool-Ave"),
}

# Keras's layers that do the same to a position in a sequence of any length.
OF_ANY_LENGTH = {"InputLayer", "Dropout", "Concatenate", "LayerNormalization", "Embedding", "Dense", "UnitNormalization"}

# A model is built and compiled once: model, from (poolings, normalize, any length) to what was made of it.
_MADE: weakref.WeakKeyDictionary[keras.Model, dict] = weakref.WeakKeyDictionary()


def embedding_model(model, poolings=(), normalize=False, any_length=False):
    """The first output of a model, pooled.

    The result shares all layers with the model. The same question is answered with the same model, so that it is compiled once.

    Args:
        model: a functional model whose first output is a sequence `(batch, length, width)`, or with no poolings anything.
        poolings: names of poolings, keys of `POOLINGS`, joined in that order; empty for the sequence itself.
        normalize: scale vectors to length 1.
        any_length: take rows of any length, where the layers of the model can.

    Returns:
        A `BertModel`.

    Raises:
        ValueError: poolings of anything but the last block.
    """
    made = _MADE.setdefault(model, {})
    key = (tuple(poolings), normalize, any_length)
    if key not in made:
        result = _pooled(of_any_length(model) if any_length else model, poolings, normalize)
        if result is model:
            return model  # kept here it would keep itself alive
        made[key] = result
    return made[key]


def takes_any_length(model):
    """Whether a model of a static length would give a shorter row the same vectors."""
    return all(
        (type(layer).__module__.startswith("keras_bert_rebuild.") or type(layer).__name__ in OF_ANY_LENGTH)
        and getattr(layer, "index", 0) >= 0
        for layer in model.layers
    )


def of_any_length(model):
    """The model for rows of any length, or the model itself where it takes these or where its layers cannot."""
    static = any(tensor.shape[1] is not None for tensor in model.inputs if tensor.name != "Input-Task")
    if not static or not takes_any_length(model):
        return model
    inputs = [
        keras.Input(tensor.shape[1:] if tensor.name == "Input-Task" else (None,), dtype=tensor.dtype, name=tensor.name)
        for tensor in model.inputs
    ]
    arranged = keras.tree.pack_sequence_as(model.input, inputs)
    free = keras.models.clone_model(model, input_tensors=arranged, clone_function=lambda layer: layer)
    free.config = getattr(model, "config", None)
    return free


def _pooled(model, poolings, normalize):
    if not poolings and not normalize:
        return model
    first, name = model.outputs[0], model.output_names[0]
    if poolings and (len(first.shape) != 3 or name in LAYERS.values()):
        raise ValueError(
            "vectors are pooled from the last block, as of from_pretrained(path, heads=[]); "
            f"the first output of this model is {name}, {first.shape}."
        )
    outputs = [POOLINGS[name]()(first) for name in poolings] or [first]
    x = outputs[0] if len(outputs) == 1 else keras.layers.Concatenate(name="Concatenate")(outputs)
    if normalize:
        x = keras.layers.UnitNormalization(name="Pool-Unit")(x)
    pooled = BertModel(model.inputs if len(model.inputs) > 1 else model.inputs[0], x)
    pooled.config = getattr(model, "config", None)
    return pooled


def is_compiled_by_shape(model):
    """Whether every new shape of a batch costs a compilation."""
    return traits.compiles_each_shape(model)


def longest_row(model):
    """The longest row that a model takes: its static length, the rows of its position table, or BERT's 512 where nothing says."""
    positions = (layer.max_length for layer in model.layers if isinstance(layer, layers.PositionEmbedding))
    return model.inputs[0].shape[1] or next(positions, 512)


def inputs_of_rows(model, rows, length, pad_id=0):
    """The arrays that a model takes for rows `(ids, segments)`, padded to a length.

    Args:
        model: its inputs are told by their names; those of other names are ids and segments, in this order.
        pad_id: the id of padding.
    """
    columns = {
        "Input-Token": lambda: padded([ids for ids, _ in rows], length, pad_id),
        "Input-Segment": lambda: padded([segments for _, segments in rows], length, 0),
        "Input-Mask": lambda: padded([[1] * len(ids) for ids, _ in rows], length, 0),
    }
    names = [tensor.name if tensor.name in columns else name for tensor, name in zip(model.inputs, columns, strict=False)]
    arrays = [columns[name]() for name in names]
    return arrays if len(arrays) > 1 else arrays[0]


def predict_batch(model, rows, length, pad_id=0, most=None):
    """What a model answers to rows `(ids, segments)`, an array with a row for each.

    Args:
        most: rows of a full batch of this length, for batches of few shapes: padding goes up to `length`, and rows that are not as
            many are filled up to a power of two. A processor keeps a program for every shape, also where nothing is compiled. None:
            only where every shape is compiled; elsewhere padding goes to the longest row.
    """
    filled = rows
    if most is not None or is_compiled_by_shape(model):
        power = 1 << (len(rows) - 1).bit_length()
        filled = [rows[i % len(rows)] for i in range(power if most is None or len(rows) > most else min(power, most))]
    elif model.inputs[0].shape[1] is None:
        length = max(len(ids) for ids, _ in rows)
    return predicted(model, inputs_of_rows(model, filled, length, pad_id))[: len(rows)]
