"""Attributions of every task: the output is the task's own, the scores sum to it, the words are the user's."""

import itertools
import json

import keras
import numpy as np
import pytest
from helpers.hostile_inputs import fault_of, mutations
from helpers.small import spread
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import (
    LateInteractionEmbedder,
    MultipleChoice,
    NextSentence,
    QuestionAnswerer,
    Reranker,
    SentenceEmbedder,
    SparseEmbedder,
    TextClassifier,
    TokenClassifier,
    fill_mask,
)
from keras_bert_rebuild.interpret import METHODS, Attribution, MaskedWords, attribute

TEXT, PAIR = "The Cat sat on the mat.", "Anna likes  UNLIKES!"
LONG = "the cat sat on the mat and anna likes the red dog of ben in paris . " * 4
WITH_MASK = "anna [MASK] the cat"


def probability(task, text, label):
    return task([text])[0].probabilities[label]


def make(name):
    """A task, its text and second text, and its own answer as a function of them; with the options of `attribute`."""
    if name == "classifier":
        task = small_task(TextClassifier, labels=("cat", "dog"))
        return task, TEXT, None, lambda a, _: probability(task, a, "dog"), {"quantity": "probability", "target": "dog"}
    if name == "several labels":
        task = small_task(TextClassifier, labels=("cat", "dog"), problem="multi_label")
        return task, TEXT, None, lambda a, _: probability(task, a, "cat"), {"quantity": "probability", "target": "cat"}
    if name == "regression":
        task = small_task(TextClassifier, problem="regression")
        return task, TEXT, PAIR, lambda a, b: task([a], [b])[0].score, {}
    if name == "tagger":
        task = small_task(TokenClassifier, labels=("O", "B-x", "I-x"))
        return task, TEXT, None, lambda a, _: None, {"at": "Cat", "target": "B-x"}
    if name == "answer":
        task = small_task(QuestionAnswerer)
        return task, "who likes the cat ?", TEXT, lambda a, b: task([a], [b])[0].best[0].score, {}
    if name == "choice":
        task = small_task(MultipleChoice)
        return (
            task,
            TEXT,
            ["the dog", PAIR],
            lambda a, b: task([a], [b])[0].probabilities[1],
            {"quantity": "probability", "target": 1},
        )
    if name == "reranker":
        task = small_task(Reranker)
        return task, "red dog", TEXT, lambda a, b: task.scores_of([(a, b)])[0], {"quantity": "probability"}
    if name == "next sentence":
        task = NextSentence(small_encoder(("nsp",)), TOKENIZER)
        return task, TEXT, PAIR, lambda a, b: task([a], [b])[0], {"quantity": "probability"}
    if name == "similarity":
        task = small_task(SentenceEmbedder, prompts={"p": "who : "}, default_prompt="p")
        return task, TEXT, PAIR, lambda a, b: task.similarity([a], [b])[0], {}
    if name == "sparse":
        task = small_task(SparseEmbedder)
        return task, "red dog", TEXT, lambda a, b: next(iter(task.ranked_scores([a], [b], None)))[0], {}
    if name == "late interaction":
        task = small_task(LateInteractionEmbedder, token_width=8, query_prefix="? ", document_prefix="of ")
        return task, "red dog", TEXT, lambda a, b: task.scores_of(a, [b])[0], {}
    task = MaskedWords(small_encoder(("mlm",)), TOKENIZER)
    best = lambda a, _: fill_mask(task.model, TOKENIZER, a, top_k=1)[0][0][1]  # noqa: E731
    return task, WITH_MASK, None, best, {"quantity": "probability"}


NAMES = (
    *("classifier", "several labels", "regression", "tagger", "answer", "choice", "reranker", "next sentence", "similarity"),
    *("sparse", "late interaction", "masked word"),
)


def one(task, text, pair=None, **options):
    (found,) = attribute(task, [text], None if pair is None else [pair], **options)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_number_is_the_answer_of_the_task_and_integrated_gradients_account_for_it(name):
    task, text, pair, answer, options = make(name)
    found = one(task, text, pair, steps=60 if name in ("sparse", "late interaction") else 20, **options)
    expected = answer(text, pair)
    if expected is not None:
        assert found.value == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
    difference = found.value - found.value_at_baseline
    # A maximum over tokens has kinks, at which the sum for the integral errs.
    tolerance = 0.02 if name in ("sparse", "late interaction") else 1e-4
    assert abs(found.gap) <= tolerance * max(1.0, abs(difference))
    assert sum(word.score for word in found.words) == pytest.approx(difference + found.gap, abs=1e-6)
    assert sum(token.score for token in found.tokens) == pytest.approx(difference + found.gap, abs=1e-6)
    assert any(abs(word.score) > 1e-4 for word in found.words)


