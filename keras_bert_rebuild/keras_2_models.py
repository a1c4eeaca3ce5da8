"""Load whole models that Keras 2 saved, with BERT and user-defined layers."""

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_bert_rebuild.checkpoints.hdf5 import KerasH5, keras_bert_name
from keras_bert_rebuild.custom_objects import get_custom_objects
from keras_bert_rebuild.pretrained.keras_file import check_config, reading

# Settings of layers that become dimensions of their weights.
SIZES = ("input_dim", "output_dim", "units", "filters")


def load_keras_2_model(path: str | os.PathLike[str], custom_objects: Mapping[str, Any] | None = None) -> keras.Model:
    """Load a whole model that contains BERT, possibly as a nested model, from an .h5 file of Keras 2.

    The model is not compiled. `keras.models.load_model(path, custom_objects=get_custom_objects())` also restores the optimizer, but
    only if no layer in the file is a model and Keras 3 accepts the arguments of the optimizer.

    Args:
        path: the file, written by `model.save("model.h5")`.
        custom_objects: your own classes and functions, by name.

    Returns:
        A plain Keras model, with the file's layers and weights.

    Raises:
        ValueError: the file has only weights or is damaged, or a layer is unknown or is a Lambda, which would be executed.
    """
    path = Path(path)
    source = KerasH5(path, keras_bert_name)
    config = source.model_config
    if config is None:
        raise ValueError(f"{path} must have an architecture; it has only weights: build the model and call its load_weights.")
    with reading(path, "a model of Keras 2 that Keras 3 can build"):
        check_config(config, path)
        _check_sizes(config, source, path)
        values = _as_keras_3_reads_it(copy.deepcopy(config["config"]))
        model_class = keras.Sequential if config["class_name"] == "Sequential" else keras.Model
        with keras.saving.custom_object_scope({**get_custom_objects(), **(custom_objects or {})}):
            model = model_class.from_config(values)
        model.load_weights(path)
    return model


def _check_sizes(config, source, path):
    """Refuse a layer that is wider than any array in the file, before its weights are created."""
    longest = max((length for name in source.names for length in source.shape(name)), default=0)
    waiting = [config]
    while waiting:
        values = waiting.pop()
        inner = values.items() if isinstance(values, dict) else enumerate(values)
        for name, value in inner:
            if name in SIZES and isinstance(value, int) and value > longest:
                raise ValueError(f"{path} must have layers as wide as its arrays, at most {longest:,}; {name} is {value!r:.80}.")
            waiting += [value] if isinstance(value, (dict, list)) else []


def _as_keras_3_reads_it(config):
    """The config of a model in the form that Keras 3 reads: calls of nested models counted from 0, and shapes only for inputs.

    Keras 2 counts calls of a nested model from 1, since its own graph is the first call; Keras 3 does not find a call 1. Keras 2
    also stores a shape for every embedding.
    """
    if isinstance(config, list) or "input_layers" not in config:  # a Sequential model has no graph
        return config
    models = {layer["config"]["name"] for layer in config["layers"] if "layers" in layer["config"]}
    for layer in config["layers"]:
        if layer["class_name"] != "InputLayer":
            layer["config"].pop("batch_input_shape", None)
        if "layers" in layer["config"]:
            layer["config"] = _as_keras_3_reads_it(layer["config"])
    calls = [*_calls([layer.get("inbound_nodes", []) for layer in config["layers"]]), *_calls(config["output_layers"])]
    for name in models:
        of_model = [call for call in calls if call[0] == name]
        first = min((call[1] for call in of_model), default=0)
        for call in of_model:
            call[1] -= first
    return config


def _calls(nested):
    """The lists `[layer, call, output, ...]` in lists of lists."""
    if not isinstance(nested, list):
        return
    if len(nested) >= 3 and isinstance(nested[0], str) and isinstance(nested[1], int):
        yield nested
    else:
        for inner in nested:
            yield from _calls(inner)
