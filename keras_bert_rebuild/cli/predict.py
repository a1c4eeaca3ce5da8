"""`keras-bert predict`: answer a file of examples with a fine-tuned model."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.finetune import TASKS
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import add_batch_size, add_reading_options
from keras_bert_rebuild.files.kinds import ANSWERS
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "task",
        nargs="?",
        choices=TASKS,
        metavar="TASK",
        help=f"{', '.join(TASKS)} (default: the task that the model was fine-tuned for)",
    )
    parser.add_argument("--model", type=existing, required=True, metavar="PATH", help="fine-tuned model or its run")
    parser.add_argument(
        "--input",
        type=existing,
        required=True,
        metavar="FILE",
        help="examples: .tsv, .csv, .jsonl, .conll, .conllu, SQuAD .json or .txt",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="predictions to write: .jsonl, .tsv, .csv or, for questions, .json",
    )
    add_batch_size(parser)
    add_reading_options(parser)
    add_overwrite(parser, "the predictions")
    add_device_options(parser)


def run(args):
    """Answer, show the progress, and return the exit code."""
    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    # Claimed before a bar is shown; `predict` takes the same lock.
    with claimed_file(args.output, ANSWERS, [args.input, folder], args.overwrite):
        scores = _predict(args, folder)
    if scores is not None:
        print(f"scores   {'  '.join(f'{name} {value:.4f}' for name, value in scores.items())}")
    print(f"wrote    {args.output}")
    return 0


def _predict(args, folder):
    """Write the file; return the scores, or None if the examples have no labels."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar
    from keras_bert_rebuild.recipes.finetuning.predict import predict

    begin("loading", args.model)
    with progress_bar(Console(stderr=True)) as bar:
        shown = bar.add_task("predicting", total=None, unit="rows", note="")
        return predict(
            folder,
            args.input,
            args.output,
            args.task,
            batch_size=args.batch_size,
            columns=args.columns,
            header=args.header,
            format=args.input_format,
            overwrite=args.overwrite,
            progress=lambda done, rows: bar.update(shown, completed=done, total=rows),
        )
