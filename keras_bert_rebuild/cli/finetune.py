"""`keras-bert finetune`: from an encoder and files of examples to a model that answers."""

import argparse
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import checkpoint, existing, number, whole
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.settings_options import add_settings, given_settings
from keras_bert_rebuild.cli.shared_options import Columns, add_model, parts, refuse_together
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.recipes.finetuning.finetune_settings import BALANCED, DTYPES, FinetuneSettings, all_objectives
from keras_bert_rebuild.tasks.registry import finetune_task, task_names

TASKS = tuple(name.replace("_", "-") for name in task_names())


class Weights(argparse.Action):
    """LABEL=X as a dictionary, or the word for weights from the frequencies of labels."""

    def __call__(self, parser, namespace, values, option=None):
        if values == [BALANCED]:
            setattr(namespace, self.dest, BALANCED)
            return
        found = parts(parser, option, values)
        try:
            setattr(namespace, self.dest, {label: float(weight) for label, weight in found.items()})
        except ValueError:
            parser.error(f"argument {option}: expected {BALANCED}, or numbers by label; got {' '.join(values)!r}")


# How options are parsed that are neither a number nor any text.
KINDS = {
    "metric": {"metavar": "NAME"},
    "guide": {"type": checkpoint, "metavar": "PATH"},
    "dtype": {"choices": DTYPES},
    "objective": {"choices": all_objectives(), "metavar": "OBJECTIVE"},
    "format": {"choices": FORMATS},
    "class_weights": {"nargs": "+", "action": Weights, "metavar": f"{BALANCED}|LABEL=X"},
    "columns": {"nargs": "+", "action": Columns, "metavar": "PART=NAME"},
    "freeze": {"nargs": "+", "metavar": "PATTERN"},
    "flops": {"nargs": 2, "type": number, "metavar": "X"},
    "matryoshka_dims": {"nargs": "+", "type": whole, "metavar": "N"},
    "matryoshka_weights": {"nargs": "+", "type": number, "metavar": "X"},
}


def add_arguments(parser):
    """Declare the options: one for every field of `FinetuneSettings`."""
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=", ".join(TASKS))
    add_model(parser)
    parser.add_argument(
        "--train",
        type=existing,
        required=True,
        metavar="FILE",
        help="training examples: .tsv, .csv, .jsonl, .conll, .conllu or SQuAD .json, also .gz or .xz",
    )
    parser.add_argument(
        "--dev", type=existing, required=True, metavar="FILE", help="validation examples, which select the best checkpoint"
    )
    parser.add_argument(
        "--test",
        type=existing,
        metavar="FILE",
        help="test examples, on which the best checkpoint is evaluated once (default: none)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of the run; the same command resumes an interrupted run",
    )
    add_settings(parser, FinetuneSettings, KINDS)
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import FinetuneBar
    from keras_bert_rebuild.recipes.finetuning.finetune import finetune
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

    refuse_together(args, ("epochs", "steps"))
    _check_options_of_task(args)
    settings = FinetuneSettings.from_dict(given_settings(args, FinetuneSettings))
    args.used = settings.batch_size, settings.max_len or "as many as the model takes, at most 512,"
    inputs = [args.model, args.train, args.dev, args.test, args.settings]
    try:
        with claimed_run(args.output, RUN, inputs), FinetuneBar(Console(stderr=True)) as bar:
            begin("starting", args.output)
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
