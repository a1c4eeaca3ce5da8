""".h5 files that keras_bert, of several releases, and the TensorFlow classes of transformers wrote."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.small import answers

from keras_bert_rebuild import BertConfig, from_pretrained

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize(("file", "config"), [("model.h5", None), ("weights.h5", CONFIG)])
def test_a_model_of_keras_bert_gives_the_same_outputs(file, config):
    golden = np.load(GOLDEN / "keras_bert" / "golden_h5.npz")
    model = from_pretrained(GOLDEN / "keras_bert" / file, config=config)
    mlm, nsp = model.predict([golden["ids"], golden["seg"], golden["msk"]], verbose=0)
    np.testing.assert_allclose(mlm, golden["mlm"], atol=1e-6)
    np.testing.assert_allclose(nsp, golden["nsp"], atol=1e-6)
    assert model.load_report.missing == model.load_report.unused == []


def test_weights_of_keras_bert_alone_need_a_config():
    with pytest.raises(ValueError, match=r"expected bert_config.json next to .*weights.h5; none exists, and no config was given"):
        from_pretrained(GOLDEN / "keras_bert" / "weights.h5")


def test_the_tensorflow_pretraining_model_gives_the_same_outputs():
    golden = np.load(GOLDEN / "tf_pretraining" / "golden_h5.npz")
    model = from_pretrained(GOLDEN / "tf_pretraining")
    mlm, nsp = answers(model, golden["ids"], golden["ids"] * 0)
    np.testing.assert_allclose(mlm, softmax(golden["prediction_logits"]), atol=1e-6)
    np.testing.assert_allclose(nsp, softmax(golden["seq_relationship_logits"]), atol=1e-6)


def test_the_tensorflow_classifier_gives_the_same_outputs():
    golden = np.load(GOLDEN / "tf_classification" / "golden_h5.npz")
    (logits,) = answers(from_pretrained(GOLDEN / "tf_classification"), golden["ids"], golden["ids"] * 0)
    np.testing.assert_allclose(logits, golden["logits"], atol=1e-6)


def test_a_truncated_file_is_one_sentence(tmp_path):
    content = (GOLDEN / "keras_bert" / "model.h5").read_bytes()
    (tmp_path / "model.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is not an HDF5 file or is damaged"):
        from_pretrained(tmp_path)


def test_two_copies_of_a_tied_table_must_be_equal(tmp_path):
    shutil.copytree(GOLDEN / "tf_pretraining", tmp_path / "model")
    with h5py.File(tmp_path / "model" / "tf_model.h5", "a") as file:
        file["mlm___cls/bert/embeddings/word_embeddings/weight:0"][0, 0] += 1
    with pytest.raises(ValueError, match=r"bert.embeddings.word_embeddings.weight twice, with different values"):
        from_pretrained(tmp_path / "model")


def test_a_whole_model_without_pretraining_heads_is_loaded_from_an_h5_file(tmp_path):
    from helpers.small_tasks import small_encoder

    model = small_encoder()
    model.save(tmp_path / "model.h5")
    loaded = from_pretrained(tmp_path / "model.h5")
    for mine, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


KERAS_BERT = Path(__file__).parents[1] / "golden" / "keras_bert"


@pytest.fixture
def file(tmp_path):
    """A copy of a whole model that keras_bert saved: two blocks of 8."""
    return shutil.copy(KERAS_BERT / "model.h5", tmp_path / "model.h5")


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
    golden = np.load(KERAS_BERT / "golden_h5.npz")
    answered = {}
    for word in ("gelu", "gelu_fallback", "gelu_tensorflow"):
        set_activation(file, word)
        model = from_pretrained(file)
        answered[word] = answers(model, golden["ids"], golden["seg"])[0]
    np.testing.assert_array_equal(answered["gelu_fallback"], answered["gelu"])
    assert 0 < np.abs(answered["gelu_tensorflow"] - answered["gelu"]).max() < 1e-3
    assert model.config.hidden_act == "gelu_erf"
