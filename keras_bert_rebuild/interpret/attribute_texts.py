"""`attribute`: how much every word contributed to an answer of a task; the task of `fill_mask`, and how a task is loaded."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.interpret.attribution import AttributedToken, AttributedWord, Attribution
from keras_bert_rebuild.interpret.methods import Method, method_of
from keras_bert_rebuild.interpret.subject import SubjectFunction
from keras_bert_rebuild.interpret.targets import subject_of
from keras_bert_rebuild.pretrained.find_checkpoint import located_model
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.tasks.embedding_model import longest_row
from keras_bert_rebuild.tasks.pretraining_heads import NextSentence
from keras_bert_rebuild.tasks.saved_task import load_task, saved_kind
from keras_bert_rebuild.tasks.text_rows import LONGEST, example_list
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer


def attribute(
    task: Any,
    texts: Sequence[str],
    pairs: Sequence[Any] | None = None,
    *,
    method: str | Method = "integrated_gradients",
    target: Any = None,
    at: Any = None,
    quantity: str = "logit",
    baseline: str = "mask",
    batch_size: int = 32,
    **options: Any,
) -> list[Attribution]:
    """Attribute an answer to words: scores of the words of texts for one output of a task, such as a logit.

    The output is treated as a function of the token vectors, before positions and segments are added. Special tokens, prompts and
    the mask to fill are unchanged; words are replaced by the baseline, or the gradient with respect to their vectors is used. A
    text that is too long for the model is read in the same windows as in prediction, with one output for all windows; the score of
    a word is the sum over all windows that contain it.

    Args:
        task: a task, such as from `load_task`; a `NextSentence`; or a `MaskedWords`, for the words of `fill_mask`.
        texts: a list of texts; for tasks with two texts, of queries, questions or prompts.
        pairs: the second text of each; for `MultipleChoice` a list of choices for each.
        method: "integrated_gradients", "gradient_x_input", "rollout", "leave_one_out" or "shapley", or a `Method`.
        target: a label, a tag, a choice or its index, a part of the text as an answer, or a word of the vocabulary; None for the
            prediction of the task. Similarities, scores and regressions have a single output and no target.
        at: for a `TokenClassifier` the word whose tag is attributed, as spelled in the text or as an index from 0, None for the
            most confident entity; for `MaskedWords` the index of the mask.
        quantity: "logit" or "probability". Gradients of a probability near 1 are near 0.
        baseline: the replacement of an absent word: the vector of the "mask" or "pad" token, or "zero".
        batch_size: rows per batch.
        **options: settings of the method: `steps` and `rule` of integrated gradients; `samples`, `exact_words` and `seed` of
            Shapley values.

    Returns:
        An `Attribution` for each text.

    Raises:
        ValueError: the task cannot be attributed, or a text, a target or an option does not suit it.

    Example:

        (attribution,) = attribute(task, ["A film of great charm."], method="shapley")
        [(word.word, round(word.score, 2)) for word in attribution.words]
    """
    texts = example_list(texts, "texts")
    pairs = [None] * len(texts) if pairs is None else example_list(pairs, "pairs")
    if len(pairs) != len(texts):
        raise ValueError(f"pairs must have an item for each of the {len(texts)} texts; got {len(pairs)}.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
    scorer = method_of(method, **options)
    together = [(text, *([pair] if isinstance(pair, str) else pair or ())) for text, pair in zip(texts, pairs, strict=True)]
    return [_attribution(task, of_one, scorer, target, at, quantity, baseline, batch_size) for of_one in together]


def _attribution(task, texts, method, target, at, quantity, baseline, batch_size):
    subject = subject_of(task, texts, target, at, quantity)
    tokens = subject.tokens
    if not tokens.word_spans:
        raise ValueError(f"the texts must have at least one word; got {texts[0]!r:.80}.")
    function = SubjectFunction(subject, task.tokenizer, baseline if method.reads_baseline else "zero", batch_size)
    scores = method.scores(function)
    of_words = np.zeros(len(tokens.word_spans) + 1)
    np.add.at(of_words, function.words, scores.tokens)  # index -1 is the last item, for tokens outside words
    errors = [None] * len(tokens.word_spans) if scores.errors is None else scores.errors.tolist()
    words = [
        AttributedWord(text, tokens.texts[text][start:end], start, end, score, error)
        for (text, start, end), score, error in zip(tokens.word_spans, of_words[:-1].tolist(), errors, strict=True)
    ]
    names = task.tokenizer.tokens
    pieces = [
        AttributedToken(row, names.get(i, str(i)), owner, *span, score)
        for row, ids in enumerate(tokens.ids)
        for i, owner, span, score in zip(
            ids.tolist(), tokens.owners[row].tolist(), tokens.spans[row].tolist(), scores.tokens[row].tolist(), strict=False
        )
    ]
    gap = None
    if scores.complete and scores.value_at_baseline is not None:
        gap = float(scores.tokens.sum()) - (scores.value - scores.value_at_baseline)
    return Attribution(
        texts=tokens.texts,
        words=tuple(words),
        tokens=tuple(pieces),
        target=subject.target,
        method=method.name,
        value=scores.value,
        value_at_baseline=scores.value_at_baseline,
        gap=gap,
        baseline=baseline if method.reads_baseline else None,
        settings=method.settings(),
        answer=subject.answer,
        name=subject.model.name,
    )


class MaskedWords:
    """The task of `fill_mask`: predicting the masked tokens of a text.

    Args:
        model: a model with an MLM head.
        tokenizer: its tokenizer, such as from `load_tokenizer`.

    Raises:
        ValueError: the model has no MLM head, or the tokenizer has no mask.
    """

    kind = "fill_mask"

    def __init__(self, model: keras.Model, tokenizer: Any) -> None:
        if "MLM" not in (names := list(model.output_names)):
            raise ValueError(f"the model must have an MLM head; its outputs are {', '.join(names)}.")
        if tokenizer.mask_id is None:
            raise ValueError("the tokenizer must have a mask token; this one has none.")
        self.model, self.tokenizer = model, tokenizer
        self.max_len = model.inputs[0].shape[1] or min(longest_row(model), LONGEST)

    @property
    def mask(self) -> str:
        """The mask as written in a text."""
        return self.tokenizer.tokens[self.tokenizer.mask_id]


def load_attributed(path: str | os.PathLike[str], kind: str | None = None, text: str = "") -> Any:
    """Load a task for `attribute` from a folder.

    Args:
        path: a folder or file that `load_task` or `from_pretrained` reads, or a name on the Hugging Face hub.
        kind: a kind of task, "fill_mask" or "next_sentence"; None for the task of the folder, or "fill_mask" if the folder has no
            task and the text has a mask.
        text: the text to attribute.

    Raises:
        ValueError: the task cannot be determined, or the weights have no head of it.
    """
    path = located_model(path)
    if kind is None and saved_kind(path) is None:
        tokenizer = load_tokenizer(path)
        mask = tokenizer.tokens.get(tokenizer.mask_id)
        kind = "fill_mask" if mask is not None and mask in text else None
    if kind is not None:
        kind = kind.replace("-", "_")
    if kind == "next_sentence":
        return NextSentence(path)
    if kind == "fill_mask":
        return MaskedWords(from_pretrained(path, heads=("mlm",)), load_tokenizer(path))
    return load_task(path, kind)
