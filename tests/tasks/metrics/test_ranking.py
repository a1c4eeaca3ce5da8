"""Scores of rankings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics import average_precision, ranking_scores, ranking_scores_by_query
from keras_bert_rebuild.tasks.metrics.ranking import SEARCH_METRICS, measures_to, ranked

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
