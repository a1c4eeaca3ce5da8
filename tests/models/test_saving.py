"""A saved model is loaded unchanged, in a process that imports only keras and this package."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, compiled, small_batch, small_model, spread

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.pretraining_model import PretrainingModel

# Legacy .h5 files and HDF5 in general cause warnings.
pytestmark = [pytest.mark.backend, pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")]

FRESH = """
import json, sys
import numpy as np
import keras, keras_bert_rebuild
folder = sys.argv[1]
data = np.load(folder + "/data.npz")
x, y = tuple(data[k] for k in ("ids", "segments", "chosen")), (data["labels"], data["nsp"])
other = x[1].copy()
other[:, -3:] = 1 - other[:, -3:]
results = {}
for file in sys.argv[2:]:
    if file == "model.json":
        model = keras.models.model_from_json(open(folder + "/model.json").read())
        model.load_weights(folder + "/model.weights.h5")
    else:
        model = keras.models.load_model(folder + "/" + file)
    before = model.predict(x, verbose=0)
    after = model.predict((x[0], other, x[2]), verbose=0)
    losses = model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history if model.optimizer is not None else {}
    np.savez(folder + "/" + file + ".npz", mlm=before[0], nsp=before[1])
    results[file] = {
        "class": type(model).__name__,
        "layers": [layer.name for layer in model.layers],
        "paths": [v.path for v in model.trainable_variables],
        "padding": float(np.abs(before[0] - after[0])[:, :-3].max()),
        "losses": losses,
    }
print("RESULT" + json.dumps(results))
"""
FILES = ("model.keras", "model.h5", "model.json")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a trained model in every kind of file, and its outputs in this process, which then continues training."""
    folder, rng = tmp_path_factory.mktemp("saved"), np.random.default_rng(11)
    model = compiled(
        spread(small_model(), rng), max_predictions=4, optimizer=None, warmup_steps=2, decay_steps=9, learning_rate=1e-2
    )
    x, y = small_batch(rng)
    np.savez(folder / "data.npz", ids=x[0], segments=x[1], chosen=x[2], labels=y[0], nsp=y[1])
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    (folder / "model.json").write_text(model.to_json())
    model.save_weights(folder / "model.weights.h5")
    for file in ("model.keras", "model.h5"):
        model.save(folder / file)
    predictions = model.predict(x, verbose=0)
    losses = model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history
    return folder, model, predictions, losses


