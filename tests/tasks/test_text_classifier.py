"""Classification of texts and of choices: answers, windows, training, folders, errors."""

import numpy as np
import pytest
from helpers.reference import softmax
from helpers.small_tasks import PETS, TOKENIZER, plain_logits, sentence, small_encoder, small_task, trained

from keras_bert_rebuild import MultipleChoice, TextClassifier, TokenClassifier, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion, ClassifiedText

LABELS = ("bad", "good", "so")


def plain_mean(task, text):
    """The mean of the logits of the windows of a text, weighted with their numbers of tokens."""
    windows = task.encode([ClassifiedText(text)]).windows
    logits = [plain_logits(task.model, ids, ids * 0, "Classification") for ids in windows.ids]
    return np.average(logits, axis=0, weights=[len(ids) for ids in windows.ids]), len(logits)


@pytest.mark.backend
def test_answers_are_those_of_plain_numpy_in_the_order_of_the_texts(rng):
    task = small_task(TextClassifier, labels=LABELS, max_len=20, stride=4)
    texts = [sentence(rng, words) for words in (3, 70, 1, 18, 9, 30, 5)]
    counts = []
    for text, answer in zip(texts, task(texts, batch_size=2), strict=True):
        logits, windows = plain_mean(task, text)
        counts.append(windows)
        assert list(answer.probabilities) == list(LABELS)
        np.testing.assert_allclose(list(answer.probabilities.values()), softmax(logits), atol=1e-5)
        assert answer.label == LABELS[logits.argmax()]
        assert answer.probability == max(answer.probabilities.values())
    assert counts[:4] == [1, 5, 1, 1]


@pytest.mark.backend
def test_pairs_of_any_length_are_answered(rng):
    task = small_task(TextClassifier, labels=LABELS, max_len=20)
    firsts, seconds = ([sentence(rng, words) for words in side] for side in ((3, 50, 4, 60), (3, 4, 50, 60)))
    answers = task(firsts, seconds)
    encoded = task.encode([ClassifiedText(firsts[0], seconds[0])]).windows
    logits = plain_logits(task.model, encoded.ids[0], encoded.segments[0], "Classification")
    np.testing.assert_allclose(list(answers[0].probabilities.values()), softmax(logits), atol=1e-5)
    assert len(answers) == 4


@pytest.mark.backend
@pytest.mark.slow
def test_several_labels_are_those_above_the_threshold_and_a_regression_gives_a_number():
    many = small_task(TextClassifier, labels=LABELS, problem="multi_label", threshold=0.4)
    logits, _ = plain_mean(many, "the cat")
    answer = many(["the cat"])[0]
    np.testing.assert_allclose(list(answer.probabilities.values()), 1 / (1 + np.exp(-logits)), atol=1e-5)
    assert answer.labels == tuple(label for label, p in answer.probabilities.items() if p >= 0.4)
    number = small_task(TextClassifier, problem="regression")
    assert number(["the cat"])[0].score == pytest.approx(float(plain_mean(number, "the cat")[0][0]), abs=1e-5)


@pytest.mark.backend
def test_a_new_head_is_drawn_from_its_seed_and_the_encoder_is_unchanged():
    encoder = small_encoder()
    one, same, other = (TextClassifier.from_encoder(encoder, TOKENIZER, labels=LABELS, seed=seed).model for seed in (1, 1, 2))
    values = [np.asarray(model.get_layer("Classification").kernel.numpy()) for model in (one, same, other)]
    np.testing.assert_array_equal(values[0], values[1])
    assert np.abs(values[0] - values[2]).max() > 0.01
    np.testing.assert_allclose(values[0][0], [0.31296417, -0.5525936, -0.42970553], atol=1e-7)
    assert [path for path, _ in one.load_report.missing] == ["Classification/kernel", "Classification/bias"]
    for path in ("Encoder-2-FeedForward/output/kernel", "NSP-Dense/kernel"):
        before, after = ({v.path: v.numpy() for v in model.weights}[path] for model in (encoder, one))
        np.testing.assert_array_equal(before, after)


