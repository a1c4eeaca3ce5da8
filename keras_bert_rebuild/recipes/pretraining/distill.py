"""Distillation as one call that can be interrupted and resumed: from a teacher and a token store to a smaller model."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.recipes.pretraining.distill_settings import DistillSettings
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.training.distributed.distribution import whole_model


def distill(
    teacher: str | os.PathLike[str],
    store: Any,
    output: str | os.PathLike[str],
    settings: DistillSettings | Mapping[str, Any] | None = None,
    *,
    report: Callable[[dict[str, Any]], object] | None = None,
    **changes: Any,
) -> BertModel:
    """Train a smaller model on a token store and on the outputs of a teacher, or resume an interrupted run.

    The run works as one of `pretrain` and writes the same files; its model is a `DistillationModel`. `model/` holds the student
    alone, with the tokenizer of the teacher, and loads as any pretrained model.

    Args:
        teacher: the path of an encoder, anything that `from_pretrained` reads. It is only read, and must not be moved before the
            run has finished.
        store: as for `pretrain`, with the vocabulary of the teacher.
        output: the folder of the run.
        settings: `DistillSettings`, or a dictionary of them without the teacher; None for the defaults.
        report: as for `pretrain`.
        **changes: single fields of `DistillSettings`, such as layers=6, which override those of `settings`.

    Returns:
        The student, a `PretrainingModel`; it takes one sequence per row even if it was trained with packing.

    Raises:
        ValueError: settings are invalid, or teacher, student and store do not match.
        BusyError, StoppedError, NonFiniteLossError: as for `pretrain`.
    """
    changes["teacher"] = os.fspath(teacher)
    if isinstance(settings, DistillSettings):
        settings = replace(settings, **changes)
    else:
        settings = DistillSettings.from_dict({**(settings or {}), **changes})
    model: Any = pretrain(store, output, settings, report=report)
    return whole_model(model.student, copied=True) if settings.packing else model.student
