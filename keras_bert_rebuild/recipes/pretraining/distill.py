"""Distillation as one call: from a teacher and a token store to a smaller model, stopped and resumed at will."""

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
    """Train a smaller model on a token store and on what its teacher says of it, or resume a run that was stopped.

    It is a run like one of `pretrain`, with the same folder, in which the model is a `DistillationModel`. `model/` is the student
    alone, with the tokenizer of the teacher: a folder like that of any pretrained model.

    Args:
        teacher: the path of an encoder, anything that `from_pretrained` reads. It is only read, and must stay where it is until the
            run is over.
        store: as for `pretrain`, with the vocabulary of the teacher.
        output: the folder of the run.
        settings: `DistillSettings`, or a dictionary of them without the teacher; None for the defaults.
        report: as for `pretrain`.
        **changes: single fields of `DistillSettings`, such as layers=6, which override those of `settings`.

    Returns:
        The student, a `PretrainingModel`, for rows of one sequence also after packing.

    Raises:
        ValueError: settings are not usable, or teacher, student and store do not fit each other.
        BusyError, StoppedError, NonFiniteLossError: as for `pretrain`.
    """
    changes["teacher"] = os.fspath(teacher)
    if isinstance(settings, DistillSettings):
        settings = replace(settings, **changes)
    else:
        settings = DistillSettings.from_dict({**(settings or {}), **changes})
    model: Any = pretrain(store, output, settings, report=report)
    return whole_model(model.student, copied=True) if settings.packing else model.student