@pytest.mark.backend
@pytest.mark.slow
def test_it_learns_and_is_loaded_from_its_folder(tmp_path):
    task = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=TextClassifier.labels_of(PETS), max_len=16)
    first, last = trained(task, PETS, epochs=20, rate=1e-2)
    assert last < first / 3
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.settings() == task.settings()
    assert again.predict_examples(PETS) == task.predict_examples(PETS)
    assert [answer.label for answer in again.predict_examples(PETS)] == [e.label for e in PETS]


@pytest.mark.backend
@pytest.mark.parametrize(
    ("problem", "problem_type", "given", "targets"),
    [
        ("multi_label", "multi_label_classification", [("so", "bad"), ()], [[1, 0, 1], [0, 0, 0]]),
        ("regression", "regression", [2, -0.5], [[2.0], [-0.5]]),
    ],
)
@pytest.mark.slow
def test_targets_of_other_problems_and_their_folders(tmp_path, problem, problem_type, given, targets):
    labels = () if problem == "regression" else LABELS
    task = small_task(TextClassifier, labels=labels, problem=problem)
    assert task.encode([ClassifiedText("a", label=label) for label in given]).targets.tolist() == targets
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert (again.problem, again.labels) == (problem, task.labels)
    assert (task.model.config.problem_type, again.model.config.problem_type) == (problem_type, problem_type)
    assert TokenClassifier.from_encoder(again.model, TOKENIZER, labels=("O", "B-a")).model.config.problem_type is None
    assert again(["the cat"]) == task(["the cat"])
    (tmp_path / "task" / "task.json").unlink()  # as in a folder from Hugging Face
    assert load_task(tmp_path / "task").problem == problem


@pytest.mark.backend
def test_a_window_of_a_long_text_is_trained_with_the_label_of_its_text(rng):
    task = small_task(TextClassifier, labels=("a", "b"), max_len=12)
    encoded = task.encode([ClassifiedText(sentence(rng, 30), label="b"), ClassifiedText("the cat", label="a")])
    assert encoded.targets.tolist() == [1] * (len(encoded) - 1) + [0]
    assert len(encoded) > 3


@pytest.mark.backend
@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "at least one"),
        ("text", "must be a list; got str 'text'"),
        ([ClassifiedText("a", label="c", where="f.tsv, line 3")], "must be one of bad, good, so; f.tsv, line 3 has 'c'"),
        ([ClassifiedText("a", label="bad"), ClassifiedText("a", label=1)], "example 1 has 1"),
        (
            [ClassifiedText("a", "b", label="bad"), ClassifiedText("a", label="bad")],
            "must all be pairs or all be single texts; example 1",
        ),
    ],
)
def test_examples_that_do_not_fit_are_one_sentence(examples, message):
    with pytest.raises(ValueError, match=message):
        small_task(TextClassifier, labels=LABELS).encode(examples)


@pytest.mark.backend
@pytest.mark.slow
def test_other_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="at least two different labels; 1 examples have \\['a'\\]"):
        TextClassifier.labels_of([ClassifiedText("x", label="a")])
    for settings, message in (
        ({"labels": ("a",)}, "at least 2 labels"),
        ({"labels": ("a", "a")}, "each once"),
        ({"labels": LABELS, "problem": "many"}, "problem must be one of"),
        ({"labels": LABELS, "max_len": 41}, "max_len must be from 8 to 40"),
        ({"labels": LABELS, "max_len": 20, "stride": 8}, "stride must be from 0 to 7"),
        ({"labels": LABELS, "tokenizer": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 99}}, "must be below 31"),
    ):
        with pytest.raises(ValueError, match=message):
            TextClassifier.from_encoder(small_encoder(), **{"tokenizer": TOKENIZER, **settings})
    with pytest.raises(ValueError, match="TextClassifier must have a BertModel with the head classification"):
        TextClassifier(small_encoder(), TOKENIZER)
    with pytest.raises(ValueError, match="must pad with 1, as the model does; it pads with 0"):
        TextClassifier.from_encoder(small_encoder(pad_token_id=1), TOKENIZER, labels=LABELS)
    with pytest.raises(ValueError, match="no tokenizer was loaded"):
        TextClassifier.from_encoder(small_encoder(), labels=LABELS)
    task = small_task(TextClassifier, labels=LABELS)
    with pytest.raises(ValueError, match="pairs must have a text for each of the 2 texts; got 1"):
        task(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="every example must have a label"):
        task.batches(task.encode([ClassifiedText("a")]))
    with pytest.raises(ValueError, match="class_weights must give labels weights of at least 0; got 'x'"):
        task.compile("sgd", class_weights={"x": 1.0})
    multi = small_task(TextClassifier, labels=LABELS, problem="multi_label")
    with pytest.raises(ValueError, match="must have a tuple of them; example 0 has 'bad'"):
        multi.encode([ClassifiedText("a", label="bad")])
    with pytest.raises(ValueError, match="must be a number; example 0 has 'bad'"):
        small_task(TextClassifier, problem="regression").encode([ClassifiedText("a", label="bad")])


