"""The outputs of a model as a function of its token vectors, with all other inputs held fixed."""

import weakref
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.models.after_tokens import graph_after_tokens
from keras_bert_rebuild.models.encoder import TOKEN
from keras_bert_rebuild.models.named_inputs import real_tokens

# The graphs of a model by the ids of their outputs. The symbolic tensors are retained, since an id may otherwise be reused.
_GRAPHS: weakref.WeakKeyDictionary[keras.Model, dict] = weakref.WeakKeyDictionary()


class EmbeddingGraph:
    """The outputs of a model as a function of its token vectors, before positions and segments are added.

    It runs the part of the model's functional graph after its token table, with the weights of the model.

    Args:
        model: a functional model of this library.
        outputs: symbolic tensors of its graph to return; None for the outputs of the model.

    Raises:
        ValueError: the model has no token table in its own graph.
    """

    def __init__(self, model: keras.Model, outputs: Any = None) -> None:
        self.layers = {layer.name: layer for layer in model.layers}
        if TOKEN not in self.layers:
            raise ValueError(f"the model must have the layer {TOKEN} in its own graph; {model.name} has none.")
        self.tokens = self.layers[TOKEN]
        self.names = [tensor.name for tensor in model.inputs]
        outputs = model.outputs if outputs is None else outputs
        graphs = _GRAPHS.setdefault(model, {})
        key = tuple(map(id, keras.tree.flatten(outputs)))
        if key not in graphs:
            graphs[key] = graph_after_tokens(model, outputs), outputs
        self.graph = graphs[key][0]

    def vectors(self, ids: Any) -> np.ndarray:
        """The rows of the token table for ids `(...)`: float32 `(..., width)`."""
        vectors, _ = self.tokens(ops.convert_to_tensor(np.asarray(ids, "int32")))
        return ops.convert_to_numpy(ops.cast(ops.stop_gradient(vectors), "float32"))

    def __call__(self, vectors: Any, inputs: Mapping[str, np.ndarray]) -> Any:
        """The outputs for token vectors, as in prediction.

        Args:
            vectors: a tensor `(copies, rows, length, width)`.
            inputs: the inputs of the model by name, `(rows, length)`, for everything except the vectors, such as segments and
                padding.

        Returns:
            The output, or a list of outputs, `(copies, rows, ...)`.
        """
        copies, rows = vectors.shape[:2]
        tensors = {name: ops.convert_to_tensor(np.tile(inputs[name], (copies, 1)).astype("int32")) for name in self.names}
        mask = real_tokens(self.layers, tensors)
        flat = ops.cast(ops.reshape(vectors, (copies * rows, *vectors.shape[2:])), self.tokens.compute_dtype)
        _, table = self.tokens(ops.zeros((1, 1), "int32"))
        given = [flat, ops.stop_gradient(table), *(tensors[name] for name in self.names)]
        # Not the layer's __call__, which warns if a tensor carries a mask.
        outputs = self.graph.call(given, training=False, mask=[mask] + [None] * (len(given) - 1))
        return keras.tree.map_structure(lambda x: ops.reshape(x, (copies, rows, *x.shape[1:])), outputs)
