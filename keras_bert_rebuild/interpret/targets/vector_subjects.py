"""Tasks that compare vectors of texts: sentence similarity, sparse vectors, and vectors of tokens."""

from typing import Any

import numpy as np
from keras import ops

from keras_bert_rebuild.interpret.subject import Subject, located_tokens, padded_inputs
from keras_bert_rebuild.interpret.targets import no_probability, nothing, two_texts, window_means
from keras_bert_rebuild.interpret.targets.word_subjects import vocabulary_index
from keras_bert_rebuild.tasks.embedding_model import embedding_model
from keras_bert_rebuild.tasks.embedding_stream import prompt_tokens
from keras_bert_rebuild.tasks.retrieval_rows import MarkedRows
from keras_bert_rebuild.tasks.text_rows import Windows

# The minimum length that a vector is divided by.
TINY = 1e-12


def similarity_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The similarity of two texts, as `SentenceEmbedder.similarity`; both are attributed."""
    no_probability(quantity, "a similarity")
    nothing(target, "target", "a similarity", "one number for a pair")
    nothing(at, "at", "a similarity", "one number for a pair")
    two_texts(texts, "a similarity", "two texts")
    prompt = task.prompt_text(None)
    skip = 0 if task.include_prompt else prompt_tokens(task.tokenizer, prompt)
    model = embedding_model(task.encoder, task.poolings, modules=task.modules, skip=skip) if skip else task.model
    windows = task.windows([prompt + text for text in texts])
    means = window_means(windows, 2)

    def value(outputs):
        vectors = ops.einsum("tr,crw->ctw", ops.convert_to_tensor(means), ops.cast(outputs, "float32"))
        vectors = (_unit(vectors) if task.normalize else vectors)[..., : task.width]
        vectors = _unit(vectors) if task.measure == "cosine" else vectors
        return ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)

    name = "cosine of the texts" if task.measure == "cosine" else "product of the vectors of the texts"
    inputs = padded_inputs(model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len)
    tokens = located_tokens(windows, [(int(i),) for i in windows.examples], texts, [len(prompt)] * 2)
    return Subject(tokens, model, inputs, value, name, _evenly(windows, inputs, means.sum(0) / 2))


def sparse_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The score of a document for a query; for a single text, as a document, the weight of a word in its vector."""
    no_probability(quantity, "a sparse vector")
    nothing(at, "at", "a sparse vector", "one vector for a text")
    if len(texts) > 2:
        raise ValueError(f"a sparse embedder reads a text, or a query and a document; got {len(texts)} texts.")
    prompts = [task.prompts.get(name, "") for name in (("query", "document") if len(texts) == 2 else ("document",))]
    windows = task.windows([prompt + text for prompt, text in zip(prompts, texts, strict=True)], truncate=task.truncate)
    if len(texts) == 2:
        nothing(target, "target", "the score of a query and a document", "one score")
        index, name = None, "score of the document for the query"
    elif target is None:
        (vector,) = task(list(texts), "document")
        if not len(vector[0]):
            raise ValueError("target must be given: the vector of the text has no weight above 0.")
        index = int(vector[0][np.argmax(vector[1])])
    else:
        index = vocabulary_index(target, task.tokenizer)
    name = name if index is None else f"weight of {task.tokenizer.tokens[index]}"
    combined = ops.max if task.pooling == "max" else ops.sum

    def value(outputs):
        weights = ops.cast(outputs, "float32")
        vectors = [
            _strongest(combined(ops.take(weights, np.flatnonzero(windows.examples == text), axis=1), axis=1), task.max_active)
            for text in range(len(texts))
        ]
        return vectors[0][:, index] if index is not None else ops.sum(vectors[0] * vectors[1], axis=-1)

    inputs = padded_inputs(task.model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len)
    tokens = located_tokens(windows, [(int(i),) for i in windows.examples], texts, [len(prompt) for prompt in prompts])
    shares = window_means(windows, len(texts)).sum(0) / len(texts)
    return Subject(tokens, task.model, inputs, value, name, _evenly(windows, inputs, shares))


def late_interaction_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The score of a document for a query, the sum of the best matches of the query's tokens; both are attributed."""
    no_probability(quantity, "a MaxSim score")
    nothing(target, "target", "late interaction", "one score for a pair")
    nothing(at, "at", "late interaction", "one score for a pair")
    two_texts(texts, "late interaction", "a query and a document")
    _, settings = task.served()
    sides = [MarkedRows.from_settings(task.tokenizer, **settings["rows"][name]) for name in ("query", "document")]
    rows = [side([text])[0] for side, text in zip(sides, texts, strict=True)]
    windows = _marked_windows(task.tokenizer, sides, rows, texts)
    model = embedding_model(task.encoder, modules=tuple(task.modules))
    attended = [row.attended for row in rows]
    inputs = padded_inputs(model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len, Input_Mask=attended)
    length = inputs["Input-Token"].shape[1]
    scored = np.stack([np.pad(row.scored, (0, length - len(row.scored))) for row in rows]).astype("float32")
    far = np.where(scored[1] > 0, 0.0, -1e9).astype("float32")

    def value(outputs):
        vectors = ops.cast(outputs, "float32")
        products = ops.einsum("cqw,cdw->cqd", vectors[:, 0], vectors[:, 1]) + ops.convert_to_tensor(far)
        return ops.sum(ops.max(products, axis=-1) * ops.convert_to_tensor(scored[0]), axis=-1)

    reads = scored / scored.sum()
    tokens = located_tokens(windows, [(0,), (1,)], texts, [len(side.prompt) for side in sides])
    return Subject(tokens, model, inputs, value, "MaxSim of the query and the document", reads)


def _marked_windows(tokenizer, sides, rows, texts):
    """The rows of a query and a document as `Windows`, with the offsets of their tokens in the prompted texts."""
    windows = Windows([], [], np.arange(len(rows)), [], [], [], [])
    for side, row, text in zip(sides, rows, texts, strict=True):
        plain = tokenizer.encode_batch([side.prompt + text], max_len=side.length - len(side.marker), return_offsets=True)
        begin = 0 if tokenizer.cls_last else 1
        # The marker comes after the class token, the expansion masks at the end.
        places = [i if i < begin else i + len(side.marker) for i in range(len(plain.ids[0]))]
        offsets, words = np.zeros((len(row.ids), 2), "int64"), np.full(len(row.ids), -1, "int64")
        offsets[places], words[places] = plain.offsets[0], plain.word_ids[0]
        windows.ids.append(row.ids)
        windows.segments.append(row.segments)
        windows.offsets.append(offsets)
        windows.word_ids.append(words)
        windows.sides.append(np.where(words >= 0, 0, -1))
        windows.best.append(words >= 0)
    return windows


def _evenly(windows, inputs, shares):
    """Equal weights for all tokens of a row, `(rows, length)`; each row sums to its share."""
    reads = np.zeros(inputs["Input-Token"].shape, "float32")
    for row, ids in enumerate(windows.ids):
        reads[row, : len(ids)] = shares[row] / len(ids)
    return reads


def _unit(vectors):
    return vectors / ops.maximum(ops.sqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + TINY**2), TINY)


def _strongest(weights, count):
    """The `count` largest weights, the others set to 0; None for all."""
    if count is None or count >= weights.shape[-1]:
        return weights
    least = ops.stop_gradient(ops.top_k(weights, count)[0][..., -1:])
    return ops.where(weights >= least, weights, 0.0)