@pytest.fixture(scope="module")
def loaded_elsewhere(saved):
    """The outputs of every file in another process."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", FRESH, str(saved[0]), *FILES]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    return json.loads(line.removeprefix("RESULT"))


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("file", FILES)
def test_a_new_process_loads_the_same_model(saved, loaded_elsewhere, file):
    folder, model, (mlm, nsp), losses = saved
    result, predictions = loaded_elsewhere[file], np.load(folder / f"{file}.npz")
    assert result["class"] == "PretrainingModel"
    assert result["layers"] == [layer.name for layer in model.layers]
    assert result["paths"] == [v.path for v in model.trainable_variables]
    assert result["padding"] == 0.0
    np.testing.assert_array_equal(predictions["mlm"], mlm)
    np.testing.assert_array_equal(predictions["nsp"], nsp)
    if file == "model.keras":
        assert result["losses"] == losses  # with the state of the optimizer: exactly
    elif file == "model.h5":
        assert result["losses"]["loss"] == pytest.approx(losses["loss"], rel=1e-6)


def test_the_summary_survives_a_round_trip(tmp_path):
    model = small_model(dropout_rate=0.1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    lines = [[], []]
    for m, out in zip((model, loaded), lines, strict=True):
        m.summary(line_length=200, print_fn=lambda line, out=out, **_: out.append(line))
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"use_task_embed": True, "task_num": 3},
        {"padding_mask": True},
        {"seq_len": None},
        {"attention_activation": "gelu", "feed_forward_activation": "relu"},
        {"attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-5, "type_vocab_size": 3},
        {"trainable": ["Encoder-2"]},
    ],
)
def test_every_kind_of_model_survives_a_round_trip(rng, tmp_path, arguments):
    model = spread(small_model(**arguments), rng)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, PretrainingModel)
    (ids, segments, chosen), _ = small_batch(rng)
    inputs = [ids, segments, chosen]
    if "task_num" in arguments:
        inputs.insert(2, np.ones((8, 1), int))
    if "padding_mask" in arguments:
        inputs.append((ids != 0).astype(int))
    for a, b in zip(model.predict(tuple(inputs), verbose=0), loaded.predict(tuple(inputs), verbose=0), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [v.path for v in loaded.trainable_variables] == [v.path for v in model.trainable_variables]


def test_a_users_model_on_top_survives_a_round_trip(rng, tmp_path):
    encoder = BertModel(*small_model(training=False, trainable=True))
    spread(encoder, rng)
    inputs = [keras.Input((LENGTH,), dtype="int32") for _ in range(2)]
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.LSTM(4)(encoder(inputs))))
    (ids, segments, _), _ = small_batch(rng)
    expected = model.predict((ids, segments), verbose=0)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras").predict((ids, segments), verbose=0), expected)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_models_survive_a_round_trip(rng, tmp_path, policy):
    if keras.backend.backend() == "jax" and policy == "mixed_float16":
        pytest.skip("JAX compiles no float16 attention for processors")
    keras.config.set_dtype_policy(policy)
    model = spread(small_model(), rng, scale=0.1)
    x, _ = small_batch(rng)
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    keras.config.set_dtype_policy("float32")  # the file has its dtype policy
    for a, b in zip(keras.models.load_model(tmp_path / "model.keras").predict(x, verbose=0), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_quantised_models_predict_and_survive_a_round_trip(policy, rng, tmp_path):
    keras.config.set_dtype_policy(policy)
    model = spread(small_model(), rng, scale=0.1)
    x, _ = small_batch(rng)
    exact = model.predict(x, verbose=0)
    # Keras warns of every layer that has nothing to quantise, its own Dropout included.
    with pytest.warns(UserWarning, match="quantiz"):
        model.quantize("int8")
    quantised = model.predict(x, verbose=0)
    assert "int8" in str(model.get_layer("Encoder-1-FeedForward").intermediate_dense.kernel.dtype)
    assert "int8" in str(model.get_layer("Embedding-Token").embeddings.dtype)
    most = 0.2 if traits.runs_on_accelerator() else 0.05  # an H100 rounds to int8 otherwise: 0.13
    for a, b in zip(exact, quantised, strict=True):
        assert 0 < np.abs(a - b).max() < most
    model.save(tmp_path / "model.keras")
    for a, b in zip(keras.models.load_model(tmp_path / "model.keras").predict(x, verbose=0), quantised, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_low_rank_adapters_learn(rng):
    model = small_model()
    x, y = small_batch(rng)
    for layer in model.layers:
        layer.trainable = False
    for block in (1, 2):
        attention = model.get_layer(f"Encoder-{block}-MultiHeadSelfAttention")
        attention.trainable = True
        for dense in (attention.query_dense, attention.key_dense, attention.value_dense, attention.output_dense):
            dense.enable_lora(4)
    compiled(model, max_predictions=4, optimizer=keras.optimizers.Adam(0.02))
    history = model.fit(x, y, batch_size=8, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] - 0.05


@pytest.mark.slow
@pytest.mark.backend("tensorflow")
def test_an_exported_model_runs_in_tensorflow_alone(rng, tmp_path):
    import tensorflow as tf

    model = spread(small_model(seq_len=None), rng)
    x, _ = small_batch(rng)
    model.export(str(tmp_path / "exported"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    answer = served.serve([tf.constant(value, "int32") for value in x])
    for a, b in zip(answer, model.predict(x, verbose=0), strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-6)
    assert served.serve([tf.constant(value[:3, :5], "int32") for value in x])[0].shape == (3, 5, VOCAB)
