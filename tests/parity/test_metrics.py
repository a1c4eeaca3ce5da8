"""Scores are those of scikit-learn, scipy and seqeval on random cases."""

import warnings

import numpy as np
import pytest
import scipy.stats
import seqeval.metrics
import seqeval.scheme
import sklearn.metrics
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics import classes, entities
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
