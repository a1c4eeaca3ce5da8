"""`StableAdamW` and `Muon` against their formulas in NumPy, float64."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import JIT, known_gradients, linear_data, linear_model, value, warmup_linear
from helpers.small import compiled, small_model

from keras_bert_rebuild import AdamW, WarmupLinearDecay
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import StableAdamW
from keras_bert_rebuild.training.optimizers.muon import Muon, orthogonalised

pytestmark = pytest.mark.backend

NO_DECAY = ("bias", "gamma", "beta")
EACH = pytest.mark.parametrize("optimizer_class", [StableAdamW, Muon])


def newton_schulz(x):
    """Five rounds of X ← a X + (b A + c A²) X with A = X Xᵀ, in float64 and without transposing."""
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def train(kind, weights, gradients, rate, weight_decay, clip, ema, b1=0.9, b2=0.999, eps=1e-6, mu=0.95):
    """Weights and averages after one step for each of a list of gradients, all of them `{path: array}`."""
    weights = {path: np.array(w, "float64") for path, w in weights.items()}
    m, v, averages = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0), dict(weights)
    for t, given in enumerate(gradients, 1):
        factor = min(1.0, clip / np.sqrt(sum((g**2).sum() for g in given.values())))
        for path, w in weights.items():
            g, speed = given[path] * factor, rate(t - 1) * (0.5 if path.endswith("kernel") else 1.0)
            if kind is Muon and path.endswith("kernel"):
                m[path] = mu * m[path] + g
                step = 0.2 * np.sqrt(max(w.shape)) * newton_schulz(g + mu * m[path])
            else:
                m[path], v[path] = b1 * m[path] + (1 - b1) * g, b2 * v[path] + (1 - b2) * g**2
                seen = v[path] / (1 - b2**t)
                step = m[path] / (1 - b1**t) / (np.sqrt(seen) + eps)
                if kind is StableAdamW:
                    speed = speed / max(1.0, np.sqrt(np.mean(g**2 / np.maximum(seen, eps**2))))
            if not path.endswith(NO_DECAY):
                step = step + weight_decay * w
            weights[path] = w - speed * step
            averages[path] = ema * averages[path] + (1 - ema) * weights[path]
    return weights, averages


@EACH
@pytest.mark.parametrize("jit_compile", JIT[keras.backend.backend()])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_ten_steps_are_those_of_numpy(rng, optimizer_class, accumulated, jit_compile):
    start, x, y = linear_data(rng, 10 * accumulated)
    x[6 * accumulated :] *= 30  # gradients that grow: the second moment lags behind
    optimizer = optimizer_class(
        WarmupLinearDecay(0.1, 3, 12),
        weight_decay=0.3,
        rate_multipliers={"kernel$": 0.5},
        global_clipnorm=20.0,
        ema_momentum=0.8,
        gradient_accumulation_steps=accumulated if accumulated > 1 else None,
    )
    model = linear_model(start, optimizer, jit_compile=jit_compile)
    model.fit(x, y, batch_size=1, shuffle=False, verbose=0)
    gradients = known_gradients(x, y, accumulated)
    expected, averages = train(optimizer_class, start, gradients, lambda done: warmup_linear(0.1, 3, 12, done), 0.3, 20.0, 0.8)
    for variable in model.trainable_variables:
        np.testing.assert_allclose(value(variable), expected[variable.path], rtol=0, atol=2e-6)
        np.testing.assert_allclose(value(optimizer.average_of(variable)), averages[variable.path], rtol=0, atol=2e-6)


def stepped(optimizer, start, gradients):
    variable = keras.Variable(start, name="kernel")
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(np.asarray(gradient, "float32"))])
    return value(variable)


def test_a_step_after_a_jump_of_the_gradient_is_limited_and_others_are_those_of_adamw(rng):
    start, steady = rng.normal(size=(4, 5)), rng.choice([-1.0, 1.0], size=(4, 5))
    calm = [stepped(kind(0.1, epsilon=1e-8), start, [steady] * 4) for kind in (StableAdamW, AdamW)]
    np.testing.assert_allclose(*calm, rtol=0, atol=1e-5)  # 1 − 0.999 in float32
    gradients = [steady] * 4 + [100 * steady]
    ours, adam = (stepped(kind(0.1, weight_decay=0.0, epsilon=1e-8), start, gradients) for kind in (StableAdamW, AdamW))
    before = stepped(AdamW(0.1, weight_decay=0.0, epsilon=1e-8), start, gradients[:4])
    v = (1 - 0.999**4) * 0.999 + 0.001 * 100**2
    rms = 100 / np.sqrt(v / (1 - 0.999**5))
    assert rms > 2
    np.testing.assert_allclose((ours - before) * rms, adam - before, rtol=1e-3)


@pytest.mark.parametrize("epsilon", [1e-6, 0.0])
def test_a_variable_whose_gradient_is_zero_stays(epsilon):
    start = np.ones((2, 3), "float32")
    optimizer = StableAdamW(0.1, weight_decay=0.0, epsilon=1e-6)
    np.testing.assert_array_equal(stepped(optimizer, start, [np.zeros((2, 3))] * 2), start)
    limited = StableAdamW(0.1, epsilon=epsilon).limited_rate(0.5, keras.ops.zeros(3), keras.ops.zeros(3), keras.ops.ones(()))
    assert float(value(limited)) == 0.5


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3)])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_singular_vectors_stay_and_the_values_are_near_one(rng, shape, scale):
    matrix = rng.normal(size=shape).astype("float32") * np.float32(scale)
    u, sizes, v = np.linalg.svd(matrix.astype("float64"), full_matrices=False)
    found = u.T @ value(orthogonalised(keras.ops.convert_to_tensor(matrix))).astype("float64") @ v.T
    near = np.diag(found)[sizes > 0.02 * np.linalg.norm(sizes)]
    assert len(near) > 1
    assert near.min() > 0.65
    assert near.max() < 1.25
    np.testing.assert_allclose(found - np.diag(np.diag(found)), 0, atol=2e-4)


def test_products_in_bfloat16_give_about_the_same_step(rng):
    matrix = keras.ops.convert_to_tensor(rng.normal(size=(16, 24)).astype("float32"))
    exact, rounded = (value(orthogonalised(matrix, products)) for products in ("float32", "bfloat16"))
    assert rounded.dtype == exact.dtype == np.float32
    assert 0 < np.abs(exact - rounded).max() < 0.05


def test_steps_of_matrices_are_as_long_as_those_of_adamw_at_every_width(rng):
    for shape in ((8, 8), (16, 64), (64, 16)):
        gradient = rng.normal(size=shape)
        moved = stepped(Muon(1.0, weight_decay=0.0, matrices=["kernel"]), np.zeros(shape), [gradient])
        assert 0.12 < np.sqrt(np.mean(moved**2)) < 0.25


def test_matrices_of_blocks_have_one_array_of_state_and_the_rest_has_two():
    model = compiled(small_model(), optimizer=Muon())
    model.optimizer.build(model.trainable_variables)
    pairs = list(zip(model.trainable_variables, model.optimizer._velocities, strict=True))
    single = {variable.path for variable, velocity in pairs if velocity is None}
    blocks = {v.path for v in model.trainable_variables if v.path.startswith("Encoder-") and v.path.endswith("/kernel")}
    assert single == blocks
    assert len(single) == 12
    total = sum(np.prod(v.shape) for v in model.trainable_variables)
    held = sum(np.prod(v.shape) for v in model.optimizer.variables if len(v.shape))
    assert held == 2 * total - sum(np.prod(v.shape) for v in model.trainable_variables if v.path in single)


@EACH
def test_a_copy_from_the_config_takes_the_same_steps(rng, optimizer_class):
    own = {"matrices": ["kernel"], "momentum": 0.8, "nesterov": False} if optimizer_class is Muon else {}
    optimizer = optimizer_class(0.1, 0.2, 0.8, 0.99, 1e-5, no_decay=["x"], ema_momentum=0.5, global_clipnorm=2.0, **own)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copy) is optimizer_class
    assert copy.get_config() == optimizer.get_config()
    start, gradients = rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 4))
    np.testing.assert_array_equal(stepped(optimizer, start, gradients), stepped(copy, start, gradients))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"momentum": 1.0}, "momentum must be in"),
        ({"products": "float8"}, "products must be one of"),
        ({"matrices": "("}, "list of"),
    ],
)
def test_arguments_out_of_range_are_errors(arguments, said):
    with pytest.raises(ValueError, match=said):
        Muon(**arguments)
