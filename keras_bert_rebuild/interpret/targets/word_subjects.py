"""Tasks with outputs for words: the tag of a word, the span of an answer, a masked word."""

from typing import Any

import numpy as np
from keras import ops

from keras_bert_rebuild.data.labelled.labelled_examples import Question, TaggedText
from keras_bert_rebuild.interpret.subject import Subject, located_tokens, padded_inputs
from keras_bert_rebuild.interpret.targets import label_index, no_probability, nothing, one_text, two_texts, word_index
from keras_bert_rebuild.tasks.metrics.entities import OUTSIDE
from keras_bert_rebuild.tasks.question_answerer import span_of_tokens
from keras_bert_rebuild.tasks.text_rows import encode_windows, predicted
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens


def token_classifier_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The tag of a word, in the window with the most context around it; before any conditional random field."""
    text = one_text(texts, "a token classifier")
    windows = task.encode([TaggedText(text)]).windows
    tokens = located_tokens(windows, [(0,)] * len(windows.ids), texts)
    firsts = words_of_tokens(windows, [text]).first_tokens
    logits = {
        int(word): (row, position, answer[position])
        for row, answer in enumerate(task.predict_windows(windows))
        for position, word in enumerate(firsts[row])
        if word >= 0
    }
    if not logits:
        raise ValueError("the text must have a word to tag; it has none.")
    inside = [i for i, label in enumerate(task.labels) if label != OUTSIDE]
    if at is None:  # the word with the most confident entity tag
        word = max(logits, key=lambda i: _probabilities(logits[i][2])[inside].sum())
    else:
        word = word_index(at, texts, tokens.word_spans)
        if word not in logits:
            raise ValueError(f"at must be a word that the tokenizer keeps; got {at!r:.80}.")
    row, position, answer = logits[word]
    if target is None:
        index = int(np.argmax(answer)) if at is not None else inside[int(np.argmax(answer[inside]))]
    else:
        index = label_index(target, task.labels)

    def value(outputs):
        scores = ops.cast(outputs[:, row, position], "float32")
        return (ops.softmax(scores) if quantity == "probability" else scores)[:, index]

    _, start, end = tokens.word_spans[word]
    inputs = padded_inputs(task.model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len)
    reads = np.zeros(inputs["Input-Token"].shape, "float32")
    reads[row, position] = 1
    name = f"{quantity} of {task.labels[index]} for {text[start:end]}"
    return Subject(tokens, task.model, inputs, value, name, reads)


def question_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """The score of a span of the text, the sum of the logits of its first and last token; the maximum over its windows."""
    nothing(at, "at", "a question answerer", "one answer for a question")
    no_probability(quantity, "the score of a span")
    question, context = two_texts(texts, "a question answerer", "a question and a text with its answer")
    windows = task.encode([Question("0", question, context)]).windows
    if target is None:
        (answer,) = task.predict_examples([Question("0", question, context)])
        if not answer.best:
            raise ValueError("the text must have a span to answer with; it has no tokens.")
        start, end = answer.best[0].start, answer.best[0].end
    elif target in context and target:
        start, end = context.index(target), context.index(target) + len(target)
    else:
        raise ValueError(f"target must be a part of the text, with the same spelling; got {target!r:.80}.")
    token_spans = [span_of_tokens(windows.offsets[row], windows.sides[row] == 1, start, end) for row in range(len(windows.ids))]
    spans = [(row, *span) for row, span in enumerate(token_spans) if span is not None]
    if not spans:
        raise ValueError(f"target must be shorter than a window of {task.max_len} tokens; got {context[start:end]!r:.80}.")

    def value(outputs):
        logits = ops.cast(outputs, "float32")
        return ops.max(ops.stack([logits[:, row, i, 0] + logits[:, row, j, 1] for row, i, j in spans]), axis=0)

    logits = task.predict_windows(windows)
    row, i, j = max(spans, key=lambda span: logits[span[0]][span[1], 0] + logits[span[0]][span[2], 1])
    inputs = padded_inputs(task.model, windows.ids, windows.segments, task.tokenizer.pad_id, task.max_len)
    reads = np.zeros(inputs["Input-Token"].shape, "float32")
    reads[row, i] += 0.5
    reads[row, j] += 0.5
    tokens = located_tokens(windows, [(0, 1)] * len(windows.ids), texts)
    return Subject(tokens, task.model, inputs, value, f"score of the answer {context[start:end]}", reads)


def masked_word_subject(task: Any, texts: tuple[str, ...], target: Any, at: Any, quantity: str) -> Subject:
    """A word of the vocabulary in place of a mask, the first or that with index `at`, in the window with the most context."""
    text, tokenizer, model = one_text(texts, "fill_mask"), task.tokenizer, task.model
    stride = task.max_len // 4 if task.max_len > 8 else 0
    windows = encode_windows(tokenizer, [text], max_len=task.max_len, stride=stride, special_tokens_in_text=True)
    masks = [
        (row, int(position))
        for row, (ids, best) in enumerate(zip(windows.ids, windows.best, strict=True))
        for position in np.flatnonzero((ids == tokenizer.mask_id) & best)
    ]
    if not masks:
        raise ValueError(f"the text must have a {task.mask}; got {text!r:.80}.")
    number = 0 if at is None else at
    if isinstance(number, bool) or number not in range(len(masks)):
        raise ValueError(f"at must be the index of a {task.mask}, from 0 to {len(masks) - 1}; got {at!r:.80}.")
    row, position = masks[number]
    inputs = padded_inputs(model, windows.ids, windows.segments, tokenizer.pad_id, task.max_len)
    # Only the logits of one position, since those of all positions are large.
    similarity = model.get_layer("MLM-Sim")
    features = similarity.input[0]

    def logits_of(outputs):
        table = task.model.get_layer("Embedding-Token")(ops.zeros((1, 1), "int32"))[1]
        return similarity([ops.expand_dims(outputs[:, row, position], 1), ops.stop_gradient(table)], return_logits=True)[:, 0]

    if target is None:
        outputs = predicted(model, tuple(inputs[tensor.name] for tensor in model.inputs))
        output = outputs[model.output_names.index("MLM")] if isinstance(outputs, (list, tuple)) else outputs
        index = int(np.argmax(output[row, position]))
    else:
        index = vocabulary_index(target, tokenizer)

    def value(outputs):
        logits = logits_of(outputs)
        return (ops.softmax(logits) if quantity == "probability" else logits)[:, index]

    reads = np.zeros(inputs["Input-Token"].shape, "float32")
    reads[row, position] = 1
    tokens = located_tokens(windows, [(0,)] * len(windows.ids), texts, fixed=[tokenizer.mask_id])
    name = f"{quantity} of {tokenizer.tokens[index]} for the mask"
    return Subject(tokens, model, inputs, value, name, reads, features)


def vocabulary_index(target: Any, tokenizer: Any) -> int:
    """The id of a word of the vocabulary, given as a token or as a text of one token.

    Raises:
        ValueError: it is not exactly one token of the vocabulary.
    """
    if target in tokenizer.vocabulary:
        return int(tokenizer.vocabulary[target])
    if isinstance(target, str) and target:
        for spelled in (f" {target}", target):  # byte-level vocabularies have the space in the token
            ids = [i for i in tokenizer.encode_batch([spelled]).ids[0].tolist() if i not in tokenizer.special_ids]
            if len(ids) == 1:
                return ids[0]
    raise ValueError(f"target must be one token of the vocabulary; got {target!r:.80}.")


def _probabilities(logits):
    exponentials = np.exp(logits - np.max(logits))
    return exponentials / exponentials.sum()
