"""Predict examples, and return the predictions in the form of the examples or write them to a file."""

import functools
import io
import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert_rebuild.data.corpora.worker_pool import mapped
from keras_bert_rebuild.data.labelled.read_labelled import read_labelled
from keras_bert_rebuild.data.labelled.read_squad_and_conll import check_unique_ids
from keras_bert_rebuild.data.tables import write_table
from keras_bert_rebuild.data.tables_of_objects import import_pyarrow, in_form_of
from keras_bert_rebuild.files.durable import written_file
from keras_bert_rebuild.files.kinds import ANSWERS, ANSWERS_MARK
from keras_bert_rebuild.files.output import claimed_file
from keras_bert_rebuild.tasks.embedder import GroupTask
from keras_bert_rebuild.tasks.registry import finetune_task
from keras_bert_rebuild.tasks.row_predictions import outputs_of_batches
from keras_bert_rebuild.tasks.saved_task import load_task

if TYPE_CHECKING:
    from keras_bert_rebuild.data.corpora.ray_cluster import RayCluster

FORMATS = (".jsonl", ".tsv", ".csv", ".parquet", ".json")


def predict(
    model: Any,
    input: Any,
    output: str | os.PathLike[str] | None = None,
    task: str | None = None,
    *,
    batch_size: int = 32,
    columns: Mapping[str, Any] | None = None,
    header: bool | None = None,
    format: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    overwrite: bool = False,
    workers: "int | RayCluster" = 1,
) -> Any:
    """Predict examples.

    Args:
        model: the folder `model/` that `finetune` wrote, or a task.
        input: examples, as for `read_examples`: a file, a list of dictionaries, a DataFrame, a `datasets.Dataset` and others; or
            a list of texts. Labels may be missing. Every line of a .txt file is a text, also a blank one.
        output: None to return the predictions; or a file whose name ends in .jsonl, one object per line; in .parquet; in .tsv or
            .csv, a table without the probabilities of all labels, which reads back as it was written, see `data.tables`;
            or, for questions, in .json, answers by id as SQuAD's scripts read them. It is checked before predicting, and written
            atomically.
        task: the name of the task, as for `finetune`; None for the task of the folder.
        batch_size: rows per batch.
        columns, header, format: as for `read_examples`.
        progress: called with the number of rows done and the total.
        overwrite: replace predictions of an earlier call; other files are never replaced.
        workers: a `RayCluster` with a model, whose workers load the folder `model` each; 1 to compute here.

    Returns:
        Without an output the predictions: a DataFrame for a DataFrame, a dataset for a dataset, an Arrow table or a dictionary of
        lists for such, else a list of dictionaries. With an output the scores of the predictions if all examples are labelled, else
        None. Columns of the input that are not parts of an example, such as an id, come before the answer, unless it has a value of
        that name.

    Raises:
        ValueError: the input cannot be read or belongs to another task, a label is unknown to the model, or two questions have the
            id by which a .json file would have their answers; or the output has an unknown format, is the input, is in the
            folder of the model, or exists and must not be replaced.
        OSError: the output cannot be written, or another process is writing it.
    """
    reading = {"columns": columns, "header": header, "format": format}
    if output is None:
        rows, unchanged, _ = _predicted(model, input, None, task, batch_size, reading, progress, workers)
        return in_form_of(input, rows, unchanged)
    inputs = [path for path in (input, model) if isinstance(path, (str, os.PathLike))]
    with claimed_file(output, ANSWERS, inputs, overwrite):
        suffix = Path(output).suffix.lower()
        if suffix == ".parquet":
            import_pyarrow(output)
        rows, _, scores = _predicted(model, input, output, task, batch_size, reading, progress, workers)
        write_rows(output, rows)
        return scores()


def _predicted(model, input, output, task, batch_size, reading, progress, workers):
    """The rows of predictions, the names of unchanged columns, and a function that returns the scores, or None without labels."""
    if isinstance(model, (str, Path)):
        folder, kind = Path(model), None if task is None else finetune_task(task).kind
        model = load_task(model, kind)
        if not isinstance(workers, int):
            if isinstance(model, GroupTask):
                raise ValueError(f"a cluster answers row by row, but {model.word.name} ranks all texts: index and search them.")
            model.outputs_of = functools.partial(_outputs_of_workers, workers, folder, kind)
    spec = model.word if task is None else finetune_task(task)
    if spec.name != model.word.name:
        raise ValueError(f"expected a model for {spec.name}; got one for {model.word.name}.")
    by_id = output is not None and Path(output).suffix.lower() == ".json"
    if by_id and not model.answers_by_id:
        raise ValueError(f"expected an output whose name ends in {', '.join(FORMATS[:-1])} for {spec.name}; got {output}.")
    examples, passed, _ = read_labelled(input, spec.examples, labelled=False, name="input", **reading)
    if by_id:
        check_unique_ids(examples)
    labelled = output is not None and all(example.right() is not None for example in examples)
    if labelled:
        _check_labels(model, examples)
    answers = model.predict_examples(examples, batch_size=batch_size, progress=progress)
    of_answers = [model.row(*both) for both in zip(examples, answers, strict=True)]
    rows = [_row(*both) for both in zip(of_answers, passed, strict=True)]
    unchanged = {name for name in passed[0] if name == "id" or name not in of_answers[0]}
    return rows, unchanged, lambda: model.scores(examples, answers) if labelled else None


# Batches that a worker of a cluster gets at once.
_BATCHES = 8


def _outputs_of_workers(workers, folder, kind, batches):
    parts = iter(lambda: list(itertools.islice(batches, _BATCHES)), [])
    return itertools.chain.from_iterable(mapped(make_predictor, (folder, kind), parts, workers))


def make_predictor(folder, kind):
    """Make a function from batches to the outputs of a model.

    Args:
        folder, kind: as for `load_task`.
    """
    return functools.partial(outputs_of_batches, load_task(folder, kind).model)


def _check_labels(model, examples):
    """Refuse labels that the model does not have: encode an example of each."""
    by_labels = {frozenset(label for label in example.labels() if isinstance(label, str)): example for example in examples}
    by_labels.pop(frozenset(), None)
    if by_labels:
        model.encode(list(by_labels.values()))


def _row(answer, passed):
    """An answer, after what else the input has about its example; an id is not changed."""
    passed = {name: value for name, value in passed.items() if name == "id" or name not in answer}
    return {**passed, **answer, **passed}


def write_rows(path, rows):
    """Write dictionaries to a file, atomically."""
    path = Path(path)
    with written_file(path) as raw:
        # A lone surrogate in a text becomes an escape such as \ud800, as JSON writes it.
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="")
        if path.suffix.lower() == ".json":
            json.dump({str(row["id"]): row["answer"] for row in rows}, file, ensure_ascii=False)
        elif path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        elif path.suffix.lower() == ".parquet":
            _write_parquet(rows, raw, path)
        else:
            wide = lambda name, value: name == "probabilities" and isinstance(value, dict)  # noqa: E731
            rows = [{name: value for name, value in row.items() if not wide(name, value)} for row in rows]
            write_table(file, rows, "\t" if path.suffix.lower() == ".tsv" else ",")
        file.flush()
        file.detach()


def _write_parquet(rows, file, path):
    pyarrow = import_pyarrow(path)
    try:
        table = pyarrow.Table.from_pylist(rows)
        metadata = {**(table.schema.metadata or {}), ANSWERS_MARK: ""}
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), file)
    except (pyarrow.ArrowException, TypeError) as error:
        raise ValueError(f"expected columns with values of one type for {path}: {str(error).splitlines()[0]}") from None