@pytest.mark.parametrize("name", NAMES)
def test_words_are_the_users_own_in_order(name):
    task, text, pair, _, options = make(name)
    found = one(task, text, pair, method="gradient_x_input", **options)
    texts = (text, *([pair] if isinstance(pair, str) else pair or ()))
    assert found.texts == texts
    for word in found.words:
        assert texts[word.text][word.start : word.end] == word.word
        assert word.word.strip() == word.word != ""
    for number, of_one in enumerate(texts):
        own = [word for word in found.words if word.text == number]
        assert "".join(word.word for word in own) == "".join(of_one.split())
        assert all(first.end <= second.start for first, second in itertools.pairwise(own))
    for token in found.tokens:
        assert token.text < 0 or texts[token.text][token.start : token.end].strip()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_scores_every_word(method):
    task, *_ = make("classifier")
    found = one(task, TEXT, method=method)
    assert [word.word for word in found.words] == ["The", "Cat", "sat", "on", "the", "mat", "."]
    assert all(np.isfinite(word.score) and word.score != 0 for word in found.words)
    assert found.method == method
    if method == "rollout":
        assert sum(token.score for token in found.tokens) == pytest.approx(1)
        assert all(token.score >= 0 for token in found.tokens)


def test_leaving_a_word_out_is_the_answer_to_the_text_with_a_mask_in_its_place():
    task, *_ = make("classifier")
    model = MaskedWords(small_encoder(("mlm",)), TOKENIZER)
    found = one(model, "the cat [MASK] on the mat", method="leave_one_out", target="sat", quantity="probability")
    without = one(model, "the [MASK] [MASK] on the mat", method="gradient_x_input", target="sat", quantity="probability", at=1)
    assert found.words[1].word == "cat"
    assert found.words[1].score == pytest.approx(found.value - without.value, abs=1e-6)
    mask = next(word for word in found.words if word.word == "[MASK]")
    assert mask.score == 0
    assert task is not model


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classifier", "tagger", "answer", "reranker", "similarity", "sparse", "masked word"])
def test_a_text_of_several_windows_has_the_answer_and_the_words_of_the_whole(name):
    task, _, pair, answer, options = make(name)
    text, pair = (pair and "red dog", LONG) if name in ("answer", "reranker") else (LONG, pair)
    if name == "masked word":
        text = f"{LONG} [MASK]"
    if name == "tagger":
        options = {"at": 40, "target": "B-x"}
    found = one(task, text, pair, steps=8, **options)
    expected = answer(text, pair)
    if expected is not None:
        assert found.value == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
    assert len({token.row for token in found.tokens}) > 1 + (name == "similarity")
    long = LONG if name in ("answer", "reranker") else text
    own = [word for word in found.words if found.texts[word.text] == long]
    assert "".join(word.word for word in own) == "".join(long.split())


def test_only_the_strongest_words_of_a_sparse_vector_count_where_the_task_has_a_limit():
    task = small_task(SparseEmbedder, max_active=5)
    found = one(task, "red dog", TEXT, method="gradient_x_input")
    assert found.value == pytest.approx(float(next(iter(task.ranked_scores(["red dog"], [TEXT], None)))[0]), rel=1e-5)


@pytest.mark.slow
def test_other_weights_change_the_answer():
    """Adebayo et al., 2018, section 3 (https://arxiv.org/abs/1810.03292): a method that explains the model must see its weights."""
    task, *_ = make("classifier")
    before = {method: [word.score for word in one(task, TEXT, method=method, target="dog").words] for method in METHODS}
    spread(task.model, np.random.default_rng(99))
    for method in METHODS:
        after = [word.score for word in one(task, TEXT, method=method, target="dog").words]
        assert np.corrcoef(before[method], after)[0, 1] < 0.98, method


def test_a_model_is_left_as_it_was():
    task, *_ = make("classifier")
    before, summary = [np.array(array) for array in task.model.get_weights()], task.model.get_config()
    answer = task([TEXT])
    for method in ("integrated_gradients", "shapley", "rollout"):
        one(task, TEXT, method=method)
    assert task([TEXT]) == answer
    assert task.model.get_config() == summary
    assert all(np.array_equal(a, b) for a, b in zip(before, task.model.get_weights(), strict=True))
    assert all(getattr(variable.value, "grad", None) is None for variable in task.model.weights)


