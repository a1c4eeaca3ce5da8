"""`keras-bert prune`: take the least important attention heads of a fine-tuned model away, and say what that costs."""

import time
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.finetune import Columns
from keras_bert_rebuild.cli.option_kinds import add_overwrite, positive, yes_or_no
from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.kinds import MODEL
from keras_bert_rebuild.files.output import claimed_folder


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("model", type=Path, help="a folder that `keras-bert finetune` wrote, RUN/model")
    parser.add_argument(
        "--heads",
        type=float,
        required=True,
        metavar="SHARE",
        help="share of the heads to take away, such as 0.3; every block keeps one",
    )
    parser.add_argument("--data", type=Path, required=True, help="labelled examples that decide which heads matter least")
    parser.add_argument(
        "--measure-on", type=Path, metavar="FILE", help="labelled examples to score before and after (those of --data)"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder of the smaller model to write")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of a batch (32)")
    parser.add_argument("--columns", nargs="+", action=Columns, metavar="PART=NAME", help="names of the parts in the examples")
    parser.add_argument("--header", type=yes_or_no, metavar="yes|no", help="whether the first row of a table names its columns")
    parser.add_argument("--format", choices=FORMATS, help="the format of the examples, if their names do not show it")
    add_overwrite(parser, "the model")
    add_device_options(parser)


def run(args):
    """Prune, print what it costs and return the exit code."""
    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    if not 0 < args.heads <= 1:
        raise ValueError(f"--heads must be a share above 0 and at most 1; got {args.heads}.")
    with claimed_folder(args.output, MODEL, [folder, args.data, args.measure_on], args.overwrite):
        return _prune(args, folder)


def _prune(args, folder):
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar
    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.interpret.pruned_task import prune_task
    from keras_bert_rebuild.tasks.saved_task import load_task

    task = load_task(folder)
    reading = {"columns": args.columns, "header": args.header, "format": args.format}
    examples, measured_on = (
        None if file is None else read_examples(file, task.word.examples, **reading) for file in (args.data, args.measure_on)
    )
    start = time.monotonic()
    with progress_bar(Console(stderr=True)) as bar:
        shown = bar.add_task("importance", total=None, unit="batches", note="")
        done = prune_task(
            task,
            examples,
            args.heads,
            measured_on=measured_on,
            batch_size=args.batch_size,
            progress=lambda finished, of: bar.update(shown, completed=finished, total=of),
        )
    done.task.save(args.output)
    for line in _lines(args, task, done, time.monotonic() - start):
        print(line)
    return 0


def _lines(args, task, done, seconds):
    """What was done, a line each."""
    present = {block: len(heads) for block, heads in zip(done.importance.blocks, done.importance.present, strict=True)}
    gone = sum(map(len, done.heads.values()))
    before, after = (one.model.count_params() for one in (task, done.task))
    yield f"heads    {gone} of {sum(present.values())} taken away, by {done.importance.examples:,} examples in {seconds:.0f} s"
    for block, heads in done.heads.items():
        yield f"         block {block}: {', '.join(map(str, heads))}"
    yield f"weights  {before:,} → {after:,} parameters, {1 - after / before:.1%} less"
    for name, score in done.before.items():
        yield f"{name:<8} {score:.4f} → {done.after[name]:.4f}"
    yield f"wrote    {args.output}"
