"""Scores of rankings are those of trec_eval, with equal scores, and average precision is scikit-learn's."""

import numpy as np
import pytest
import pytrec_eval
from sklearn.metrics import average_precision_score

from keras_bert_rebuild.tasks.metrics import average_precision, ranking_scores_by_query

NAMES = {"ndcg@10": "ndcg_cut_10", "ndcg": "ndcg", "mrr": "recip_rank", "recall@5": "recall_5", "map@5": "map_cut_5", "map": "map"}


@pytest.mark.parametrize("seed", range(5))
def test_the_scores_of_many_queries_equal_those_of_trec_eval(seed):
    rng = np.random.default_rng(seed)
    documents = [f"doc-{number}" for number in range(40)]
    judgements, run = {}, {}
    for query in range(60):
        judged = rng.choice(documents, rng.integers(1, 20), replace=False)
        found = rng.choice(documents, rng.integers(1, 40), replace=False)
        judgements[f"q{query}"] = {str(each): int(rng.integers(-1, 4)) for each in judged}
        # Few different scores, and some that differ only beyond float32.
        run[f"q{query}"] = {str(each): float(rng.integers(0, 5) + rng.choice([0, 1e-9, 0.25])) for each in found}
    ours = ranking_scores_by_query(judgements, run, NAMES)
    theirs = pytrec_eval.RelevanceEvaluator(judgements, set(NAMES.values())).evaluate(run)
    assert len(ours) > 50
    for query, scores in ours.items():
        assert scores == pytest.approx({name: theirs[query][other] for name, other in NAMES.items()}, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    relevant, scores = rng.random(200) < 0.3, rng.integers(0, 30, 200) / 7
    assert average_precision(relevant, scores) == pytest.approx(average_precision_score(relevant, scores))
