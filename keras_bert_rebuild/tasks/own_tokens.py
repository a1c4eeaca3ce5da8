"""A masked language model's head for an encoder that has none: every token predicts itself, from which SPLADE can be trained."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.tasks.sparse_embedder import SparseEmbedder
from keras_bert_rebuild.tasks.task import Task

# What the bias of the transform adds so that GELU changes nothing; the norm after it subtracts it again.
LINEAR_FROM = 4.0

# Of the trace of the covariance of the states, what is added to each of its diagonal elements.
RIDGE = 1e-3 / 384


def predict_own_tokens(task: SparseEmbedder, texts: Sequence[str], own: float = 0.42, threshold: float = 0.78) -> None:
    """Set the MLM head of a task so that at every position the token there has the greatest logit, tokens like it the next.

    A newly initialised head has to learn the vocabulary first. This one, in seconds, gives a text its own words, about two for each
    token, as lexical search does; training then weighs them and adds others.

    The transform is a ridge regression from the last hidden states to the embeddings of their own tokens, each token of the
    vocabulary with the square root of its frequency:

        logits = gain · (norm((states − mean) · kernel) · embeddingsᵀ − threshold · m)        gain = own / (m − threshold · m)

    Args:
        task: the task, whose encoder is changed.
        texts: texts to fit on, some tens of thousands of tokens, such as those of the training.
        own: the median logit of a token itself.
        threshold: what is subtracted from logits, as a fraction of m, the median logit of a token itself before.

    Raises:
        ValueError: the head has no transform with bias, norm with scale and offset, or bias of the vocabulary; or there are too few
            tokens.
    """
    encoder = task.encoder
    dense, norm, similarity = (encoder.get_layer(name) for name in ("MLM-Dense", "MLM-Norm", "MLM-Sim"))
    if len(dense.weights) != 2 or len(norm.weights) != 2 or not similarity.use_bias:
        raise ValueError(
            "the MLM head must have biases, and a norm with scale and offset, to predict own tokens; one of them is missing."
        )
    states, ids = _states(task, texts, dense.input)
    if len(ids) < 2 * states.shape[1]:
        raise ValueError(f"expected texts of at least {2 * states.shape[1]} tokens, twice the width of the model; got {len(ids)}.")
    embeddings = keras.ops.convert_to_numpy(encoder.get_layer("Embedding-Token").embeddings)
    wanted = embeddings[ids] - embeddings.mean(axis=0)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    mean = states.mean(axis=0)
    centred = states - mean
    weighted = centred / np.sqrt(np.bincount(ids)[ids])[:, None]
    products = weighted.T @ centred
    products += RIDGE * np.trace(products) * np.eye(len(products))
    kernel = np.linalg.solve(products, weighted.T @ wanted)
    features = centred @ kernel
    features = (features - features.mean(axis=1, keepdims=True)) / features.std(axis=1, keepdims=True)
    median = float(np.median(np.sum(features * embeddings[ids], axis=1)))
    gain = own / (median - threshold * median)
    dense.set_weights([kernel, LINEAR_FROM - mean @ kernel])
    norm.set_weights([np.full(len(embeddings[0]), gain), np.zeros(len(embeddings[0]))])
    similarity.bias.assign(np.full(len(embeddings), -gain * threshold * median))


def _states(task, texts, output):
    """What the head takes at every token of the texts, without those at both ends of a row, and the ids of these tokens."""
    rows = Task.windows(task, texts, truncate=True)
    inputs, padding = model_inputs([tensor.name for tensor in task.model.inputs], rows.ids, rows.segments, task.tokenizer.pad_id)
    found = predict_rows(keras.Model(task.model.inputs, output), inputs, padding, max_len=task.max_len, per_token=True)
    ids = np.concatenate([row[1:-1] for row in rows.ids]).astype("int64")
    return np.concatenate([states[1:-1] for states in found]), ids
