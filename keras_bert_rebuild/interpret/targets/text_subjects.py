"""Tasks with one output for a text or a pair: labels, a number, a score, a choice, next sentence."""

from typing import Any

import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.heads import LAST, MEAN
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion, ClassifiedText, RankedText
from keras_bert_rebuild.interpret.subject import Subject, located_tokens, padded_inputs
from keras_bert_rebuild.interpret.targets import label_index, no_probability, nothing, two_texts, window_means


def classifier_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """A label's logit, averaged over windows as in the task, or its probability; the number of a regression."""
    nothing(at, "at", "a classifier", "one answer for a text")
    if len(texts) > 2:
        raise ValueError(f"a classifier reads a text or a pair of texts; got {len(texts)} texts.")
    windows = task.encode([ClassifiedText(*texts)]).windows
    if task.problem == "regression":
        no_probability(quantity, "a regression")
        nothing(target, "target", "a regression", "one number")
        index, name, answer = 0, task.labels[0], ""
    else:
        (predicted,) = task.predict_examples([ClassifiedText(*texts)])
        likeliest = max(predicted.probabilities, key=predicted.probabilities.get)
        answer = f"The answer is {likeliest}, with a probability of {predicted.probabilities[likeliest]:.2f}."
        target = likeliest if target is None else target
        index, name = label_index(target, task.labels), f"{quantity} of {target}"
    weights = window_means(windows, 1)[0]

    def value(outputs):
        logits = ops.einsum("r,crk->ck", ops.convert_to_tensor(weights), ops.cast(outputs, "float32"))
        if quantity == "probability":
            logits = ops.softmax(logits) if task.problem == "single_label" else ops.sigmoid(logits)
        return logits[:, index]

    return _subject(task, windows, [(0, 1)[: len(texts)]] * len(windows.ids), texts, value, name, weights, answer=answer)


def reranker_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The score of a text for a query, or as a logit before the activation; the maximum over its windows."""
    nothing(target, "target", "a reranker", "one score")
    nothing(at, "at", "a reranker", "one score")
    query, text = two_texts(texts, "a reranker", "a query and a text")
    if task.activation == "linear":
        no_probability(quantity, "this reranker")
    windows = task.encode([RankedText(query, text)]).windows

    def value(outputs):
        best = ops.max(ops.cast(outputs, "float32")[..., 0], axis=1)
        return ops.sigmoid(best) if quantity == "probability" else best

    logits = np.array(task.predict_windows(windows), "float32")[:, 0]
    shares = (np.arange(len(logits)) == logits.argmax()).astype("float32")
    name = f"{'score' if quantity == 'probability' else 'logit'} of relevance"
    return _subject(task, windows, [(0, 1)] * len(windows.ids), texts, value, name, shares)


def choice_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The logit of a choice, given by its index or its text; or its probability among all choices."""
    nothing(at, "at", "multiple choice", "one answer for a prompt")
    if len(texts) < 2:
        raise ValueError("multiple choice reads a prompt and its choices: pass the choices as pairs; got only a prompt.")
    prompt, choices = texts[0], texts[1:]
    question = ChoiceQuestion(prompt, choices)
    windows = task.encode([question]).windows
    predicted = task.predict_examples([question])[0].index
    target = predicted if target is None else target
    index = target if target in range(len(choices)) else label_index(target, choices)
    means = window_means(windows, len(choices))

    def value(outputs):
        logits = ops.einsum("kr,cr->ck", ops.convert_to_tensor(means), ops.cast(outputs, "float32")[..., 0])
        return (ops.softmax(logits) if quantity == "probability" else logits)[:, index]

    owners = [(0, 1 + int(number)) for number in windows.examples]
    answer = f"The answer is choice {predicted}."
    return _subject(
        task, windows, owners, texts, value, f"{quantity} of choice {index}: {choices[index]}", means[index], answer=answer
    )


def next_sentence_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The probability that the second text follows the first, or as a logit its log odds."""
    nothing(target, "target", "the next sentence", "one answer for a pair")
    nothing(at, "at", "the next sentence", "one answer for a pair")
    first, second = two_texts(texts, "the next sentence", "two texts")
    windows, before = task.windows(first, second)

    def value(outputs):
        probabilities = ops.cast(outputs[0] if isinstance(outputs, (list, tuple)) else outputs, "float32")[:, 0]
        logs = ops.log(ops.maximum(probabilities, 1e-30))
        return probabilities[:, 0] if quantity == "probability" else logs[:, 0] - logs[:, 1]

    name = "probability that the second text follows" if quantity == "probability" else "logit that the second text follows"
    return _subject(task, windows, [(0, 1)], texts, value, name, np.ones(1, "float32"), before)


def _subject(task, windows, owners, texts, value, name, shares, before=None, answer=""):
    inputs = padded_inputs(task.model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len)
    tokens = located_tokens(windows, owners, texts, before)
    reads = _reads(task, windows, inputs["Input-Token"].shape) * np.asarray(shares, "float32")[:, None]
    return Subject(tokens, task.model, inputs, value, name, reads, answer=answer)


def _reads(task, windows, shape):
    """The tokens of the last block that the head of a task reads, as weights `(rows, length)`; each row sums to 1."""
    head = "nsp" if not hasattr(task, "heads") else task.heads[0]
    layers = task.model.config.encoder().heads[head].reads
    reads = np.zeros(shape, "float32")
    for row, ids in enumerate(windows.ids):
        if MEAN in layers:
            reads[row, : len(ids)] = 1 / len(ids)
        else:
            reads[row, len(ids) - 1 if LAST in layers else 0] = 1
    return reads
