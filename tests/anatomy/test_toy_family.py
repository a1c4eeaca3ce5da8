"""A family with a different anatomy is one file, `tests/helpers/toy_family.py`, and everything supports it."""

import keras
import numpy as np
import pytest
from helpers.reference import weights_of as values_of
from helpers.toy_family import TOY, ToyConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from keras_bert_rebuild import add_lora, attention_maps, build_model, compile_model, explain, from_pretrained, save_pretrained
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.layers.position_embedding import angles, rotate
from keras_bert_rebuild.models.encoder_blocks import Context, run_block
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory
from keras_bert_rebuild.training.distributed.distribution import axes_of

pytestmark = pytest.mark.backend

CONFIG = ToyConfig(
    family="gated_toy",
    vocab_size=23,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    layer_norm_eps=1e-5,
    hidden_act="gelu_erf",
    labels=("a", "b"),
)


@pytest.fixture(autouse=True)
def family(monkeypatch):
    monkeypatch.setitem(FAMILIES, "gated_toy", TOY)


@pytest.fixture
def model(rng):
    model = build_model(CONFIG, ("mlm",))
    for variable in model.weights:
        variable.assign(0.3 * rng.normal(size=variable.shape).astype("float32"))
    return model


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 23, (2, 11)).astype("int32")
    ids[1, 8:] = 0
    return ids


def plain_rotation(x, theta):
    """Rotary positions by complex numbers: the pair (i, i + width / 2) times e^(i · offset · speed)."""
    half = x.shape[-1] // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    turned = pairs * np.exp(1j * np.arange(x.shape[1])[:, None, None] * theta ** -(np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag], -1)


def plain_states(weights, ids, config):
    """Every hidden state in plain NumPy, float64, and the probabilities of every block."""
    erf = np.vectorize(__import__("math").erf)
    states, maps = [], []

    def normed(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config.layer_norm_eps) * weights[f"{name}/gamma"]

    x = normed(weights["Embedding-Token/embeddings"][ids], "Embedding-Norm")
    batch, length = ids.shape
    for number in range(1, config.num_hidden_layers + 1):
        name = f"Encoder-{number}-MultiHeadSelfAttention"
        read = normed(x, f"{name}-Norm") if number > 1 else x
        q, k, v = (
            (read @ weights[f"{name}/{part}/kernel"]).reshape(batch, length, config.num_attention_heads, -1)
            for part in ("query", "key", "value")
        )
        q, k = plain_rotation(q, config.rope_theta), plain_rotation(k, config.rope_theta)
        scores = np.einsum("blhk,bshk->bhls", q, k) / q.shape[-1] ** 0.5
        far = np.abs(np.arange(length)[:, None] - np.arange(length)) > (2 if number % 2 == 0 else length)
        scores = np.where((ids == 0)[:, None, None] | far, -np.inf, scores)
        with np.errstate(invalid="ignore"):
            p = np.exp(scores - scores.max(-1, keepdims=True))
        p = np.nan_to_num(p / p.sum(-1, keepdims=True))
        maps.append(p)
        x = x + np.einsum("bhls,bshk->blhk", p, v).reshape(batch, length, -1) @ weights[f"{name}/output/kernel"]
        name = f"Encoder-{number}-FeedForward"
        read = normed(x, f"{name}-Norm")
        gate, inner = (read @ weights[f"{name}/{part}/kernel"] for part in ("gate", "intermediate"))
        x = x + (gate * (1 + erf(gate / 2**0.5)) / 2 * inner) @ weights[f"{name}/output/kernel"]
        states.append(x)
    states[-1] = normed(x, "Encoder-Norm")
    return states, np.array(maps)


def test_the_model_follows_its_parts(model):
    shapes = {path: shape for path, (_, shape) in weights_of(CONFIG.encoder(), ("mlm",)).items()}
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == shapes
    assert (
        CONFIG.num_params(("mlm",))
        == model.count_params()
        == explain(model).total("params")
        == explain(CONFIG, ("mlm",)).total("params")
    )
    rows = [layer.name for layer in model.layers]
    assert "Encoder-1-MultiHeadSelfAttention-Norm" not in rows
    assert rows.index("Encoder-2-FeedForward-Norm") < rows.index("Encoder-2-FeedForward")


