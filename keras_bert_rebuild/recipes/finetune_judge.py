"""How good the answers of a task are, and what a report shows of them."""

import math
from dataclasses import dataclass

from keras_bert_rebuild.recipes.finetune_tasks import LESS_IS_BETTER
from keras_bert_rebuild.tasks.metrics import (
    best_threshold,
    class_scores,
    confusion_matrix,
    entity_type_scores,
    squad_scores,
)
from keras_bert_rebuild.tasks.metrics.tag_parts import type_of


@dataclass
class Judgement:
    """Answers to examples and what they are worth."""

    scores: dict
    """Numbers by the name of the score."""

    answers: list
    """The answers, in the order of the examples."""


def judge(task, examples, batch_size, progress=None, choose_threshold=False):
    """Answer examples and compare with what is right.

    Args:
        task: one of the classes of tasks.
        examples: with what is right.
        batch_size: rows of a batch.
        progress: called with the rows done and all rows.
        choose_threshold: where questions may have no answer, set the task's threshold to the best for these examples.
    """
    if choose_threshold and task.kind == "question_answering":
        return _judge_questions(task, examples, batch_size, progress)
    answers = task.predict_examples(examples, batch_size=batch_size, progress=progress)
    return Judgement(task.scores(examples, answers), answers)


def chosen_metric(spec, scores, wanted=None):
    """The score that checkpoints are compared by.

    Raises:
        ValueError: there is none of the wanted name.
    """
    if wanted is None:
        return next(name for name in spec.metrics if name in scores)
    if wanted not in scores:
        raise ValueError(f"metric must be one of {', '.join(scores)}; got {wanted!r}.")
    return wanted


def is_better(metric, score, than):
    """Whether a score is better than another one, or than None; what is not a number never is."""
    if math.isnan(score):
        return False
    return than is None or math.isnan(than) or (score < than if metric in LESS_IS_BETTER else score > than)


def details(task, examples, answers):
    """What a report shows besides the scores.

    Returns:
        A dictionary with `classes`, scores by label, and `labels` and `confusion`, rows of the matrix, where the task has them.
    """
    if task.kind == "token_classification":
        right, said = task.right_tags(examples), [list(answer.tags) for answer in answers]
        if task.scheme is not None:
            # I-x and B-x are one row of the picture: whether a word was found, and as what.
            flat = [[type_of(tag) for tags in side for tag in tags] for side in (right, said)]
            return {"classes": entity_type_scores(right, said), **_confusion(*flat)}
        flat = [[tag for tags in side for tag in tags] for side in (right, said)]
        return {"classes": class_scores(*flat), **_confusion(*flat)}
    if task.kind == "classification" and task.problem == "single_label":
        right, said = [example.label for example in examples], [answer.label for answer in answers]
        return {"classes": class_scores(right, said), **_confusion(right, said)}
    return {}


def _confusion(right, said):
    labels = sorted({*right, *said}, key=lambda label: (label == "O", label))
    return {"labels": labels, "confusion": confusion_matrix(right, said, labels).tolist()}


def _judge_questions(task, examples, batch_size, progress):
    """Where some questions have no answer, choose when to give none so that F1 is best."""
    given = [[text for _, text in example.answers] for example in examples]
    if all(given):
        task.no_answer_threshold = None
        answers = task.predict_examples(examples, batch_size=batch_size, progress=progress)
        return Judgement(task.scores(examples, answers), answers)
    task.no_answer_threshold = math.inf  # the answers know of the one that there may be none, and none gives it
    answers = task.predict_examples(examples, batch_size=batch_size, progress=progress)
    margins = [answer.no_answer_margin for answer in answers]
    task.no_answer_threshold, _ = best_threshold(given, [answer.text for answer in answers], margins)
    silent = {"text": "", "start": None, "end": None}
    answers = [answer._replace(**silent) if answer.no_answer_margin > task.no_answer_threshold else answer for answer in answers]
    return Judgement(squad_scores(given, [answer.text for answer in answers]), answers)
