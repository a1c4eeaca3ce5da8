"""The scores that a task is judged by, as the field does."""

from keras_bert_rebuild.tasks.metrics.classes import accuracy, check_lengths, macro_f1, macro_f1_of_sets, matthews, micro_f1
from keras_bert_rebuild.tasks.metrics.correlation import mean_squared_error, pearson, spearman


def classification_scores(true, predicted):
    """Accuracy, macro F1 and Matthews's correlation of texts with one label each.

    Args:
        true, predicted: a label for every text; F1 is the mean of those that occur.
    """
    return {"accuracy": accuracy(true, predicted), "macro_f1": macro_f1(true, predicted), "matthews": matthews(true, predicted)}


def multi_label_scores(true, predicted, labels=None):
    """Micro F1, macro F1, and the part of the texts with all labels right, of texts with any number of labels.

    Args:
        true, predicted: the labels of every text.
        labels: those that macro F1 is the mean of; None for those that occur.
    """
    exact = accuracy([frozenset(row) for row in true], [frozenset(row) for row in predicted])
    return {"micro_f1": micro_f1(true, predicted), "macro_f1": macro_f1_of_sets(true, predicted, labels), "accuracy": exact}


def regression_scores(true, predicted):
    """Pearson's and Spearman's correlation and the mean squared error of numbers."""
    scores = (("spearman", spearman), ("pearson", pearson), ("mean_squared_error", mean_squared_error))
    return {name: score(true, predicted) for name, score in scores}


def tag_scores(true, predicted):
    """Accuracy and macro F1 of the tags of words that are not of entities.

    Args:
        true, predicted: the tags of every sentence.
    """
    true, predicted = check_lengths(true, predicted)
    flat = [[tag for tags in side for tag in tags] for side in (true, predicted)]
    return {"accuracy": accuracy(*flat), "macro_f1": macro_f1(*flat)}
