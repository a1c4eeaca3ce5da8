"""`keras-bert prune`: take the least important attention heads of a fine-tuned model away, and say what that costs."""

import time
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing, number
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.shared_options import add_batch_size, add_reading_options
from keras_bert_rebuild.files.kinds import MODEL
from keras_bert_rebuild.files.output import claimed_folder


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("--model", type=existing, required=True, metavar="PATH", help="fine-tuned model or its run")
    parser.add_argument(
        "--amount",
        type=number,
        required=True,
        metavar="X",
        help="fraction of the attention heads to remove, such as 0.3; every block keeps at least one",
    )
    parser.add_argument(
        "--dev", type=existing, required=True, metavar="FILE", help="labelled examples that show which heads matter least"
    )
    parser.add_argument(
        "--test",
        type=existing,
        metavar="FILE",
        help="labelled examples to score before and after pruning (default: those of --dev)",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="pruned model to write")
    add_batch_size(parser)
    add_reading_options(parser)
    add_overwrite(parser, "the model")
    add_device_options(parser)


def run(args):
    """Prune, print what it costs and return the exit code."""
    folder = args.model / "model" if (args.model / "settings.yaml").is_file() else args.model
    if not 0 < args.amount <= 1:
        raise ValueError(f"--amount must be above 0 and at most 1; got {args.amount}.")
    with claimed_folder(args.output, MODEL, [folder, args.dev, args.test], args.overwrite):
        return _prune(args, folder)


def _prune(args, folder):
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import progress_bar
    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.interpret.head_pruning import prune_task
    from keras_bert_rebuild.tasks.saved_task import load_task

    begin("loading", args.model)
    task = load_task(folder)
    reading = {"columns": args.columns, "header": args.header, "format": args.input_format}
    examples, measured_on = (
        None if file is None else read_examples(file, task.word.examples, **reading) for file in (args.dev, args.test)
    )
    start = time.monotonic()
    with progress_bar(Console(stderr=True)) as bar:
        shown = bar.add_task("importance", total=None, unit="batches", note="")
        done = prune_task(
            task,
            examples,
            args.amount,
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
    yield f"heads    {gone} of {sum(present.values())} removed, ranked on {done.importance.examples:,} examples in {seconds:.0f} s"
    for block, heads in done.heads.items():
        yield f"         block {block}: {', '.join(map(str, heads))}"
    yield f"weights  {before:,} → {after:,} parameters, {1 - after / before:.1%} less"
    for name, score in done.before.items():
        yield f"{name:<8} {score:.4f} → {done.after[name]:.4f}"
    yield f"wrote    {args.output}"
