"""A copy of the encoder of a model in training, which computes vectors without touching the model."""

import random
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.kernels import unwritten
from keras_bert_rebuild.layers.keras_layers import skipped_initialization
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.tasks.embedding_model import pooled_model
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.training.distributed.distribution import on_one_device
from keras_bert_rebuild.training.distributed.hosts import host_index, whole_array

BATCH_SIZE = 32


class EncoderCopy:
    """An encoder with its own weights, for rows of one sequence, on the first device of host 0; empty on other hosts.

    The model in training may have packed rows, sharded weights and a compiled step; none of these is touched. Its weights are
    copied before every use, which needs memory for one more encoder. The random state of the process is not changed.

    Args:
        model: the model in training, with the layer names of `build_model`.
        tokenizer: the model's tokenizer.
        max_len: maximum number of tokens in a row.
    """

    def __init__(self, model: keras.Model, tokenizer: BatchTokenizer, max_len: int) -> None:
        self.tokenizer, self.max_len, self.here = tokenizer, max_len, host_index() == 0
        names = dict.fromkeys(path.partition("/")[0] for path in weights_of(model.config.encoder(), ()))
        layers = {layer.name: layer for layer in model.layers}
        self._trained = [layers[name] for name in names]
        if self.here:
            states = random.getstate(), np.random.get_state()
            with on_one_device(), skipped_initialization(unwritten):
                self._encoder = build_model(model.config)
                self._pooled = pooled_model(self._encoder, ["mean"])
            random.setstate(states[0])  # Keras would draw seeds for dropout layers without one
            np.random.set_state(states[1])

    def update(self) -> None:
        """Copy the current weights of the model; all hosts must call this."""
        for layer in self._trained:
            arrays = [whole_array(weight.value) for weight in layer.weights]
            if self.here:
                for weight, array in zip(self._encoder.get_layer(layer.name).weights, arrays, strict=True):
                    weight.assign(array)

    def rows(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """The inputs of the encoder for texts, which can be passed to `vectors` many times."""
        encoded = self.tokenizer.encode_batch(list(texts), max_len=self.max_len)
        names = [tensor.name for tensor in self._pooled.inputs]
        return model_inputs(names, list(encoded.ids), list(encoded.segments), self.tokenizer.pad_id)

    def vectors(self, rows: tuple[Any, Any]) -> npt.NDArray[Any]:
        """The mean output of the last block over the tokens of each text, `(texts, width)`; equal rows give equal batches."""
        with on_one_device():
            return np.stack(predict_rows(self._pooled, *rows, max_len=self.max_len, batch_size=BATCH_SIZE))
