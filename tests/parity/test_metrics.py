"""Scores are those of scikit-learn, scipy, seqeval and trec_eval on random cases, and a logistic regression is scikit-learn's."""

import warnings

import numpy as np
import pytest
import pytrec_eval
import scipy.stats
import seqeval.metrics
import seqeval.scheme
import sklearn.metrics
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from keras_bert_rebuild.tasks.metrics import average_precision, classes, entities, ranking_scores_by_query
from keras_bert_rebuild.tasks.metrics.linear_probe import fit_linear_probe
from keras_bert_rebuild.tasks.tag_schemes import in_scheme, spans_of_tags, tags_of_entities

pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=40)
numbers = st.lists(st.tuples(*[st.integers(-20, 20).map(lambda n: n / 4)] * 2), min_size=3, max_size=40)
tags = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("x", "y-z"))])
sentences = st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=10), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _without_warnings():
    """Peers warn where something is 0 / 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@given(pairs)
@settings(max_examples=300)
def test_scores_of_labels_are_those_of_scikit_learn(rows):
    true, predicted = zip(*rows, strict=True)
    assert classes.accuracy(true, predicted) == pytest.approx(sklearn.metrics.accuracy_score(true, predicted))
    assert classes.macro_f1(true, predicted) == pytest.approx(sklearn.metrics.f1_score(true, predicted, average="macro"))
    assert classes.matthews(true, predicted) == pytest.approx(sklearn.metrics.matthews_corrcoef(true, predicted), abs=1e-12)
    expected = sklearn.metrics.confusion_matrix(true, predicted, labels=list("abcde"))
    assert classes.confusion_matrix(true, predicted, "abcde").tolist() == expected.tolist()


@given(st.lists(st.tuples(*[st.lists(st.booleans(), min_size=3, max_size=3)] * 2), min_size=1, max_size=20))
def test_scores_of_sets_are_those_of_scikit_learn(rows):
    true, predicted = zip(*rows, strict=True)
    sets = [[tuple(np.flatnonzero(row)) for row in side] for side in (true, predicted)]
    for average, score in (("micro", classes.micro_f1(*sets)), ("macro", classes.macro_f1_of_sets(*sets, range(3)))):
        assert score == pytest.approx(sklearn.metrics.f1_score(np.array(true), np.array(predicted), average=average))


@given(numbers)
@settings(max_examples=300)
def test_correlations_are_those_of_scipy(rows):
    a, b = zip(*rows, strict=True)
    expected = scipy.stats.pearsonr(a, b).statistic, scipy.stats.spearmanr(a, b).statistic
    assert (classes.pearson(a, b), classes.spearman(a, b)) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(sentences)
@settings(max_examples=500)
def test_scores_of_entities_are_those_of_seqeval(rows):
    true, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    scores = entities.entity_scores(true, predicted)
    for name in ("precision", "recall", "f1"):
        assert scores[name] == pytest.approx(getattr(seqeval.metrics, f"{name}_score")(true, predicted))
    report = seqeval.metrics.classification_report(true, predicted, output_dict=True)
    expected = {kind: values["f1-score"] for kind, values in report.items() if not kind.endswith(" avg")}
    assert {kind: values["f1"] for kind, values in entities.entity_type_scores(true, predicted).items()} == pytest.approx(expected)


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU"])
@given(data=st.data())
@settings(max_examples=300)
def test_strict_scores_of_entities_are_those_of_seqeval(scheme, data):
    prefixes = [letter for letter in scheme if letter.isalpha() and letter != "O"]
    tag = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("x", "y-z"))])
    rows = data.draw(st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=10), min_size=1, max_size=6))
    true, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    theirs = getattr(seqeval.scheme, "IOBES" if scheme == "BIOES" else scheme)
    expected = seqeval.metrics.classification_report(true, predicted, mode="strict", scheme=theirs, output_dict=True)
    scores = entities.entity_scores(true, predicted, scheme)
    for name, theirs in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
        assert scores[name] == pytest.approx(expected["micro avg"][theirs])
    found = {kind: values["f1-score"] for kind, values in expected.items() if not kind.endswith(" avg")}
    of_types = entities.entity_type_scores(true, predicted, scheme)
    assert {kind: values["f1"] for kind, values in of_types.items()} == pytest.approx(found)


@pytest.mark.parametrize("scheme", ["IO", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES"])
@given(data=st.data())
def test_entities_of_legal_tags_are_those_of_seqeval_s_default_mode(scheme, data):
    found, at = [], 0
    for kind, length in data.draw(st.lists(st.tuples(st.sampled_from("xyO"), st.integers(1, 3)), min_size=1, max_size=6)):
        found += [(kind, at, at + length - 1)] * (kind != "O")
        at += length
    tags = tags_of_entities(scheme, found, at)
    assert entities.entities_of(tags) == seqeval.metrics.sequence_labeling.get_entities(tags)
    strict = seqeval.scheme.Entities([in_scheme("IOB2", tags)], seqeval.scheme.IOB2).entities[0]
    assert [(one.tag, one.start, one.end - 1) for one in strict] == entities.entities_of(tags)


class Words:
    """As a tokenizer, joins words."""

    convert_tokens_to_string = staticmethod(" ".join)


@pytest.mark.parametrize("labels", [("O", "B-x", "I-x", "B-y", "I-y", "X"), ("O", "x", "y"), ("O", "I-x", "I-y")])
@given(data=st.data())
@settings(max_examples=300)
def test_entities_are_those_of_the_pipeline_of_transformers(labels, data):
    tags = data.draw(st.lists(st.sampled_from(labels), min_size=1, max_size=10))
    pipeline = object.__new__(transformers.TokenClassificationPipeline)
    pipeline.tokenizer = Words()
    rows = [{"entity": tag, "score": 1.0, "word": "", "start": i, "end": i + 1} for i, tag in enumerate(tags)]
    theirs = [(group["entity_group"], group["start"], group["end"]) for group in pipeline.group_entities(rows)]
    ours = spans_of_tags([entities.canonical(tag, entities.notation_of(labels)) for tag in tags])
    assert [tuple(span) for span in ours] == [group for group in theirs if group[0] != "O"]


# Scores of rankings are those of trec_eval, with equal scores, and average precision is scikit-learn's.


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


# Multinomial logistic regression against scikit-learn's.


@pytest.mark.parametrize(("n", "width", "labels"), [(200, 8, 2), (200, 8, 5), (60, 100, 3)])
@pytest.mark.parametrize("l2", [1.0, 1e-3])
def test_the_fit_is_scikit_learns(n, width, labels, l2):
    rng = np.random.default_rng(n + labels)
    answers = np.arange(n) % labels
    vectors = rng.standard_normal((labels, width))[answers] + rng.standard_normal((n, width)) * rng.uniform(0.2, 3, width) + 1
    peer = LogisticRegression(C=(2 if labels == 2 else 1) / (l2 * n), tol=1e-10, max_iter=10_000).fit(vectors, answers)
    probe = fit_linear_probe(vectors, answers, labels, l2)
    np.testing.assert_allclose(np.exp(probe.log_probabilities(vectors)), peer.predict_proba(vectors), atol=1e-5)
    # For two labels scikit-learn has the difference of their vectors.
    kernel = probe.kernel.T if labels > 2 else (probe.kernel[:, 1:] - probe.kernel[:, :1]).T
    np.testing.assert_allclose(kernel, peer.coef_, atol=1e-4)
