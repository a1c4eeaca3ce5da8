"""Answers in texts: the best spans of logits, windows, no answer, training."""

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, plain_logits, sentence, small_encoder, small_task, trained
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import QuestionAnswerer, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.tasks.question_answerer import ScoredSpan, best_spans, merge_spans, span_of_tokens


def question(ask, context, answer=None, name="q"):
    answers = None if answer is None else () if answer == "" else ((context.index(answer), answer),)
    return Question(name, ask, context, answers)


def plain_answers(task, ask, context):
    """Every span of every window with its score, the best for equal offsets; and the lowest score of [CLS]."""
    windows = task.encode([question(ask, context)]).windows
    spans, nothing = {}, []
    for row, ids in enumerate(windows.ids):
        logits = plain_logits(task.model, ids, windows.segments[row], "Question-Answering")
        nothing.append(logits[0].sum())
        tokens = np.flatnonzero(windows.segments[row] == 1)[:-1]
        for i in tokens:
            for j in tokens:
                if i <= j < i + task.max_answer_tokens and windows.best[row][i]:
                    place = (int(windows.offsets[row][i][0]), int(windows.offsets[row][j][1]))
                    spans[place] = max(spans.get(place, -np.inf), logits[i, 0] + logits[j, 1])
    return spans, min(nothing), len(windows.ids)


@pytest.mark.parametrize("words", [6, 60])
def test_the_best_spans_are_those_of_an_exhaustive_search_in_numpy(rng, words):
    task = small_task(QuestionAnswerer, max_len=20, stride=4, best=4, max_answer_tokens=3)
    context = sentence(rng, words)
    answer = task(["who likes paris"], [context])[0]
    spans, nothing, windows = plain_answers(task, "who likes paris", context)
    assert (windows > 1) == (words > 20)
    expected = sorted(spans, key=spans.get, reverse=True)[:4]
    assert [(span.start, span.end) for span in answer.best] == expected
    np.testing.assert_allclose([span.score for span in answer.best], [spans[place] for place in expected], atol=1e-4)
    assert answer.no_answer_margin == pytest.approx(nothing - max(spans.values()), abs=1e-4)
    assert sum(span.probability for span in answer.best) == pytest.approx(1)
    assert answer.text == context[answer.start : answer.end] == answer.best[0].text


def test_no_answer_is_given_where_it_is_better_by_more_than_the_threshold():
    task = small_task(QuestionAnswerer)
    margin = task(["who sat"], "the cat sat on the mat")[0].no_answer_margin
    for threshold, answered in ((margin + 0.1, True), (margin - 0.1, False)):
        task.no_answer_threshold = threshold
        answer = task(["who sat"], "the cat sat on the mat")[0]
        assert bool(answer.text) == answered
        assert (answer.start is not None) == answered
        nothing = answer.best[0].probability * np.exp(answer.no_answer_margin)
        assert nothing + sum(span.probability for span in answer.best) == pytest.approx(1)
        assert answer.probability == pytest.approx(answer.best[0].probability if answered else nothing)


@pytest.mark.slow
def test_it_learns_and_is_loaded_from_its_folder(tmp_path):
    examples = [
        question("where sat the cat", "the cat sat on the red mat in london .", "mat"),
        question("who likes paris", "anna likes paris , and ben likes london .", "anna"),
        question("who likes a dog", "anna likes paris , and ben likes london .", ""),
    ]
    task = QuestionAnswerer.from_encoder(small_encoder(), TOKENIZER, no_answer_threshold=0.0, max_len=32)
    first, last = trained(task, examples, epochs=30, rate=1e-2)
    assert last < first / 3
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert [answer.text for answer in again.predict_examples(examples)] == ["mat", "anna", ""]
    assert again.settings() == task.settings()