@pytest.mark.slow
def test_baselines_differ_and_gradients_of_a_half_precision_model_are_finite():
    task, *_ = make("classifier")
    values = {baseline: one(task, TEXT, baseline=baseline, steps=4).value_at_baseline for baseline in ("mask", "pad", "zero")}
    assert len(set(values.values())) == 3
    half = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog"), dtype="mixed_bfloat16")
    found = one(half, TEXT, steps=4)
    assert all(np.isfinite(word.score) for word in found.words)
    assert keras.config.dtype_policy().name == "float32"


def test_an_attribution_is_the_same_after_json():
    task, *_ = make("classifier")
    found = one(task, TEXT, method="shapley", exact_words=2, samples=4)
    values = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert Attribution.from_json(values) == found
    assert values["words"][1]["word"] == "Cat"
    assert [token["token"] for token in values["tokens"]][:3] == ["[CLS]", "the", "cat"]
    assert all(word["error"] >= 0 for word in values["words"])


@pytest.mark.slow
def test_without_a_target_it_is_what_the_task_answers():
    task, *_ = make("classifier")
    assert one(task, TEXT).target == f"logit of {task([TEXT])[0].label}"
    task, text, pair, *_ = make("answer")
    assert one(task, text, pair).target == f"score of the answer {task([text], [pair])[0].text}"
    task, text, *_ = make("masked word")
    assert one(task, text).target.startswith(f"logit of {fill_mask(task.model, TOKENIZER, text, top_k=1)[0][0][0]} ")


MISTAKES = (
    ("classifier", {"target": "bird"}, "target must be one of cat, dog; got 'bird'"),
    ("classifier", {"at": 1}, "at must be left out"),
    ("classifier", {"quantity": "loss"}, "quantity must be logit or probability"),
    ("classifier", {"baseline": "unk"}, "baseline must be one of mask, pad, zero"),
    ("classifier", {"method": "lime"}, "method must be one of"),
    ("classifier", {"batch_size": 0}, "batch_size must be at least 1"),
    ("regression", {"quantity": "probability"}, "quantity must be logit"),
    ("regression", {"target": "score"}, "target must be left out"),
    ("tagger", {"at": "bird"}, "at must be a word of the text"),
    ("answer", {"target": "a bird"}, "target must be a part of the text"),
    ("answer", {"quantity": "probability"}, "quantity must be logit"),
    ("similarity", {"target": "cat"}, "target must be left out"),
    ("masked word", {"target": "no such words"}, "target must be one token of the vocabulary"),
    ("masked word", {"at": 3}, "at must be the index of a .MASK."),
    ("sparse", {"target": "cat"}, "target must be left out for the score of a query and a document"),
)


@pytest.mark.parametrize(("name", "changes", "message"), MISTAKES)
def test_a_mistake_is_one_sentence(name, changes, message):
    task, text, pair, _, options = make(name)
    with pytest.raises(ValueError, match=message):
        one(task, text, pair, **{**options, **changes})


def test_texts_that_do_not_fit_a_task_are_refused():
    classifier, *_ = make("classifier")
    for task, texts, pairs, message in (
        (classifier, [], None, "texts"),
        (classifier, ["a"], ["b", "c"], "pairs must have an item for each of the 1 texts; got 2"),
        (classifier, [""], None, "must have at least one word"),
        (classifier, [3], None, "texts must be strings"),
        (make("similarity")[0], ["a"], None, "give the second as a pair; got 1 text"),
        (make("choice")[0], ["a"], None, "got only a prompt"),
        (make("masked word")[0], ["no mask"], None, "the text must have a .MASK."),
        (object(), ["a"], None, "attribute accepts tasks of"),
    ):
        with pytest.raises(ValueError, match=message):
            attribute(task, texts, pairs)


def test_json_with_a_value_of_a_wrong_type_is_no_attribution():
    task = small_task(TextClassifier, labels=("cat", "dog"))
    (found,) = attribute(task, ["the cat"], method="shapley", samples=4)
    good = json.loads(json.dumps(found.to_json()))
    assert Attribution.from_json(good) == found
    faults = []
    for where, mutated in mutations(good):
        fault = fault_of(lambda values=mutated: Attribution.from_json(values).to_html(), "attribution")
        faults += [] if fault is None else [f"{where}: {fault}"]
    assert faults == []
    for missing in ("texts", "value"):
        with pytest.raises(ValueError, match=f"an attribution must have .* as {missing}; it has none"):
            Attribution.from_json({name: value for name, value in good.items() if name != missing})
    with pytest.raises(ValueError, match=r"an attribution must have texts, words, .*; got colour"):
        Attribution.from_json({**good, "colour": 1})
