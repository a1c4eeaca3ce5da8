"""Scores of answers: exact match and F1 of words, as SQuAD's scripts compute them."""

import re
import string
from collections import Counter

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text):
    """An answer without case, punctuation, articles and extra white space.

    Example:

    >>> normalized_answer("The  U.S. dollar!")
    'us dollar'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer, predicted):
    """1.0 if both are equal after normalisation, else 0.0."""
    return float(normalized_answer(answer) == normalized_answer(predicted))


def word_f1(answer, predicted, no_words_may_match=True):
    """F1 of the words that two answers have in common.

    Args:
        answer, predicted: the texts.
        no_words_may_match: whether two answers without words (only articles and punctuation) match, as in the script of SQuAD 2.0;
            in that of 1.1 they do not.

    Example:

    >>> word_f1("the red house", "a red door")
    0.5
    """
    a, b = (normalized_answer(text).split() for text in (answer, predicted))
    if not a or not b:
        return float(a == b and no_words_may_match)
    shared = sum((Counter(a) & Counter(b)).values())
    return 2 * shared / (len(a) + len(b))


def squad_scores(answers, predicted, version=None):
    """Exact match and F1 of all questions, in percent.

    Args:
        answers: the correct answers to every question, strings; in version 2.0 an empty list if it has no answer.
        predicted: the predicted answer to every question, "" for none.
        version: "1.1" or "2.0", whose scripts treat answers without words differently; None for "2.0" if a question has no answer.

    Returns:
        A dictionary with `exact_match` and `f1`; in version 2.0 also those of the questions with an answer (`has_answer_f1`, …) and
        without one (`no_answer_f1`, …), if there are any.

    Raises:
        ValueError: the numbers of answers and predictions differ, or a question has no answer in version 1.1.

    Example:

    >>> squad_scores([["in 1973", "1973"], ["the sea"]], ["1973", "a blue sea"])
    {'exact_match': 50.0, 'f1': 83.33333333333333}

    Reference: Rajpurkar et al., 2016, section 6.1 (https://arxiv.org/abs/1606.05250), and 2018 (https://arxiv.org/abs/1806.03822).
    """
    if version is None:
        version = "1.1" if all(len(right) for right in answers) else "2.0"
    _check(answers, predicted, version)
    rows = np.array([_question_scores(right, text, version) for right, text in zip(answers, predicted, strict=True)])
    scores = _percent("", rows)
    if version == "2.0":
        has_answer = np.array([len(right) > 0 for right in answers])
        for name, rows_of_kind in (("has_answer_", has_answer), ("no_answer_", ~has_answer)):
            if rows_of_kind.any():
                scores |= _percent(name, rows[rows_of_kind])
    return scores


# How far a threshold is from the margins if all of them are on one side of it, far above rounding.
BEYOND = 1e-3


def best_threshold(answers, predicted, margins, version="2.0"):
    """The threshold of the margin with the best F1; above it, "no answer" is predicted.

    It lies halfway between two margins: at one of them, rounding in a batch of another shape would decide about that question.

    Args:
        answers: as for `squad_scores`.
        predicted: the best non-empty answer to every question.
        margins: for every question, the score of no answer minus the score of that answer.
        version: as for `squad_scores`.

    Returns:
        `(threshold, F1)`: the F1 in percent if the answer is "" wherever the margin is above the threshold.
    """
    _check(answers, predicted, version)
    margins = np.asarray(margins, "float64")
    answered = np.array([_question_scores(right, text, version)[1] for right, text in zip(answers, predicted, strict=True)])
    unanswered = np.array([_question_scores(right, "", version)[1] for right in answers])
    order = np.argsort(margins, kind="stable")
    # gains[n]: the gain in F1 of answering only the n questions with the smallest margins.
    gains = np.concatenate([[0.0], np.cumsum((answered - unanswered)[order])])
    ends = np.append(np.flatnonzero(np.diff(margins[order])) + 1, len(order))  # questions with equal margins are answered together
    counts = np.concatenate([[0], ends])
    best = counts[gains[counts].argmax()]
    padded = np.concatenate([margins[order[:1]] - 2 * BEYOND, margins[order], margins[order[-1:]] + 2 * BEYOND])
    below, above = padded[best : best + 2]
    threshold = min((below + above) / 2, np.nextafter(above, -np.inf))
    return float(threshold), float(100 * (unanswered.sum() + gains[best]) / len(answers))


def _question_scores(right, text, version):
    if version == "2.0":
        # Its script ignores answers of only articles and punctuation.
        right = [answer for answer in right if normalized_answer(answer)] or [""]
    return (
        max(exact_match(answer, text) for answer in right),
        max(word_f1(answer, text, version == "2.0") for answer in right),
    )


def _percent(prefix, rows):
    exact, f1 = 100 * rows.mean(0)
    return {f"{prefix}exact_match": float(exact), f"{prefix}f1": float(f1)}


def _check(answers, predicted, version):
    if version not in ("1.1", "2.0"):
        raise ValueError(f"version must be '1.1' or '2.0'; got {version!r}.")
    if len(answers) != len(predicted) or not len(answers):
        raise ValueError(f"expected a prediction for each of {len(answers)} questions, at least one; got {len(predicted)}.")
    if version == "1.1" and not all(len(right) for right in answers):
        number = next(i for i, right in enumerate(answers) if not len(right))
        raise ValueError(f"every question must have an answer in version 1.1; question {number} has none.")
