"""Classifiers of keras_bert's users, as Keras 2 saved them: loaded whole, and as BERT alone."""

import json

import h5py
import keras
import numpy as np
import pytest
from helpers.hostile_inputs import fault_of, mutations
from helpers.small_checkpoints import CLASSES, HEAD, write_classifier

from keras_bert_rebuild import from_pretrained, get_custom_objects
from keras_bert_rebuild.keras_2_models import load_keras_2_model

pytestmark = pytest.mark.backend

IDS = np.random.default_rng(0).integers(1, 30, (4, 10))
ASKED = [IDS, np.zeros_like(IDS)]

every_kind = pytest.mark.parametrize(
    ("nested", "model_class"), [(False, "Functional"), (False, "Model"), (True, "Functional"), (True, "Model")]
)


def bert_alone(path):
    with pytest.warns(UserWarning, match=rf"has 2 weights that do not belong to bert and were ignored: {HEAD}/bias, {HEAD}/kernel"):
        return from_pretrained(path)


@every_kind
def test_from_pretrained_names_the_head_that_it_leaves_out(tmp_path, nested, model_class):
    write_classifier(tmp_path / "classifier.h5", nested=nested, model_class=model_class)
    model = bert_alone(tmp_path / "classifier.h5")
    assert model.load_report.unused == [f"{HEAD}/bias", f"{HEAD}/kernel"]
    assert model.config.num_hidden_layers == 2
    assert model.output_names[-1] == "NSP-Dense"


@pytest.mark.slow
@every_kind
def test_the_whole_classifier_has_the_weights_of_the_file(tmp_path, nested, model_class):
    kernel, bias = write_classifier(tmp_path / "classifier.h5", nested=nested, model_class=model_class)
    pooled = bert_alone(tmp_path / "classifier.h5").predict(ASKED, verbose=0)[1]
    logits = pooled.astype("float64") @ kernel + bias
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    model = load_keras_2_model(tmp_path / "classifier.h5")
    np.testing.assert_allclose(model.predict(ASKED, verbose=0), expected, atol=1e-5)
    model.compile("adam", "sparse_categorical_crossentropy")
    assert np.isfinite(model.fit(ASKED, np.zeros(4), verbose=0).history["loss"]).all()


def test_the_error_names_layers_of_the_user_inside_a_nested_model(tmp_path):
    extra = {"my_norm/gamma:0": np.ones(8, "float32")}
    write_classifier(tmp_path / "classifier.h5", nested=True, extra=extra)
    with pytest.warns(UserWarning, match="has 3 weights that do not belong to bert"):
        model = from_pretrained(tmp_path / "classifier.h5")
    assert model.load_report.unused == ["model_1/my_norm/gamma", f"{HEAD}/bias", f"{HEAD}/kernel"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")
def test_the_state_of_adam_warmup_continues_where_keras_bert_stopped(tmp_path):
    write_classifier(tmp_path / "classifier.h5", optimizer="AdamWarmup")
    model = keras.models.load_model(tmp_path / "classifier.h5", custom_objects=get_custom_objects())
    model.optimizer.build(model.trainable_variables)
    assert int(model.optimizer.iterations) == 57
    moments = [v for v in model.optimizer.variables if v.path.endswith(("_momentum", "_velocity"))]
    assert len(moments) == 2 * len(model.trainable_variables)
    for variable in moments:
        value = 0.5 if variable.path.endswith("_momentum") else 0.25
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), np.full(variable.shape, value, "float32"))
    model.fit(ASKED, np.arange(4) % CLASSES, verbose=0)
    assert int(model.optimizer.iterations) == 58


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")
def test_the_state_of_another_model_is_dropped_with_a_warning_and_fit_works(tmp_path):
    write_classifier(tmp_path / "classifier.h5", optimizer="AdamWarmup")
    model = keras.models.load_model(tmp_path / "classifier.h5", custom_objects=get_custom_objects())
    model.get_layer("Embedding-Token").trainable = False
    model.compile(model.optimizer, "sparse_categorical_crossentropy")
    with pytest.warns(
        UserWarning, match=r"83 arrays of AdamWarmup's state in the file do not match this model: the optimizer restarts"
    ):
        model.fit(ASKED, np.zeros(4), verbose=0)
    assert int(model.optimizer.iterations) == 1


def test_weights_alone_are_not_a_model(tmp_path):
    write_classifier(tmp_path / "classifier.h5")
    with h5py.File(tmp_path / "classifier.h5", "a") as file:
        del file.attrs["model_config"]
    with pytest.raises(ValueError, match="must have an architecture; it has only weights"):
        load_keras_2_model(tmp_path / "classifier.h5")


def test_a_layer_wider_than_any_array_is_refused_before_its_weights_are_created(tmp_path):
    path = tmp_path / "classifier.h5"
    write_classifier(path)
    with h5py.File(path, "a") as file:
        file.attrs["model_config"] = file.attrs["model_config"].replace('"input_dim": 30', f'"input_dim": {2**40}')
    with pytest.raises(
        ValueError, match=rf"classifier\.h5 must have layers as wide as its arrays, at most 30; input_dim is {2**40}\."
    ):
        load_keras_2_model(path)


@pytest.mark.slow(torch=True)
def test_a_value_of_a_wrong_type_in_the_architecture_is_a_sentence_that_names_the_file(tmp_path):
    path, faults = tmp_path / "classifier.h5", []
    write_classifier(path)
    with h5py.File(path) as file:
        good = json.loads(file.attrs["model_config"])
    several = list(mutations(good))
    for where, mutated in (several[i] for i in np.random.default_rng(0).choice(len(several), 6, replace=False)):
        with h5py.File(path, "a") as file:
            file.attrs["model_config"] = json.dumps(mutated).replace("Infinity", "1e400")
        fault = fault_of(lambda: load_keras_2_model(path), str(path))
        faults += [] if fault is None else [f"{where}: {fault}"]
    assert faults == []
