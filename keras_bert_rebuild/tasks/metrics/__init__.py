"""Standard metrics in NumPy."""

from keras_bert_rebuild.tasks.metrics.answers import best_threshold, squad_scores
from keras_bert_rebuild.tasks.metrics.classes import (
    accuracy,
    class_scores,
    classification_scores,
    confusion_matrix,
    macro_f1,
    matthews,
    micro_f1,
    multi_label_scores,
    pearson,
    regression_scores,
    spearman,
    tag_scores,
)
from keras_bert_rebuild.tasks.metrics.entities import entities_of, entity_scores, entity_type_scores
from keras_bert_rebuild.tasks.metrics.ranking import average_precision, ranking_scores, ranking_scores_by_query

__all__ = [
    "accuracy",
    "average_precision",
    "best_threshold",
    "class_scores",
    "classification_scores",
    "confusion_matrix",
    "entities_of",
    "entity_scores",
    "entity_type_scores",
    "macro_f1",
    "matthews",
    "micro_f1",
    "multi_label_scores",
    "pearson",
    "ranking_scores",
    "ranking_scores_by_query",
    "regression_scores",
    "spearman",
    "squad_scores",
    "tag_scores",
]
