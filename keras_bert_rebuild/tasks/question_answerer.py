"""Extractive question answering: the span of a text that answers a question, from the logits of first and last tokens."""

import math
from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.tasks.metrics import best_threshold, squad_scores
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_rows import Encoded, example_list, example_name, softmax
from keras_bert_rebuild.training.task_losses import SpanLoss

# The offsets of the first character and of the one after the last, and the sum of the logits of the first and last token.
ScoredSpan = namedtuple("ScoredSpan", ["start", "end", "score"])


def best_spans(start_logits, end_logits, offsets, may_start, may_end, count, max_tokens):
    """The spans of one window with the highest scores.

        score[i, j] = start_logits[i] + end_logits[j]        i ≤ j < i + max_tokens

    Every span is scored; `run_squad.py` scores only those between the 20 best starts and the 20 best ends.

    Args:
        start_logits, end_logits: `(length,)`.
        offsets: first character of every token and the one after its last, `(length, 2)`.
        may_start, may_end: whether an answer may start or end with a token, `(length,)` bool.
        count: maximum number of spans to return.
        max_tokens: maximum number of tokens in a span.

    Returns:
        A list of at most `count` `ScoredSpan`s, the best first.

    Reference: Devlin et al., 2019, section 4.2 (https://arxiv.org/abs/1810.04805); `write_predictions` in `run_squad.py` of
    google-research/bert.
    """
    length = len(start_logits)
    starts = np.where(may_start, np.asarray(start_logits, "float64"), -np.inf)
    # No span may end after the last token.
    ends = np.concatenate([np.where(may_end, np.asarray(end_logits, "float64"), -np.inf), np.full(max_tokens, -np.inf)])
    scores = starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, max_tokens)[:length]
    best = np.argsort(-scores, axis=None, kind="stable")[:count]
    spans = []
    for index in best.tolist():
        first, last = divmod(index, max_tokens)
        if scores[first, last] > -np.inf:
            spans.append(ScoredSpan(int(offsets[first][0]), int(offsets[first + last][1]), float(scores[first, last])))
    return spans


def merge_spans(spans, count):
    """The best spans of several windows; of spans with the same offsets, the one with the highest score.

    Args:
        spans: `ScoredSpan`s.
        count: maximum number of spans to return.
    """
    best = {}
    for span in spans:
        if span[:2] not in best or span.score > best[span[:2]].score:
            best[span[:2]] = span
    return sorted(best.values(), key=lambda span: (-span.score, span.start, span.end))[:count]


