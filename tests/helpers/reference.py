"""BERT in plain NumPy and float64: the independent reference of the tests."""

import math

import numpy as np


def weights_of(model):
    """The weights of a model by path, float64."""
    return {v.path: np.asarray(_numpy(v), "float64") for v in model.weights}


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, gamma, beta, epsilon=1e-12):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(x, w, name, heads, mask):
    """Self-attention; `mask` is True at keys that may be attended to."""
    batch, _, width = x.shape
    out = np.zeros_like(x)
    q, k, v = (x @ w[f"{name}/{p}/kernel"] + w[f"{name}/{p}/bias"] for p in ("query", "key", "value"))
    size = width // heads
    for b in range(batch):
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            scores = q[b, :, part] @ k[b, :, part].T / math.sqrt(size)
            scores = np.where(mask[b][None, :], scores, -1e300)
            out[b, :, part] = softmax(scores) @ v[b, :, part]
    return out @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]


def encode(w, ids, segments, heads, blocks, mask=None):
    """The outputs of all encoder blocks."""
    mask = ids != 0 if mask is None else mask
    x = w["Embedding-Token/embeddings"][ids] + w["Embedding-Segment/embeddings"][segments]
    x = x + w["Embedding-Position/embeddings"][: ids.shape[1]]
    x = layer_norm(x, w["Embedding-Norm/gamma"], w["Embedding-Norm/beta"])
    outputs = []
    for i in range(1, blocks + 1):
        name = f"Encoder-{i}-MultiHeadSelfAttention"
        x = layer_norm(x + attention(x, w, name, heads, mask), w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"])
        name = f"Encoder-{i}-FeedForward"
        inner = gelu_tanh(x @ w[f"{name}/intermediate/kernel"] + w[f"{name}/intermediate/bias"])
        inner = inner @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]
        x = layer_norm(x + inner, w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"])
        outputs.append(x)
    return outputs


def logits(w, ids, segments, heads, blocks, mask=None):
    """The logits of the MLM and the NSP head."""
    x = encode(w, ids, segments, heads, blocks, mask)[-1]
    n = np.tanh(x[:, 0] @ w["NSP-Dense/kernel"] + w["NSP-Dense/bias"])
    return mlm_logits(w, x), n @ w["NSP/kernel"] + w["NSP/bias"]


def mlm_logits(w, x):
    """The logits of the MLM head, from the last block."""
    m = gelu_tanh(x @ w["MLM-Dense/kernel"] + w["MLM-Dense/bias"])
    m = layer_norm(m, w["MLM-Norm/gamma"], w["MLM-Norm/beta"])
    return m @ w["Embedding-Token/embeddings"].T + w["MLM-Sim/bias"]


def cross_entropy(scores, labels):
    """−log softmax at the labels, float64."""
    scores = np.asarray(scores, "float64")
    top = scores.max(-1)
    log_sum = top + np.log(np.exp(scores - top[..., None]).sum(-1))
    return log_sum - np.take_along_axis(scores, labels[..., None], -1)[..., 0]


def pretraining_loss(w, x, y, heads, blocks):
    """MLM loss over the chosen positions that are not padding, plus NSP loss."""
    ids, segments, chosen = x
    mlm, nsp = logits(w, ids, segments, heads, blocks)
    valid = (chosen != 0) & (ids != 0)
    return cross_entropy(mlm, y[0][..., 0])[valid].mean(), cross_entropy(nsp, y[1][:, 0].astype(int)).mean()


def _numpy(variable):
    import keras

    return keras.ops.convert_to_numpy(variable)
