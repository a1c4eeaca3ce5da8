"""`keras-bert finetune`: from an encoder and files of examples to a model that answers."""

import argparse
import dataclasses
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import docs, option_kind, parts, refuse_together
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.recipes.finetuning.finetune_settings import BALANCED, DTYPES, FinetuneSettings, all_objectives
from keras_bert_rebuild.tasks.registry import finetune_task, task_names

TASKS = ", ".join(task_names()).replace("_", "-")
CHOICES = {"dtype": DTYPES, "objective": all_objectives(), "format": FORMATS}
METAVARS = {"metric": "NAME", "guide": "FOLDER"}
# Options of several values, and what each is.
LISTS = {"matryoshka_dims": int, "matryoshka_weights": float}


def add_arguments(parser):
    """Declare the options: one for every field of `FinetuneSettings`."""
    parser.add_argument("task", help=f"one of {TASKS}")
    parser.add_argument("--model", type=str, required=True, help="a checkpoint: a folder of Hugging Face, Google or Keras")
    parser.add_argument(
        "--train", type=Path, required=True, help="examples to learn: tsv, csv, jsonl, conll, conllu or SQuAD json, also .gz or .xz"
    )
    parser.add_argument("--dev", type=Path, required=True, help="examples to choose the best weights by")
    parser.add_argument("--test", type=Path, help="examples to evaluate the best weights on, once, in the end")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the run; called again, it resumes a stopped run")
    parser.add_argument("--config", type=Path, metavar="YAML", help="a file of settings, the names below with _ for -; options win")
    helps = docs(FinetuneSettings)
    for field in dataclasses.fields(FinetuneSettings):
        parser.add_argument(f"--{field.name.replace('_', '-')}", help=helps[field.name].replace("%", "%%"), **_kind(field))
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import FinetuneBar
    from keras_bert_rebuild.recipes.finetuning.finetune import finetune
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
    from keras_bert_rebuild.recipes.run_folder import read_yaml

    refuse_together(args, ("epochs", "steps"))
    _check_options_of_task(args)
    given = read_yaml(args.config) if args.config else {}
    names = (field.name for field in dataclasses.fields(FinetuneSettings))
    given.update({name: value for name in names if (value := getattr(args, name)) is not None})
    settings = FinetuneSettings.from_dict(given)
    args.used = settings.batch_size, settings.max_len or "as many as the model takes, at most 512,"
    inputs = [args.model, args.train, args.dev, args.test, args.config]
    try:
        with claimed_run(args.output, RUN, inputs), FinetuneBar(Console(stderr=True)) as bar:
            done = finetune(args.task, args.model, args.train, args.dev, args.output, settings, test=args.test, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + stopped.signal
    for name in ("dev", "test"):
        if name in done.report:
            print(f"{name:<8} {'  '.join(f'{score} {value:.4f}' for score, value in done.report[name].items())}")
    print(f"wrote    {args.output / 'model'}")
    print(f"report   {args.output / 'report.md'}")
    return 0


def _check_options_of_task(args):
    """Refuse options that do not apply to the task."""
    spec = finetune_task(args.task)
    if args.objective is not None and "objective" not in spec.options:
        tasks = ", ".join(word for word in task_names() if "objective" in finetune_task(word).options).replace("_", "-")
        raise ValueError(f"--objective is for {tasks}; the task is {spec.name}.")
    if args.class_weights is not None and "class_weights" not in spec.options:
        raise ValueError(f"--class-weights is for classification and token-classification; the task is {spec.name}.")


def _kind(field):
    if field.name == "class_weights":
        return {"nargs": "+", "action": _Weights, "metavar": f"{BALANCED}|LABEL=X"}
    if field.name == "columns":
        return {"nargs": "+", "action": Columns, "metavar": "PART=NAME"}
    if field.name == "freeze":
        return {"nargs": "+", "metavar": "PATTERN"}
    if field.name == "flops":
        return {"nargs": 2, "type": float, "metavar": "X"}
    if field.name in LISTS:
        return {"nargs": "+", "type": LISTS[field.name], "metavar": "N" if LISTS[field.name] is int else "X"}
    if field.name in ("crf", "learned_temperature", "symmetric"):
        return {**option_kind(field), "nargs": "?", "const": True}
    return option_kind(field, CHOICES, METAVARS)


class Columns(argparse.Action):
    """PART=NAME, or PART=NAME,NAME for parts of several columns, as a dictionary."""

    def __call__(self, parser, namespace, values, option=None):
        found = parts(parser, option, values)
        setattr(namespace, self.dest, {part: name.split(",") if "," in name else name for part, name in found.items()})


class _Weights(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        if values == [BALANCED]:
            setattr(namespace, self.dest, BALANCED)
            return
        found = parts(parser, option, values)
        try:
            setattr(namespace, self.dest, {label: float(weight) for label, weight in found.items()})
        except ValueError:
            parser.error(f"argument {option}: expected {BALANCED}, or numbers by label; got {' '.join(values)!r}")