def span_of_tokens(offsets, allowed, start, end):
    """The first and last token of the characters from `start` to `end`; None if the window does not contain all of them.

    Args:
        offsets: `(length, 2)`.
        allowed: the tokens of the text, which are consecutive, `(length,)` bool.
        start, end: first character and the one after the last.
    """
    touched = np.flatnonzero(allowed & (offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not len(touched):
        return None
    text = np.flatnonzero(allowed)
    # At the edge of a window the answer may continue outside.
    cut_before = touched[0] == text[0] and offsets[touched[0], 0] > start
    cut_after = touched[-1] == text[-1] and offsets[touched[-1], 1] < end
    return None if cut_before or cut_after else (int(touched[0]), int(touched[-1]))


# One span: its text, its offsets in the context in characters, its score and its probability among the best spans.
Answer = namedtuple("Answer", ["text", "start", "end", "score", "probability"])

# The answer ("" with offsets None if there is none), the score of no answer minus that of the best span, and the best spans.
Answered = namedtuple("Answered", ["text", "start", "end", "probability", "no_answer_margin", "best"])


class QuestionAnswerer(Task):
    """Find the answer to a question in a text of any length.

    A text that is too long for `max_len` is split into windows, each of which follows the question. A span may start with any token
    that has no more context in another window; the best spans of all windows are compared by the sum of their logits. The score of
    no answer is the sum of the two logits of `[CLS]`, the minimum over all windows.

    Args:
        model: a `BertModel` with the head "question_answering".
        tokenizer: as for `task_tokenizer`.
        no_answer_threshold: the answer is "" if no answer is better than the best span by more than this; None: always answer.
        best: maximum number of spans to return for a question.
        max_answer_tokens: maximum number of tokens in a span.
        max_question_tokens: maximum number of tokens in a question; longer questions are truncated.
        max_len, stride: see `Task`.

    Reference: Devlin et al., 2019, sections 4.2 and 4.3 (https://arxiv.org/abs/1810.04805); `run_squad.py` of google-research/bert.
    """

    kind = "question_answering"
    heads = ("question_answering",)
    per_token = True
    predicts_encoded_rows = True
    examples = "questions"
    metrics = ("f1", "exact_match", "has_answer_f1", "has_answer_exact_match", "no_answer_f1", "no_answer_exact_match")
    answers_by_id = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        no_answer_threshold: float | None = None,
        best: int = 20,
        max_answer_tokens: int = 30,
        max_question_tokens: int = 64,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        for name, value in (("best", best), ("max_answer_tokens", max_answer_tokens), ("max_question_tokens", max_question_tokens)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}.")
        self.no_answer_threshold = no_answer_threshold
        self.best = best
        self.max_answer_tokens = max_answer_tokens
        self.max_question_tokens = max_question_tokens

    def __call__(self, questions: Sequence[str], contexts: str | Sequence[str], batch_size: int = 32) -> list[Answered]:
        """Answer questions.

        Args:
            questions: a list of questions.
            contexts: a text for each of them, or one string for all.
            batch_size: rows per batch.

        Returns:
            An `Answered` for each question: `context[start:end]` is the text.

        Raises:
            ValueError: not a list, an empty list, or a different number of contexts and questions.
        """
        questions = example_list(questions, "questions")
        contexts = [contexts] * len(questions) if isinstance(contexts, str) else example_list(contexts, "contexts")
        if len(contexts) != len(questions):
            raise ValueError(f"contexts must have a text for each of the {len(questions)} questions; got {len(contexts)}.")
        both = zip(questions, contexts, strict=True)
        return self.predict_examples([Question(str(i), *texts) for i, texts in enumerate(both)], batch_size)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        examples = example_list(examples)
        windows = self._windows(examples)
        if any(example.answers is None for example in examples):
            return Encoded(windows)
        offsets = [self._offsets(example, i) for i, example in enumerate(examples)]
        targets = np.array([[self._cls_of(windows, row)] * 2 for row in range(len(windows.ids))], "int32")
        for row, example in enumerate(windows.examples):
            if offsets[example] is not None:
                span = span_of_tokens(windows.offsets[row], windows.sides[row] == 1, *offsets[example])
                targets[row] = targets[row] if span is None else span
        return Encoded(windows, targets)

    def loss(self) -> keras.losses.Loss:
        """Cross entropy of the first and the last token; both are `[CLS]` in a window without the whole answer."""
        return SpanLoss()

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        examples = example_list(examples)
        windows = self._windows(examples)
        spans: list[list[Any]] = [[] for _ in examples]
        no_answer = [np.inf] * len(examples)
        for row, logits in enumerate(self.predict_windows(windows, batch_size, progress)):
            number = windows.examples[row]
            in_context = (windows.sides[row] == 1) & (windows.offsets[row][:, 1] > windows.offsets[row][:, 0])
            spans[number] += best_spans(
                logits[:, 0],
                logits[:, 1],
                windows.offsets[row],
                in_context & windows.best[row],
                in_context,
                self.best,
                self.max_answer_tokens,
            )
            no_answer[number] = min(no_answer[number], float(logits[self._cls_of(windows, row)].sum()))
        return [self._answer(*arguments) for arguments in zip(examples, spans, no_answer, strict=True)]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Exact match and F1, as SQuAD computes them."""
        return squad_scores(_texts_of(examples), [answer.text for answer in answers])

    def tuned_answers(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """As `predict_examples`; if some questions have no answer, `no_answer_threshold` is first tuned for the best F1."""
        examples = example_list(examples)
        right = _texts_of(examples)
        if all(right):
            self.no_answer_threshold = None
            return self.predict_examples(examples, batch_size=batch_size, progress=progress)
        self.no_answer_threshold = math.inf  # the probabilities include no answer, but it is never returned
        answers = self.predict_examples(examples, batch_size=batch_size, progress=progress)
        margins = [answer.no_answer_margin for answer in answers]
        self.no_answer_threshold, _ = best_threshold(right, [answer.text for answer in answers], margins)
        empty = {"text": "", "start": None, "end": None}
        return [answer._replace(**empty) if answer.no_answer_margin > self.no_answer_threshold else answer for answer in answers]

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        best = [
            {"text": one.text, "start": one.start, "end": one.end, "probability": round(one.probability, 6)}
            for one in answer.best[:5]
        ]
        span = {"start": answer.start, "end": answer.end, "probability": round(answer.probability, 6)}
        return {"id": example.id, "question": example.question, "answer": answer.text, **span, "best": best}

    def _windows(self, examples):
        questions, contexts = [example.question for example in examples], [example.context for example in examples]
        return self.windows(questions, contexts, side=1, shortest=min(self.max_question_tokens, (self.max_len - 4) // 2))

    def _cls_of(self, windows, row):
        """The position of the class token in a row without padding."""
        return len(windows.ids[row]) - 1 if getattr(self.tokenizer, "cls_last", False) else 0

    def _offsets(self, example, number):
        """The offsets of the first answer in characters; None if there is none."""
        if not example.answers:
            return None
        for start, text in example.answers:
            if start < 0 or not text or example.context[start : start + len(text)] != text:
                span = example.context[max(start, 0) : max(start, 0) + len(text)]
                raise ValueError(
                    f"an answer must be in its context of {len(example.context)} characters; {example_name(example, number)} has "
                    f"{text!r} at {start}, where {span!r} is."
                )
        start, text = example.answers[0]
        return start, start + len(text)

    def _answer(self, example, spans, no_answer):
        spans = merge_spans(spans, self.best)
        if not spans:  # a context without tokens
            return Answered("", None, None, 1.0, np.inf, [])
        margin = no_answer - spans[0].score
        scores = np.array([span.score for span in spans] + [no_answer] * (self.no_answer_threshold is not None))
        probabilities = softmax(scores).tolist()
        best = [
            Answer(example.context[span.start : span.end], *span, probability)
            for span, probability in zip(spans, probabilities, strict=False)
        ]
        if self.no_answer_threshold is not None and margin > self.no_answer_threshold:
            return Answered("", None, None, probabilities[-1], margin, best)
        return Answered(*best[0][:3], best[0].probability, margin, best)


def _texts_of(examples):
    """The texts of the right answers, a list for each question."""
    return [[text for _, text in example.answers] for example in examples]
