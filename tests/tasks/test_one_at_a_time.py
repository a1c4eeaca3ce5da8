"""Several threads may ask one task."""

from concurrent.futures import ThreadPoolExecutor

from small_tasks import small_task

from keras_bert_rebuild.tasks.text_classifier import TextClassifier


def test_answers_to_four_threads_are_those_to_one():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    questions = [["the cat sat " * (1 + i % 4)] * (1 + i % 3) for i in range(48)]
    expected = [[round(one.probability, 4) for one in task(texts)] for texts in questions]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(task, questions))
    assert [[round(one.probability, 4) for one in answers] for answers in found] == expected
