"""The model that computes vectors of texts: pooling on the last block, and rows of any length."""

import weakref

import keras
import numpy as np

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.buckets import SPARE
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import compiled_ahead, compiles_ahead, fetched
from keras_bert_rebuild.models.batch_check import check_inputs
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.heads import LAYERS
from keras_bert_rebuild.tasks.sentence_modules import module_layers
from keras_bert_rebuild.tasks.text_rows import begun, filled_up

# Poolings by name, and the function that creates the layer, in float32 under any policy, as the vectors are. Its argument is the
# number of tokens at the start of a row that are not pooled.
POOLINGS = {
    "cls": lambda skip=0: layers.Extract(index=0, skip_padding=skip > 0, dtype="float32", name="Pool-NSP"),
    "max": lambda skip=0: layers.MaskedGlobalMaxPool1D(dtype="float32", name="Pool-Max"),
    "mean": lambda skip=0: keras.layers.GlobalAveragePooling1D(dtype="float32", name="Pool-Ave"),
    "mean_sqrt_len": lambda skip=0: layers.MaskedSquareRootPool1D(dtype="float32", name="Pool-Root"),
    "weightedmean": lambda skip=0: layers.MaskedPositionPool1D(first=1 + skip, dtype="float32", name="Pool-Position"),
    "lasttoken": lambda skip=0: layers.Extract(index=-1, skip_padding=True, dtype="float32", name="Pool-Last"),
}

# Keras's layers that process every position in the same way, whatever the length.
OF_ANY_LENGTH = {"InputLayer", "Dropout", "Concatenate", "LayerNormalization", "Embedding", "Dense", "UnitNormalization"}

# The inputs that receive rows, in the order assumed for inputs with other names.
NAMES = ("Input-Token", "Input-Segment", "Input-Mask")

# For each model, the models built from it, by the arguments of `embedding_model`, so that each is built and compiled once.
_MODELS: weakref.WeakKeyDictionary[keras.Model, dict] = weakref.WeakKeyDictionary()


def embedding_model(model, poolings=(), normalize=False, any_length=False, modules=(), skip=0, width=None):
    """The first output of a model, pooled.

    The result shares all layers with the model. The same arguments return the same model, so that it is compiled once.

    Args:
        model: a functional model whose first output is a sequence `(batch, length, width)`; without poolings, any output.
        poolings: names of poolings, keys of `POOLINGS`, concatenated in that order; empty for the sequence itself.
        normalize: scale vectors to length 1.
        any_length: accept rows of any length, if the layers of the model can.
        modules: modules or layers that are applied to vectors before scaling, see `module_layers`.
        skip: number of tokens at the start of a row that are not pooled, such as those of a prompt.
        width: number of dimensions of the scaled vector to return; None for all.

    Returns:
        A `BertModel`.

    Raises:
        ValueError: the output to pool is not the last block, or the weights of a module have a different width.
    """
    models = _MODELS.setdefault(model, {})
    # Layers are compared by identity; models with modules, which are arrays, are not reused.
    key = (tuple(poolings), normalize, any_length, tuple(map(id, modules)), skip, width)
    if key not in models:
        result = pooled_model(for_any_length(model) if any_length else model, poolings, skip)
        result = with_modules(result, modules, normalize, width)
        if result is model:
            return model  # a reference from the table to the model would keep it alive
        models[key] = result, modules  # after an object is deleted, another may get its id
    return models[key][0]


def takes_any_length(model):
    """Whether a model of a static length would compute the same vectors for a shorter row."""
    return all(
        (type(layer).__module__.startswith("keras_bert_rebuild.") or type(layer).__name__ in OF_ANY_LENGTH)
        and getattr(layer, "index", 0) >= 0
        for layer in model.layers
    )


def for_any_length(model):
    """The model for rows of any length; the model itself if it accepts them already or its layers cannot."""
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


def pooled_model(model, poolings, skip=0):
    """A new model with the pooled first output of a model, see `embedding_model`; without poolings, the model itself."""
    if not poolings:
        return model
    first, name = model.outputs[0], model.output_names[0]
    if len(first.shape) != 3 or name in LAYERS.values():
        raise ValueError(
            "vectors are pooled from the last block, see from_pretrained(path, heads=[]); "
            f"the first output of this model is {name}, {first.shape}."
        )
    if skip:
        first = layers.WithoutLeadingTokens(skip, name="Pool-Skip")(first)
    outputs = [POOLINGS[name](skip)(first) for name in poolings]
    pooled = outputs[0] if len(outputs) == 1 else keras.layers.Concatenate(dtype="float32", name="Concatenate")(outputs)
    return sharing_layers(model, pooled)


