"""`keras-bert predict`: answer a file of examples with a fine-tuned model."""

from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.finetune import TASKS, Columns
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive, yes_or_no
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.kinds import ANSWERS
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("task", nargs="?", help=f"one of {TASKS}; by default that of the folder")
    parser.add_argument("--model", type=Path, required=True, help="a folder that `keras-bert finetune` wrote, RUN/model")
    parser.add_argument("--input", type=Path, required=True, help="examples: tsv, csv, jsonl, conll, conllu, SQuAD json, or txt")
    parser.add_argument("--output", type=Path, required=True, help="answers: a file in .jsonl, .tsv, .csv or, for questions, .json")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of a batch (32)")
    parser.add_argument("--columns", nargs="+", action=Columns, metavar="PART=NAME", help="names of the parts in the input")
    parser.add_argument("--header", type=yes_or_no, metavar="yes|no", help="whether the first row of a table names its columns")
    parser.add_argument("--format", choices=FORMATS, help="the format of the input, if its name does not show it")
    add_overwrite(parser, "the answers")
    add_device_options(parser)


def run(args):
    """Answer, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar
    from keras_bert_rebuild.recipes.finetuning.predict import predict

    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    # Claimed before a bar is shown; `predict` takes the same lock.
    with claimed_file(args.output, ANSWERS, [args.input, folder], args.overwrite), progress_bar(Console(stderr=True)) as bar:
        shown = bar.add_task("answering", total=None, unit="rows", note="")
        scores = predict(
            folder,
            args.input,
            args.output,
            args.task,
            batch_size=args.batch_size,
            columns=args.columns,
            header=args.header,
            format=args.format,
            overwrite=args.overwrite,
            progress=lambda done, rows: bar.update(shown, completed=done, total=rows),
        )
    if scores is not None:
        print(f"scores   {'  '.join(f'{name} {value:.4f}' for name, value in scores.items())}")
    print(f"wrote    {args.output}")
    return 0
