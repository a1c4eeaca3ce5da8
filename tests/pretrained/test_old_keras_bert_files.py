""".h5 files of keras_bert with features of some releases only: adapters, task embedding, names of gelu."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.run_model import answers

from keras_bert_rebuild import from_pretrained

GOLDEN = Path(__file__).parents[1] / "golden" / "keras_bert"


@pytest.fixture
def file(tmp_path):
    """A copy of a whole model that keras_bert saved: two blocks of 8."""
    return shutil.copy(GOLDEN / "model.h5", tmp_path / "model.h5")


def add_layer(path, name, settings, weights):
    """Add a layer to a file as Keras 2 does: to the architecture, the list of names, and as a group of weights."""
    with h5py.File(path, "a") as file:
        architecture = json.loads(file.attrs["model_config"])
        architecture["config"]["layers"].append({"class_name": "Any", "config": {"name": name, **settings}, "name": name})
        file.attrs["model_config"] = json.dumps(architecture)
        group = file["model_weights"]
        group.attrs["layer_names"] = np.array([*group.attrs["layer_names"], name], "S")
        layer = group.create_group(name)
        layer.attrs["weight_names"] = [f"{name}/{weight}:0".encode() for weight in weights]
        for weight, value in weights.items():
            layer.create_dataset(f"{name}/{weight}:0", data=value)


def set_activation(path, word):
    with h5py.File(path, "a") as file:
        architecture = json.loads(file.attrs["model_config"])
        for layer in architecture["config"]["layers"]:
            if layer["config"]["name"].endswith("-FeedForward"):
                layer["config"]["activation"] = word
        file.attrs["model_config"] = json.dumps(architecture)


def test_adapters_are_loaded_with_their_weights(file, rng):
    expected = {}
    for n in (1, 2):
        for half in ("MultiHeadSelfAttention", "FeedForward"):
            name = f"Encoder-{n}-{half}-Adapter"
            shapes = {"W1": (8, 3), "b1": (3,), "W2": (3, 8), "b2": (8,)}
            expected[name] = {f"{name}_{weight}": rng.normal(size=shape).astype("float32") for weight, shape in shapes.items()}
            add_layer(file, name, {"units": 3}, expected[name])
    model = from_pretrained(file)
    assert model.config.adapter_size == 3
    for name, weights in expected.items():
        for got, want in zip(model.get_layer(name).get_weights(), weights.values(), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_task_embedding_is_loaded_with_its_weights(file, rng):
    table = rng.normal(size=(4, 8)).astype("float32")
    add_layer(file, "Embedding-Task", {"input_dim": 4}, {"embeddings": table})
    model = from_pretrained(file)
    assert [tensor.name for tensor in model.inputs] == ["Input-Token", "Input-Segment", "Input-Task", "Input-Masked"]
    np.testing.assert_array_equal(model.get_layer("Embedding-Task").get_weights()[0], table)


def test_the_names_of_gelu_in_0_66_to_0_70_mean_its_two_forms(file):
    golden = np.load(GOLDEN / "golden_h5.npz")
    answered = {}
    for word in ("gelu", "gelu_fallback", "gelu_tensorflow"):
        set_activation(file, word)
        model = from_pretrained(file)
        answered[word] = answers(model, golden["ids"], golden["seg"])[0]
    np.testing.assert_array_equal(answered["gelu_fallback"], answered["gelu"])
    assert 0 < np.abs(answered["gelu_tensorflow"] - answered["gelu"]).max() < 1e-3
    assert model.config.hidden_act == "gelu_erf"