def with_modules(model, modules, normalize=False, width=None):
    """A model with further layers after its vector.

    Args:
        model: a model whose output is a vector for each row, `(batch, width)`.
        modules: modules or layers, in order: see `module_layers`.
        normalize: scale the result to length 1.
        width: number of dimensions of the scaled vector to return; None for all.

    Returns:
        A `BertModel` that shares all layers with the model, or the model itself if there is nothing to add.

    Raises:
        ValueError: the weights of a module have a different width.
    """
    if not modules and not normalize and width is None:
        return model
    x = model.outputs[0]
    for layer in module_layers(modules, x.shape[-1]):
        x = layer(x)
    if normalize:
        x = keras.layers.UnitNormalization(dtype="float32", name="Pool-Unit")(x)
    if width is not None:
        x = layers.FirstFeatures(width, dtype="float32", name="Pool-Cut")(x)
    return sharing_layers(model, x)


def sharing_layers(model, output):
    """A model with the same inputs, layers and config, and another output."""
    shared = BertModel(bare_if_one(model.inputs), output)
    shared.config = getattr(model, "config", None)
    return shared


def longest_row(model):
    """The maximum length of a row for a model: its static length, the size of its position table, or its config's; else 512."""
    positions = (layer.max_length for layer in model.layers if isinstance(layer, layers.PositionEmbedding))
    of_config = 512 if getattr(model, "config", None) is None else model.config.max_length
    return model.inputs[0].shape[1] or next(positions, of_config)


def lengths_of(model, longest):
    """The lengths that rows of up to `longest` tokens are padded to: the model's static length, or those of `bucket_lengths`."""
    static = model.inputs[0].shape[1]
    return [static] if static else bucket_lengths(longest, traits.compiles_each_shape(model))


class RowAnswers:
    """A model as an asynchronous function of rows: a call starts the computation of a batch, and `fetch` waits for the output.

    Args:
        model: a model whose inputs are recognised by name; inputs with other names are ids, segments and a mask, in this order.
        pad_id: the id of padding.
        max_rows: a function from a length to the number of rows of a full batch, to limit the number of shapes: rows are padded to
            the length, and their number to a power of two. (A CPU caches a program for every shape, even if nothing is compiled.)
            None: do so only if every shape is compiled; otherwise pad to the longest row.
    """

    def __init__(self, model, pad_id=0, max_rows=None):
        self.model, self.pad_id, self.max_rows = model, pad_id, max_rows
        self._compiled = traits.compiles_each_shape(model)
        self._counts = {}  # for every length, the numbers of rows with a compiled program
        self._variables = None

    def start(self):
        """Begin a stream of batches, in which the model has the same variables; their values may change."""
        self._variables = list(self.model.variables)

    def compile_ahead(self, batches):
        """Start compiling what the first batches need, if they need several programs and the model `compiles_ahead`.

        Args:
            batches: pairs of a number of rows and the length to pad them to.
        """
        if len(batches) < 2 or self.model.inputs[0].shape[1] is not None or not compiles_ahead(self.model):
            return
        compiled = {(rows, length) for length, counts in self._counts.items() for rows in counts}
        shapes = {(len(self._filled_up(count, length)), length) for count, length in batches} - compiled
        if len(shapes) > 1:
            empty = [bare_if_one(tuple(np.zeros(shape, "int32") for _ in self._names())) for shape in shapes]
            compiled_ahead(self.model, [check_inputs(self.model, inputs) for inputs in empty])

    def __call__(self, rows, length):
        """Start computing `EncodedRows`, padded to a length; return the argument of `fetch` and the number of rows."""
        model, count = self.model, len(rows)
        few_shapes = self.max_rows is not None or self._compiled
        if not few_shapes and model.inputs[0].shape[1] is None:
            length = int(rows.sizes.max())
        arrays = rows.arrays(self._names(), length, self.pad_id)
        if few_shapes:
            filled = self._filled_up(count, length)
            arrays = [array[filled] for array in arrays] if len(filled) != count else arrays
        return begun(model, bare_if_one(tuple(arrays)), self._variables), count

    def fetch(self, answers):
        """Wait for a batch that was started; its rows, a float32 array."""
        outputs, count = answers
        return fetched(outputs)[:count]

    def _names(self):
        """What each input of the model receives."""
        return [tensor.name if tensor.name in NAMES else name for tensor, name in zip(self.model.inputs, NAMES, strict=False)]

    def _filled_up(self, count, length):
        """The indices of the rows, padded to reuse a compiled program if one has not too many more rows."""
        counts = self._counts.setdefault(length, set())
        fitting = [rows for rows in counts if count <= rows <= SPARE * count] if self._compiled else []
        rows = min(fitting) if fitting else len(filled_up(count, self.max_rows and self.max_rows(length)))
        counts.add(rows)
        return np.arange(rows) % count
