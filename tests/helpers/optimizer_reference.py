"""AdamW and LAMB in plain NumPy, float64, and a model whose gradients are known without differentiating."""

import keras
import numpy as np

# Values of jit_compile to train with. On JAX nobody trains without compilation, and on torch compilation needs a compiler.
JIT = {"tensorflow": [False, True], "jax": [True], "torch": [False]}

SHAPES = {"Encoder-1-Dense/kernel": (3, 4), "Encoder-1-Dense/bias": (4,)}


def warmup_linear(peak, warmup, total, done):
    """The learning rate after `done` steps."""
    return peak * done / warmup if done < warmup else peak * max(total - done, 0) / (total - warmup)


def train(weights, gradients, rate, weight_decay, multipliers=None, clip=None, ema=None, lamb=False, b1=0.9, b2=0.999, eps=1e-6):
    """Weights and averages after one step for each of a list of gradients, all of them `{path: array}`."""
    weights = {path: np.array(w, "float64") for path, w in weights.items()}
    m = dict.fromkeys(weights, 0.0)
    v = dict.fromkeys(weights, 0.0)
    averages = dict(weights)
    for t, step_gradients in enumerate(gradients, 1):
        norm = np.sqrt(sum((g**2).sum() for g in step_gradients.values()))
        factor = min(1.0, clip / norm) if clip else 1.0
        for path, w in weights.items():
            g = step_gradients[path] * factor
            m[path] = b1 * m[path] + (1 - b1) * g
            v[path] = b2 * v[path] + (1 - b2) * g**2
            step = m[path] / (1 - b1**t) / (np.sqrt(v[path] / (1 - b2**t)) + eps)
            speed = rate(t - 1) * (multipliers or {}).get(path, 1.0)
            if not path.endswith(("bias", "gamma", "beta")):
                step = step + weight_decay * w
                if lamb and np.linalg.norm(w) and np.linalg.norm(step):
                    speed = speed * np.linalg.norm(w) / np.linalg.norm(step)
            weights[path] = w - speed * step
            averages[path] = (ema or 0.0) * averages[path] + (1 - (ema or 0.0)) * weights[path]
    return weights, averages


def linear_model(weights, optimizer=None, **kwargs):
    """A dense layer with these weights; with `product_loss` its gradients do not depend on them."""
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(4, name="Encoder-1-Dense")(inputs))
    for variable in model.trainable_variables:
        variable.assign(weights[variable.path].astype("float32"))
    if optimizer is not None:
        model.compile(optimizer=optimizer, loss=product_loss, **kwargs)
    return model


def linear_data(rng, examples):
    """Weights, inputs and labels of a linear model."""
    weights = {path: rng.normal(size=shape).astype("float32") for path, shape in SHAPES.items()}
    return weights, rng.normal(size=(examples, 3)).astype("float32"), rng.normal(size=(examples, 4)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
def product_loss(y_true, y_pred):
    """Σ y · prediction: with one example per batch the gradient of the kernel is x yᵀ and that of the bias y."""
    return keras.ops.sum(y_true * y_pred, axis=-1)


def known_gradients(x, y, accumulated=1):
    """The gradients of an epoch of single examples, as means of `accumulated` neighbours."""
    kernel, bias = np.einsum("bi,bo->bio", x, y), y
    groups = zip(kernel.reshape(-1, accumulated, 3, 4).mean(1), bias.reshape(-1, accumulated, 4).mean(1), strict=True)
    return [dict(zip(SHAPES, (k.astype("float64"), b.astype("float64")), strict=True)) for k, b in groups]


def check_against_numpy(optimizer_class, rng, accumulated, jit_compile):
    """Ten steps of `fit` with warm-up, decay, a multiplier, clipping and averages, compared to 1e-6."""
    from keras_bert_rebuild import WarmupLinearDecay

    start, x, y = linear_data(rng, 10 * accumulated)
    optimizer = optimizer_class(
        WarmupLinearDecay(0.1, 3, 12),
        weight_decay=0.3,
        rate_multipliers={"kernel$": 0.5},
        global_clipnorm=1.0,
        ema_momentum=0.8,
        gradient_accumulation_steps=accumulated if accumulated > 1 else None,
    )
    model = linear_model(start, optimizer, jit_compile=jit_compile)
    model.fit(x, y, batch_size=1, shuffle=False, verbose=0)
    expected, averages = train(
        start,
        known_gradients(x, y, accumulated),
        rate=lambda done: warmup_linear(0.1, 3, 12, done),
        weight_decay=0.3,
        multipliers={"Encoder-1-Dense/kernel": 0.5},
        clip=1.0,
        ema=0.8,
        lamb=optimizer_class.__name__ == "Lamb",
    )
    for variable in model.trainable_variables:
        np.testing.assert_allclose(value(variable), expected[variable.path], rtol=0, atol=1e-6)
        np.testing.assert_allclose(value(optimizer.average_of(variable)), averages[variable.path], rtol=0, atol=1e-6)


def value(variable):
    """A variable or tensor as an array."""
    return keras.ops.convert_to_numpy(variable)


def rates(schedule, steps, rounding=1.2e-7):
    """The learning rates of steps, given as tensors; of numbers they are the same, but for a rounding relative to the largest."""
    values = [float(value(schedule(keras.ops.convert_to_tensor(step)))) for step in steps]
    # 1 − √u is rounded as a difference of numbers near 1, whatever is left.
    np.testing.assert_allclose([float(schedule(step)) for step in steps], values, rtol=1e-6, atol=rounding * max(values))
    return values