def test_hidden_states_and_attention_maps_equal_plain_numpy(model, ids):
    states, maps = plain_states(values_of(model), ids, CONFIG)
    encoder = build_model(CONFIG, output_layer_num=[2, 1, 0])
    for variable in encoder.weights:
        variable.assign(next(w for w in model.weights if w.path == variable.path))
    got = np.split(keras.ops.convert_to_numpy(encoder(ids)), 3, -1)
    for number, expected in enumerate(states):
        np.testing.assert_allclose(got[number][ids != 0], expected[ids != 0], atol=2e-5)
    shown = attention_maps(model, ids).probabilities
    np.testing.assert_allclose(shown.transpose(1, 0, 2, 3, 4)[0], maps[:, 0], atol=1e-5)
    np.testing.assert_allclose(shown[:, 1, :, :8], maps[:, 1, :, :8], atol=1e-5)


def test_a_block_outside_the_graph_equals_the_block_in_the_graph(model, rng):
    block = EncoderView(model).blocks[1]
    x = rng.normal(size=(1, 5, 16)).astype("float32")
    alone = run_block(block, x, Context(training=False))
    moved = run_block(block, x, Context(training=False, positions=np.arange(5)[None] + 7))  # only distances count
    alone, moved = (keras.ops.convert_to_numpy(keras.ops.stop_gradient(y)) for y in (alone, moved))
    np.testing.assert_allclose(moved, alone, atol=1e-5)
    assert np.abs(alone - x).max() > 0.1


@pytest.mark.slow
def test_it_trains_and_rematerialisation_changes_no_number(model, ids):
    inputs, labels = [ids, np.eye(2, 11, dtype="int32")], {"MLM": ids}
    start, ends = model.get_weights(), []
    for remat in (False, True):
        model.set_weights(start)
        compile_model(model, optimizer=keras.optimizers.SGD(0.1), remat=remat, jit_compile=False)
        model.train_on_batch(inputs, labels)
        ends.append(model.get_weights())
    for before, plain, again in zip(start, *ends, strict=True):
        np.testing.assert_allclose(again, plain, atol=1e-6)
        assert np.abs(plain - before).max() > 0


def test_it_is_planned_and_sharded():
    assert forward_flops(CONFIG, Work(10, 100, 2, 1), pair_head=False) == (
        3 * (2 * 10 * (4 * 16 * 16 + 3 * 16 * 12) + 4 * 100 * 16) + 2 * 2 * (16 * 16 + 16 * 23)
    )
    phase = PretrainSettings(batch_size=2, seq_len=16, max_predictions=2)
    assert step_memory(CONFIG, phase, "gpu", 2).activations > 0
    assert axes_of("Encoder-2-FeedForward/gate/kernel", (16, 12), 4) == (None, "model")


def test_adapters_learn_in_it(model, ids):
    before = keras.ops.convert_to_numpy(model([ids, ids * 0]))
    add_lora(model, rank=2)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model([ids, ids * 0])), before)
    assert sum("lora" in variable.path for variable in model.trainable_variables) == 3 * 2 * 2


def test_files_with_joined_arrays_round_trip_bit_exactly(model, ids, tmp_path):
    save_pretrained(model, tmp_path / "toy")
    arrays = load_file(tmp_path / "toy" / "model.safetensors")
    assert arrays["toy.layers.1.attn.Wqkv.weight"].shape == (48, 16)
    assert arrays["toy.layers.1.mlp.Wi.weight"].shape == (24, 16)
    back = from_pretrained(tmp_path / "toy")
    assert back.config == CONFIG.replace(labels=back.config.labels)
    assert values_of(back).keys() == values_of(model).keys()
    for path, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(back)[path], value)


def test_a_keras_file_restores_the_config_of_the_family(model, ids, tmp_path):
    model.save(tmp_path / "toy.keras")
    back = keras.saving.load_model(tmp_path / "toy.keras")
    assert back.config == CONFIG
    np.testing.assert_array_equal(back.predict([ids, ids * 0], verbose=0), model.predict([ids, ids * 0], verbose=0))


def test_its_onnx_export_gives_the_same_outputs(model, ids, tmp_path):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    encoder = build_model(CONFIG)
    session = reference.ReferenceEvaluator(onnx_model(encoder))
    (answer,) = session.run(None, {session.input_names[0]: ids.astype("int64")})
    expected = keras.ops.convert_to_numpy(encoder(ids))
    np.testing.assert_allclose(answer[ids != 0], expected[ids != 0], atol=2e-5)


@settings(max_examples=20)
@given(theta=st.floats(2, 1e6), length=st.sampled_from([1, 2, 40]), half=st.sampled_from([1, 8]))  # shapes are compiled
def test_rotary_heads_equal_a_rotation_of_complex_numbers(theta, length, half):
    x = np.random.default_rng(length).normal(size=(1, length, 2, 2 * half)).astype("float32")
    got = rotate(keras.ops.convert_to_tensor(x), *angles(np.arange(length), 2 * half, theta))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(got), plain_rotation(x.astype("float64"), theta), atol=1e-4)
