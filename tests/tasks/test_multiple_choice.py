"""Choices: comparison, windows, training."""

import numpy as np
import pytest
from helpers.reference import softmax
from helpers.small_tasks import TOKENIZER, plain_logits, sentence, small_encoder, small_task, trained

from keras_bert_rebuild import MultipleChoice, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion

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
