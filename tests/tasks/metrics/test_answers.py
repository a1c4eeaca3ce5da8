"""Answers are scored as SQuAD scores them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics.answers import best_threshold, exact_match, normalized_answer, squad_scores, word_f1

texts = st.lists(st.sampled_from(["The", "a", "Red", "red", "house", "an,", "hou-se", "...", "U.S."]), max_size=5).map(" ".join)
questions = st.lists(st.tuples(st.lists(texts.filter(bool), max_size=3), texts, st.integers(-3, 3)), min_size=1, max_size=8)


def plain_f1(a, b, empty):
    """Cross out the words that both have."""
    a, b = normalized_answer(a).split(), normalized_answer(b).split()
    if not a or not b:
        return float(a == b) * empty
    left, shared = list(b), 0
    for word in a:
        if word in left:
            left.remove(word)
            shared += 1
    precision, recall = shared / len(b), shared / len(a)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


def test_normalisation_removes_case_punctuation_articles_and_spaces():
    assert normalized_answer("  The a-b  (an)  Apple's\tcore. theory") == "ab apples core theory"
    assert exact_match("The U.S.", "us") == 1


@given(questions)
def test_every_question_counts_with_its_best_answer(rows):
    given, said, _ = zip(*[row for row in rows if row[0]] or [(["x"], "y", 0)], strict=True)
    scores = squad_scores(given, said)
    expected = [max(plain_f1(answer, text, 0) for answer in answers) for answers, text in zip(given, said, strict=True)]
    assert scores["f1"] == pytest.approx(100 * sum(expected) / len(expected))
    same = [
        any(normalized_answer(a) == normalized_answer(text) for a in answers) for answers, text in zip(given, said, strict=True)
    ]
    assert scores["exact_match"] == pytest.approx(100 * sum(same) / len(same))


def test_version_2_scores_questions_without_an_answer():
    scores = squad_scores([[], [], ["red house"], ["a"]], ["", "red", "house", ""], "2.0")
    assert scores["no_answer_exact_match"] == 50
    assert scores["has_answer_exact_match"] == 50  # "a" is nothing but an article
    assert scores["has_answer_f1"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert scores["f1"] == pytest.approx((100 + 0 + 100 * 2 / 3 + 100) / 4)


def test_answers_of_only_articles_match_in_one_script_and_not_in_the_other():
    assert (word_f1("the", "a"), word_f1("the", "a", no_words_may_match=False)) == (1, 0)


@given(questions)
def test_the_threshold_is_the_best_of_all(rows):
    given, said, margins = zip(*rows, strict=True)

    def f1_at(threshold):
        chosen = ["" if margin > threshold else text for text, margin in zip(said, margins, strict=True)]
        return squad_scores(given, chosen, "2.0")["f1"]

    threshold, f1 = best_threshold(given, said, margins)
    assert f1 == pytest.approx(f1_at(threshold))
    assert f1 == pytest.approx(max(f1_at(value) for value in (-4, *margins)))
    assert np.abs(np.subtract(margins, threshold)).min() >= 1e-4  # more than the rounding of another batch


def test_what_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="a prediction for each of 1 questions, at least one; got 0"):
        squad_scores([["a"]], [])
    with pytest.raises(ValueError, match="question 1 has none"):
        squad_scores([["a"], []], ["a", "b"], "1.1")
    with pytest.raises(ValueError, match="version must be"):
        squad_scores([["a"]], ["a"], "3")
