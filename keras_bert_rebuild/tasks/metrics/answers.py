"""Scores of answers: exact match and F1 of words, as SQuAD's scripts compute them."""

import re
import string
from collections import Counter

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text):
    """An answer without case, punctuation, articles and white space that is not between words.

    Example:

    >>> normalized_answer("The  U.S. dollar!")
    'us dollar'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer, predicted):
    """1.0 where both are the same after normalisation, else 0.0."""
    return float(normalized_answer(answer) == normalized_answer(predicted))


def word_f1(answer, predicted, no_words_may_match=True):
    """F1 of the words that two answers have in common.

    Args:
        answer, predicted: the texts.
        no_words_may_match: whether answers that are nothing but articles and punctuation are the same, as in the script of 2.0;
            in that of 1.1 they have nothing in common.

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
        answers: for every question the answers that were given, strings; none where it has no answer, in version 2.0.
        predicted: the answer to every question, "" for none.
        version: "1.1" or "2.0", whose script counts answers without words otherwise; None for "2.0" where a question has no answer.

    Returns:
        A dictionary with `exact_match` and `f1`; in version 2.0 also those of the questions that have an answer (`has_answer_f1`,
        …) and of those that have none (`no_answer_f1`, …), where there are such.

    Raises:
        ValueError: other numbers of both, or a question without an answer in version 1.1.

    Example:

    >>> squad_scores([["in 1973", "1973"], ["the sea"]], ["1973", "a blue sea"])
    {'exact_match': 50.0, 'f1': 83.33333333333333}

    Reference: Rajpurkar et al., 2016, section 6.1 (https://arxiv.org/abs/1606.05250), and 2018 (https://arxiv.org/abs/1806.03822).
    """
    if version is None:
        version = "1.1" if all(len(given) for given in answers) else "2.0"
    _check(answers, predicted, version)
    rows = np.array([_of_question(given, said, version) for given, said in zip(answers, predicted, strict=True)])
    scores = _percent("", rows)
    if version == "2.0":
        has = np.array([len(given) > 0 for given in answers])
        for name, chosen in (("has_answer_", has), ("no_answer_", ~has)):
            if chosen.any():
                scores |= _percent(name, rows[chosen])
    return scores


def best_threshold(answers, predicted, margins, version="2.0"):
    """The margin above which to say that there is no answer, the one with the best F1.

    Args:
        answers: as for `squad_scores`.
        predicted: the best answer that is not "" to every question.
        margins: for every question the score of no answer less the score of that answer.
        version: as for `squad_scores`.

    Returns:
        `(threshold, F1)`: where the margin is above the threshold the answer is "", and that has this F1 in percent.
    """
    _check(answers, predicted, version)
    margins = np.asarray(margins, "float64")
    said = np.array([_of_question(given, text, version)[1] for given, text in zip(answers, predicted, strict=True)])
    silent = np.array([_of_question(given, "", version)[1] for given in answers])
    order = np.argsort(margins, kind="stable")
    # After so many questions of the smallest margins, in order, the rest is silent.
    gains = np.concatenate([[0.0], np.cumsum((said - silent)[order])])
    ends = np.append(np.flatnonzero(np.diff(margins[order])) + 1, len(order))  # equal margins go together
    places = np.concatenate([[0], ends])
    best = places[gains[places].argmax()]
    threshold = margins[order[best - 1]] if best else np.nextafter(margins.min(), -np.inf)
    return float(threshold), float(100 * (silent.sum() + gains[best]) / len(answers))


def _of_question(given, said, version):
    if version == "2.0":
        # Its script leaves answers out that are nothing but articles and punctuation.
        given = [answer for answer in given if normalized_answer(answer)] or [""]
    return (
        max(exact_match(answer, said) for answer in given),
        max(word_f1(answer, said, version == "2.0") for answer in given),
    )


def _percent(prefix, rows):
    exact, f1 = 100 * rows.mean(0)
    return {f"{prefix}exact_match": float(exact), f"{prefix}f1": float(f1)}


def _check(answers, predicted, version):
    if version not in ("1.1", "2.0"):
        raise ValueError(f"version must be '1.1' or '2.0'; got {version!r}.")
    if len(answers) != len(predicted) or not len(answers):
        raise ValueError(f"expected a prediction for each of {len(answers)} questions, at least one; got {len(predicted)}.")
    if version == "1.1" and not all(len(given) for given in answers):
        number = next(i for i, given in enumerate(answers) if not len(given))
        raise ValueError(f"every question must have an answer in version 1.1; question {number} has none.")