def test_targets_are_the_tokens_of_the_answer_in_windows_with_the_whole_answer(rng):
    task = small_task(QuestionAnswerer, max_len=16, stride=4)
    context = f"{sentence(rng, 20)} unlikes anna {sentence(rng, 10)}"
    encoded = task.encode([question("who ?", context, "unlikes anna")])
    shown = []
    for ids, (start, end) in zip(encoded.windows.ids, encoded.targets, strict=True):
        shown.append(end > 0)
        assert TOKENIZER.decode(ids[start : end + 1]) == ("unlikes anna" if end else "")
    assert True in shown
    assert False in shown


def test_a_context_without_tokens_has_no_answer_and_a_long_question_is_cut(rng):
    task = small_task(QuestionAnswerer, max_len=16)
    answers = task([sentence(rng, 30), "who"], ["the cat", ""])
    assert answers[0].text in ("the", "cat", "the cat")
    assert answers[1].text == ""
    assert answers[1].start is None


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Question("q", "who", "the cat", ((4, "dog"),)), "7 characters; example 0 has 'dog' at 4, where 'cat' is"),
        (Question("q", "who", "the cat", ((9, "cat"),), where="a.json, question q"), "a.json, question q has 'cat' at 9"),
        (Question("q", "who", "the cat", ((-3, "cat"),)), "has 'cat' at -3"),
    ],
)
def test_answers_that_are_not_in_the_text_are_one_sentence(example, message):
    with pytest.raises(ValueError, match=message):
        small_task(QuestionAnswerer).encode([example])


def test_other_bad_input_is_one_sentence():
    task = small_task(QuestionAnswerer)
    with pytest.raises(ValueError, match="a text for each of the 2 questions; got 1"):
        task(["who", "where"], ["the cat"])
    with pytest.raises(ValueError, match="questions must be a list"):
        task("who", "the cat")
    with pytest.raises(ValueError, match="best must be at least 1; got 0"):
        small_task(QuestionAnswerer, best=0)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 12), st.integers(0, 10_000))
def test_the_best_spans_are_those_of_an_exhaustive_search(length, max_tokens, count, seed):
    rng = np.random.default_rng(seed)
    starts, ends = rng.normal(size=(2, length))
    may_start, may_end = rng.random((2, length)) < 0.7
    offsets = np.stack([np.arange(length) * 3, np.arange(length) * 3 + 2], axis=1)
    got = best_spans(starts, ends, offsets, may_start, may_end, count, max_tokens)
    every = [
        ScoredSpan(3 * i, 3 * j + 2, starts[i] + ends[j])
        for i in range(length)
        for j in range(i, min(i + max_tokens, length))
        if may_start[i] and may_end[j]
    ]
    expected = sorted(every, key=lambda span: -span.score)[:count]
    assert [span[:2] for span in got] == [span[:2] for span in expected]
    assert [span.score for span in got] == pytest.approx([span.score for span in expected])


def test_windows_that_find_the_same_span_count_once_with_the_better_score():
    spans = [ScoredSpan(0, 3, 1.0), ScoredSpan(4, 6, 3.0), ScoredSpan(0, 3, 2.0), ScoredSpan(0, 6, 0.5)]
    assert merge_spans(spans, 2) == [ScoredSpan(4, 6, 3.0), ScoredSpan(0, 3, 2.0)]


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ((0, 3), (2, 2)),
        ((0, 7), (2, 3)),
        ((5, 6), (3, 3)),  # inside a token: the whole token
        ((8, 14), None),  # continues after the window
        ((20, 22), None),
    ],
)
def test_an_answer_has_its_tokens_if_the_window_has_all_of_them(characters, expected):
    offsets = np.array([(0, 0), (0, 0), (0, 3), (4, 7), (8, 11), (0, 0)])
    chosen = np.array([False, False, True, True, True, False])
    assert span_of_tokens(offsets, chosen, *characters) == expected


def test_an_answer_that_starts_before_the_window_has_no_tokens():
    offsets = np.array([(0, 0), (4, 7), (8, 11)])
    assert span_of_tokens(offsets, np.array([False, True, True]), 0, 7) is None
    assert span_of_tokens(offsets, np.array([False, True, True]), 3, 7) is None
