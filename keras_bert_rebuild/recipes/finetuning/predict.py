"""Predict a file of examples and write the predictions to a file."""

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_bert_rebuild.data.labelled.read_labelled import read_examples_and_others
from keras_bert_rebuild.data.labelled.read_squad_and_conll import check_unique_ids
from keras_bert_rebuild.data.labelled.tables import write_table
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import ANSWERS
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.tasks.registry import finetune_task
from keras_bert_rebuild.tasks.saved_task import load_task

FORMATS = (".jsonl", ".tsv", ".csv", ".json")


def predict(
    model: Any,
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    task: str | None = None,
    *,
    batch_size: int = 32,
    columns: Mapping[str, Any] | None = None,
    header: bool | None = None,
    format: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    overwrite: bool = False,
) -> dict[str, float] | None:
    """Predict the examples of a file and write the predictions.

    Args:
        model: the folder `model/` that `finetune` wrote, or a task.
        input: a file, as for `read_examples`; labels may be missing. Every line of a .txt file is a text, also a blank one.
        output: a file whose name ends in .jsonl, one object per line; or in .tsv or .csv, a table without the probabilities of all
            labels, which reads back as it was written, see `data.labelled.tables`; or, for questions, in .json, answers by id as
            SQuAD's scripts read them. Columns of the input that are not parts of an example, such as an id, come before the
            answer, unless it has a value of that name. It is checked before predicting, and written atomically.
        task: the name of the task, as for `finetune`; None for the task of the folder.
        batch_size: rows per batch.
        columns, header, format: as for `read_examples`.
        progress: called with the number of rows done and the total.
        overwrite: replace predictions of an earlier call; other files are never replaced.

    Returns:
        The scores of the predictions if all examples are labelled, else None.

    Raises:
        ValueError: the input cannot be read or belongs to another task, or two questions have the id by which a .json file would
            have their answers; or the output has an unknown format, is the input, is in the folder of the model, or exists and
            must not be replaced.
        OSError: the output cannot be written, or another process is writing it.
    """
    with claimed_file(output, ANSWERS, [input, model if isinstance(model, (str, Path)) else None], overwrite):
        return _predict(model, input, output, task, batch_size, {"columns": columns, "header": header, "format": format}, progress)


def _predict(model, input, output, task, batch_size, reading, progress):
    if isinstance(model, (str, Path)):
        model = load_task(model, None if task is None else finetune_task(task).kind)
    spec = model.word if task is None else finetune_task(task)
    if spec.name != model.word.name:
        raise ValueError(f"expected a model for {spec.name}; got one for {model.word.name}.")
    if Path(output).suffix.lower() == ".json" and not model.answers_by_id:
        raise ValueError(f"expected an output whose name ends in {', '.join(FORMATS[:3])} for {spec.name}; got {output}.")
    examples, others = read_examples_and_others(input, spec.examples, labelled=False, **reading)
    if Path(output).suffix.lower() == ".json":
        check_unique_ids(examples)
    answers = model.predict_examples(examples, batch_size=batch_size, progress=progress)
    rows = [_row(model.row(*both), other) for *both, other in zip(examples, answers, others, strict=True)]
    write_rows(output, rows)
    if all(example.right() is not None for example in examples):
        return model.scores(examples, answers)
    return None


def _row(answer, others):
    """An answer, after what else the input has about its example; an id is not changed."""
    others = {name: value for name, value in others.items() if name == "id" or name not in answer}
    return {**others, **answer, **others}


def write_rows(path, rows):
    """Write dictionaries to a file, atomically."""
    path = Path(path)
    with written_file(path) as raw:
        # A lone surrogate in a text becomes an escape such as \ud800, as JSON writes it.
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="")
        if path.suffix.lower() == ".json":
            json.dump({str(row["id"]): row["answer"] for row in rows}, file, ensure_ascii=False)
        elif path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        else:
            wide = lambda name, value: name == "probabilities" and isinstance(value, dict)  # noqa: E731
            rows = [{name: value for name, value in row.items() if not wide(name, value)} for row in rows]
            write_table(file, rows, "\t" if path.suffix.lower() == ".tsv" else ",")
        file.flush()
        file.detach()
