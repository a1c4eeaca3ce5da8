"""Scores of labels, numbers, answers and rankings equal plain counting, and correlations follow the definitions, also with ties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics import average_precision, ranking_scores, ranking_scores_by_query
from keras_bert_rebuild.tasks.metrics.answers import best_threshold, exact_match, normalized_answer, squad_scores, word_f1
from keras_bert_rebuild.tasks.metrics.classes import (
    accuracy,
    class_scores,
    confusion_matrix,
    macro_f1,
    macro_f1_of_sets,
    matthews,
    mean_squared_error,
    micro_f1,
    pearson,
    ranks,
    spearman,
)
from keras_bert_rebuild.tasks.metrics.ranking import SEARCH_METRICS, measures_to, ranked

pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=30)
sets = st.lists(st.tuples(*[st.frozensets(st.sampled_from("abcd"))] * 2), min_size=1, max_size=20)


def f1(true, predicted):
    """From precision and recall, example by example."""
    both = sum(a and b for a, b in zip(true, predicted, strict=True))
    precision = both / sum(predicted) if sum(predicted) else 0
    recall = both / sum(true) if sum(true) else 0
    return 2 * precision * recall / (precision + recall) if both else 0


@given(pairs)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(rows):
    true, predicted = zip(*rows, strict=True)
    of = {label: f1([a == label for a in true], [b == label for b in predicted]) for label in {*true, *predicted}}
    assert macro_f1(true, predicted) == pytest.approx(sum(of.values()) / len(of))
    assert {label: scores["f1"] for label, scores in class_scores(true, predicted).items()} == pytest.approx(of)


@given(pairs)
def test_matthews_is_the_correlation_of_the_indicators_of_all_labels(rows):
    true, predicted = (np.array(column) for column in zip(*rows, strict=True))
    a, b = (np.stack([values == label for label in "abcde"], 1).astype(float) for values in (true, predicted))
    covariance = lambda x, y: ((x - x.mean(0)) * (y - y.mean(0))).sum()  # noqa: E731
    spread = math.sqrt(covariance(a, a) * covariance(b, b))
    assert matthews(true.tolist(), predicted.tolist()) == pytest.approx(covariance(a, b) / spread if spread > 1e-9 else 0, abs=1e-9)


@given(pairs)
def test_the_matrix_counts_every_example_once(rows):
    true, predicted = zip(*rows, strict=True)
    matrix = confusion_matrix(true, predicted, "abcde")
    assert matrix.tolist() == [[rows.count((a, b)) for b in "abcde"] for a in "abcde"]
    assert accuracy(true, predicted) == matrix.trace() / len(rows)


@given(sets)
def test_f1_of_sets_is_the_f1_of_their_members(rows):
    true, predicted = zip(*rows, strict=True)
    flat = [(label in a, label in b) for a, b in rows for label in "abcd"]
    assert micro_f1(true, predicted) == pytest.approx(f1(*zip(*flat, strict=True)))
    by_label = [f1([label in a for a in true], [label in b for b in predicted]) for label in "abcd"]
    assert macro_f1_of_sets(true, predicted, "abcd") == pytest.approx(sum(by_label) / 4)


def test_sets_without_any_label_score_nothing():
    assert macro_f1_of_sets([()], [()]) == micro_f1([()], [()]) == 0


@pytest.mark.parametrize("score", [accuracy, macro_f1, matthews, micro_f1])
@pytest.mark.parametrize(("true", "predicted"), [([], []), (["a"], ["a", "b"])])
def test_predictions_that_do_not_fit_are_an_error(score, true, predicted):
    with pytest.raises(ValueError, match="as many predictions as labels, at least one"):
        score(true, predicted)


def test_a_label_outside_of_the_set_is_an_error():
    with pytest.raises(ValueError, match="labels among a, b; got c"):
        confusion_matrix(["a"], ["c"], ["a", "b"])


rows = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=30)


def plain_pearson(a, b):
    """In integers up to the last step."""
    n = len(a)
    products = n * sum(x * y for x, y in zip(a, b, strict=True)) - sum(a) * sum(b)
    squares = [n * sum(x * x for x in values) - sum(values) ** 2 for values in (a, b)]
    return products / math.sqrt(squares[0] * squares[1]) if all(squares) else math.nan


def doubled_ranks(values):
    """Twice the mean of the ranks of a number."""
    return [2 * sum(other < value for other in values) + sum(other == value for other in values) + 1 for value in values]


@given(rows)
def test_pearson_is_that_of_exact_sums(rows):
    a, b = zip(*rows, strict=True)
    assert pearson(a, b) == pytest.approx(plain_pearson(a, b), abs=1e-12, nan_ok=True)


@given(rows)
def test_spearman_is_pearson_of_mean_ranks(rows):
    a, b = zip(*rows, strict=True)
    assert (2 * ranks(a)).tolist() == doubled_ranks(a)
    assert spearman(a, b) == pytest.approx(plain_pearson(doubled_ranks(a), doubled_ranks(b)), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_line_correlates_fully_at_any_scale(scale):
    values = np.array([1.0, 2.0, 5.0]) * scale
    assert pearson(values, 3 * values) == pytest.approx(1)
    assert pearson(values, -values) == spearman(values, -values) == pytest.approx(-1)


def test_errors_are_squared():
    assert mean_squared_error([1, 2], [1, 4]) == 2


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


DOCUMENTS = [f"d{i}" for i in range(9)]
grades = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), max_size=9)
scores = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 4).map(float), max_size=9)  # with equal ones


def plainly(judged, found, k):
    """The four scores of a query by their definitions, document by document."""
    order = sorted(sorted(found, reverse=True), key=lambda document: -found[document])
    relevant = [document for document in judged if judged[document] > 0]
    gains = [max(judged.get(document, 0), 0) for document in order]
    best = sorted((judged[document] for document in relevant), reverse=True)
    gain = lambda values: sum(value / math.log2(rank + 1) for rank, value in enumerate(values[:k], 1))  # noqa: E731
    ranks = [rank for rank, value in enumerate(gains[:k], 1) if value > 0]
    return {
        f"ndcg@{k}": gain(gains) / gain(best),
        f"mrr@{k}": 1 / ranks[0] if ranks else 0,
        f"recall@{k}": len(ranks) / len(relevant),
        f"map@{k}": sum((i + 1) / rank for i, rank in enumerate(ranks)) / len(relevant),
    }


@given(st.lists(st.tuples(grades, scores), min_size=1, max_size=4), st.integers(1, 10))
def test_scores_are_means_of_their_definitions(queries, k):
    judgements, run = ({f"q{i}": pair[part] for i, pair in enumerate(queries)} for part in (0, 1))
    expected = {
        query: plainly(judged, run[query], k) for query, judged in judgements.items() if max(judged.values(), default=0) > 0
    }
    measures = [f"{name}@{k}" for name in ("ndcg", "mrr", "recall", "map")]
    found = ranking_scores_by_query(judgements, run, measures)
    assert found.keys() == expected.keys()
    for query, values in expected.items():
        assert found[query] == pytest.approx(values)
    if expected:
        mean = {name: np.mean([values[name] for values in expected.values()]) for name in measures}
        assert ranking_scores(judgements, run, measures) == pytest.approx(mean)


@given(st.lists(scores, min_size=1, max_size=4))
def test_the_usual_measures_have_no_name_deeper_than_the_run(rankings):
    run = {f"q{i}": ranking for i, ranking in enumerate(rankings)}
    judgements = {query: {"d0": 1, "d3": 2} for query in run}
    depth = max(1, *map(len, rankings))
    figures = ranking_scores(judgements, run)
    assert figures == ranking_scores(judgements, run, [f"{name}@{depth}" for name in ("ndcg", "mrr", "recall", "map")])
    assert list(figures) == measures_to(depth, SEARCH_METRICS)


def test_a_deep_run_has_the_usual_measures():
    run = {"q": {f"d{i}": -float(i) for i in range(200)}}
    assert list(ranking_scores({"q": {"d0": 1}}, run)) == ["ndcg@10", "mrr@10", "recall@100", "map@200"]


def test_a_query_that_the_run_lacks_counts_nothing():
    judgements = {"a": {"x": 1}, "b": {"x": 1}, "without relevant documents": {"x": 0}}
    assert ranking_scores(judgements, {"a": {"x": 1.0}}, ["mrr", "map"]) == {"mrr": 0.5, "map": 0.5}


def test_the_best_ranking_counts_documents_that_were_not_found():
    found = ranking_scores({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"b": 1.0}}, ["ndcg@2", "ndcg"])
    best = [3, 3 + 2 / math.log2(3), 3 + 2 / math.log2(3) + 1 / 2]
    assert found == pytest.approx({"ndcg@2": 2 / best[1], "ndcg": 2 / best[2]})


def test_equal_scores_are_ranked_by_name_the_last_first_in_float32():
    assert ranked({"a": 1.0, "b": 1.0 + 1e-9, "c": 2.0, "a1": 1.0}) == ["c", "b", "a1", "a"]


@pytest.mark.parametrize("measure", ["ndgc@10", "ndcg@0", "ndcg@", "map@x", "mrr@-1", "recall@²"])
def test_an_unknown_measure_is_refused(measure):
    with pytest.raises(ValueError, match="a measure must be one of ndcg, mrr, recall, map, with a cutoff such as @10"):
        ranking_scores({"q": {"a": 1}}, {}, [measure])


def test_nothing_relevant_and_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="at least one query with a relevant document"):
        ranking_scores({"q": {"a": 0}}, {"q": {"a": 1.0}})
    with pytest.raises(ValueError, match="the score of b is NaN"):
        ranking_scores({"q": {"a": 1}}, {"q": {"a": 1.0, "b": math.nan}})


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=12))
def test_average_precision_sums_the_precision_at_every_distinct_score(pairs):
    relevant, values = zip(*pairs, strict=True)
    if not any(relevant):
        with pytest.raises(ValueError, match="got nothing relevant"):
            average_precision(relevant, values)
        return
    total = before = 0.0
    for threshold in sorted(set(values), reverse=True):
        chosen = [hit for hit, value in pairs if value >= threshold]
        recall = sum(chosen) / sum(relevant)
        total, before = total + (recall - before) * sum(chosen) / len(chosen), recall
    assert average_precision(relevant, values) == pytest.approx(total)


def test_average_precision_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="got 2 labels and 3 scores"):
        average_precision([1, 0], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="got NaN"):
        average_precision([1, 0], [0.1, math.nan])