QUESTIONS = [
    ChoiceQuestion("where sat the cat ?", ("on the mat", "red", "ben"), 0),
    ChoiceQuestion("who likes paris ?", ("on the mat", "ben"), 1),
    ChoiceQuestion("the dog sat in", ("likes", "red", "london"), 2),
]


def test_probabilities_are_those_of_plain_numpy_over_windows(rng):
    task = small_task(MultipleChoice, max_len=20, stride=4)
    prompts, choices = [sentence(rng, 4), sentence(rng, 40)], [("the cat", "a mat", "red"), ("paris", "london and paris")]
    for prompt, of_prompt, answer in zip(prompts, choices, task(prompts, choices), strict=True):
        logits = []
        for choice in of_prompt:
            windows = task.encode([ChoiceQuestion(prompt, (choice,))]).windows
            rows = [plain_logits(task.model, *row, "Multiple-Choice")[0] for row in zip(windows.ids, windows.segments, strict=True)]
            logits.append(np.average(rows, weights=[len(ids) for ids in windows.ids]))
        np.testing.assert_allclose(answer.probabilities, softmax(np.array(logits)), atol=1e-5)
        assert answer.text == of_prompt[answer.index] == of_prompt[int(np.argmax(logits))]


@pytest.mark.slow
def test_it_learns_questions_of_two_and_three_choices_and_is_loaded_from_its_folder(tmp_path):
    task = MultipleChoice.from_encoder(small_encoder(), TOKENIZER, max_len=24)
    first, last = trained(task, QUESTIONS, epochs=25, rate=1e-2)
    assert last < first / 3
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    answers = again.predict_examples(QUESTIONS)
    assert answers == task.predict_examples(QUESTIONS)
    assert [answer.index for answer in answers] == [0, 1, 2]
    (tmp_path / "task" / "task.json").unlink()  # then the class in config.json identifies the head
    assert load_task(tmp_path / "task", max_len=24).predict_examples(QUESTIONS) == answers


def test_a_batch_has_rows_for_every_choice_of_every_window(rng):
    task = small_task(MultipleChoice, max_len=16, stride=2)
    long = ChoiceQuestion(sentence(rng, 25), ("the cat", "a"), 1)
    encoded = task.encode([long, QUESTIONS[0]])
    (ids, _), labels = task.batches(encoded, batch_size=10)[0]
    windows = np.bincount(encoded.examples)
    assert len(ids) == 3 * (max(windows[:2]) + 1)
    assert labels[0].tolist() == [0, 1, -1]
    assert labels[-1].tolist() == [1, 0, 0]


def test_bad_input_is_one_sentence():
    task = small_task(MultipleChoice)
    for example, message in (
        (ChoiceQuestion("a", ("b", "c"), 2), "from 0 to 1; example 0 has 2"),
        (ChoiceQuestion("a", "bc", 0), "choices must be a list of texts; example 0 has 'bc'"),
        (ChoiceQuestion("a", (), 0, where="x, line 1"), "x, line 1 has ()"),
    ):
        with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
            task.encode([example])
    with pytest.raises(ValueError, match="a list for each of the 1 prompts; got 2"):
        task(["a"], [["a"], ["b"]])
    with pytest.raises(ValueError, match="every question must have a label"):
        task.batches(task.encode([ChoiceQuestion("a", ("b",))]))
