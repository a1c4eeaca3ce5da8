"""The model of a new task, an encoder with a head that is newly initialised, kept or fitted to texts, and its tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.transfer import LoadReport, to_numpy
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.files.hub import located
from keras_bert_rebuild.kernels import unwritten
from keras_bert_rebuild.layers.keras_layers import drawn_by_name, skipped_initialization
from keras_bert_rebuild.models.build_model import build_model, dtype_scope
from keras_bert_rebuild.models.heads import CRF, HEADS, LAYERS, heads_of
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files, tokenizer_of_files, vocabulary_files
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer
from keras_bert_rebuild.training.lora import without_lora

# Layers that may be newly initialised: the last layers of heads, the vocabulary's bias, and the pooler if the encoder has none.
_OF_HEADS = tuple(f"{layer}/" for layer in (*LAYERS.values(), CRF, "MLM-Sim"))

# Maximum number of labels of another head in a sentence.
MOST_LISTED = 5

# The heads of tasks; the others are of pretraining.
_OF_TASKS = ("classification", "token_classification", "question_answering", "multiple_choice")

# What the bias of the transform of a fitted head adds so that GELU changes nothing; the norm after it subtracts it again.
LINEAR_FROM = 4.0

# Of the trace of the covariance of the states that it is fitted to, what is added to each of its diagonal elements.
RIDGE = 1e-3 / 384


def model_with_head(encoder, heads, labels=(), *, seed=0, dtype=None, new_head=True, other_task=None, **rates):
    """A new model from an encoder and an untrained head, or the trained head of the encoder if it fits.

    Args:
        encoder: the path of a checkpoint, as for `from_pretrained`, or a loaded or trained model, which is not changed; its
            low-rank matrices, if any, are merged into the kernels of the new model.
        heads: names of heads, as for `build_model`.
        labels: names of the outputs of a classification head.
        seed: seed of the newly initialised weights, which are the same on every backend.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
        new_head: initialise the last layers of heads even if the encoder has them. Otherwise they are kept if the encoder has the
            same labels, in any order, or one label as well; `load_report.head` says what became of them.
        other_task: what the head of the encoder was trained for, if it has the shape, but not the purpose of the new one.
        **rates: fields of `BertConfig` to change: `hidden_dropout_prob`, `attention_probs_dropout_prob`, `classifier_dropout`; and
            `crf`.

    Returns:
        A `BertModel`; its `load_report` lists the newly initialised weights in `missing`.

    Raises:
        ValueError: the model has no config, its layers differ from its config, or it is quantised.
    """
    source = encoder if isinstance(encoder, keras.Model) else from_pretrained(encoder)
    config = getattr(source, "config", None)
    if config is None:
        raise ValueError(f"expected the path of a checkpoint or a model with a config; got {type(encoder).__name__} without one.")
    source = without_lora(source)
    changes = {"labels": tuple(labels), "problem_type": None, "crf": False, **rates}
    with dtype_scope(dtype), skipped_initialization(unwritten):
        model = build_model(config.replace(**changes), heads)
    values = {variable.path: variable for variable in source.weights}
    last = tuple(f"{layer}/" for layer in (*(LAYERS[head] for head in heads if head != "pooler"), CRF))
    read = tuple(f"{layer}/" for head in heads for layer in config.encoder().heads[head].reads)
    report = LoadReport(source=getattr(getattr(source, "load_report", None), "source", "a model of this process"))
    order, report.head = (None, "") if new_head else _trained_head(source, heads, tuple(labels), other_task)
    for variable in model.weights:
        value = values.get(variable.path)
        if value is not None and (order is not None or not variable.path.startswith(last)):
            if "int" in str(value.dtype):
                raise ValueError(f"the encoder must not be quantised; {variable.path} has the dtype {value.dtype}.")
            values_of = to_numpy(value).astype("float32")
            for axis in _label_axes(variable, last):
                values_of = values_of.take(order, axis)
            variable.assign(values_of)
            report.loaded.append((variable.path, variable.path, tuple(variable.shape)))
        elif variable.path.startswith((*_OF_HEADS, *read)):
            spread = variable.shape[0] ** -0.5 if variable.path.startswith(last) else config.initializer_range or 0.02
            variable.assign(_drawn(variable, spread, seed))
            report.missing.append((variable.path, "newly initialised"))
        else:
            raise ValueError(f"the encoder must have the weights that its config declares; {variable.path} is missing.")
    of_source = getattr(source, "load_report", None) or LoadReport()
    report.tokenizer_files, report.folder, report.base = of_source.tokenizer_files, of_source.folder, of_source.base
    model.load_report = report
    return model


def _trained_head(source, heads, labels, other_task):
    """The index in a trained head of the output for each label, None if the head does not fit; and what to say of the head."""
    trained = [head for head in heads_of(source) if head in _OF_TASKS]
    own = next((head for head in trained if head in heads), None)
    if own is None or other_task is not None:
        return None, f"newly initialised: the model's is for {other_task or trained[0]}" if trained else ""
    if HEADS[own].units != "C":
        return list(range(int(HEADS[own].units))), "kept"
    theirs = source.config.labels
    if len(labels) == len(theirs) == 1:
        theirs = labels  # the name of a score
    if len(theirs) != len(labels) or set(theirs) != set(labels):
        listed = ", ".join(theirs[:MOST_LISTED]) + (f" and {len(theirs) - MOST_LISTED} more" if len(theirs) > MOST_LISTED else "")
        return None, f"newly initialised: the model's is for the labels {listed}"
    return [theirs.index(label) for label in labels], "kept" if theirs == labels else "kept, with its labels in another order"


def _label_axes(variable, last):
    """The axes of a weight of a head that are labels."""
    if not variable.path.startswith(last):
        return ()
    return range(len(variable.shape)) if variable.path.startswith(f"{CRF}/") else (len(variable.shape) - 1,)


def _drawn(variable, spread, seed):
    """Initial values of a weight: normal for kernels, 1 for the scale of a norm, 0 for anything else.

    The last layer of a head has the standard deviation 1/√width, so that logits have the scale of their inputs at any width; a
    pooler has `initializer_range`, as in BERT. After a few steps this was as good as `initializer_range` for the head, which
    transformers uses, on two data sets, and better on one: benchmarks/RESULTS.md, "The first weights of a head".
    """
    if not variable.path.endswith("kernel"):
        return np.full(variable.shape, float(variable.path.endswith(("gamma", "scale"))), "float32")
    return drawn_by_name(variable, seed, lambda generator, shape: generator.standard_normal(shape) * spread)


def task_tokenizer(model, tokenizer=None):
    """Find the tokenizer of a model.

    Args:
        model: a model with a config; `from_pretrained` stores the tokenizer's files in its `load_report`.
        tokenizer: None for the tokenizer that was loaded with the model; a `BatchTokenizer`, a path as for `load_tokenizer`, or a
            vocabulary of keras_bert, a dictionary from token to id.

    Returns:
        A `BatchTokenizer` and its files, name to bytes.

    Raises:
        ValueError: there is no tokenizer, or it has another padding id or more tokens than the model.
    """
    report = getattr(model, "load_report", None) or LoadReport()
    files = report.tokenizer_files
    if isinstance(tokenizer, (str, Path)):
        path = located(tokenizer, weights=False)
        tokenizer, files = load_tokenizer(path), read_tokenizer_files(path if path.is_dir() else path.parent)
        if path.is_file() and path.name not in files:  # a vocab.txt with another name
            files = vocabulary_files(tokenizer, model.config.max_length)
    elif tokenizer is not None:
        tokenizer = tokenizer if isinstance(tokenizer, BatchTokenizer) else WordPieceTokenizer(tokenizer)
        files = vocabulary_files(tokenizer, model.config.max_length)
    elif files:
        tokenizer = tokenizer_of_files(files, {"model_type": model.config.family}, report.folder)
    else:
        raise ValueError("no tokenizer was loaded with the model: pass one, or the path of its folder, as tokenizer=.")
    if model.config.type_vocab_size == 1 and tokenizer.second_segment:
        tokenizer = tokenizer.with_options(second_segment=0)  # the model has one segment
    largest = max(tokenizer.tokens, default=0)
    if largest >= model.config.vocab_size:
        raise ValueError(f"ids of the tokenizer must be below {model.config.vocab_size}, the model's vocab_size; got {largest}.")
    if tokenizer.pad_id != model.config.pad_token_id:
        pad_id = model.config.pad_token_id
        raise ValueError(f"the tokenizer must pad with {pad_id}, as the model does; it pads with {tokenizer.pad_id}.")
    return tokenizer, files


def predict_own_tokens(task: Any, texts: Sequence[str], own: float = 0.42, threshold: float = 0.78) -> None:
    """Set the MLM head of a task so that at every position the token there has the greatest logit, tokens like it the next.

    SPLADE can then be trained from an encoder without an MLM head. A newly initialised head has to learn the vocabulary first. This
    one, in seconds, gives a text its own words, about two for each token, as lexical search does; training then weighs them and
    adds others.

    The transform is a ridge regression from the last hidden states to the embeddings of their own tokens, each token of the
    vocabulary with the square root of its frequency:

        logits = gain · (norm((states − mean) · kernel) · embeddingsᵀ − threshold · m)        gain = own / (m − threshold · m)

    Args:
        task: a `SparseEmbedder`, whose encoder is changed.
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
    rows = task.windows(texts, truncate=True)
    inputs, padding = model_inputs([tensor.name for tensor in task.model.inputs], rows.ids, rows.segments, task.tokenizer.pad_id)
    outputs = predict_rows(keras.Model(task.model.inputs, output), inputs, padding, max_len=task.max_len, per_token=True)
    ids = np.concatenate([row[1:-1] for row in rows.ids]).astype("int64")
    return np.concatenate([states[1:-1] for states in outputs]), ids
