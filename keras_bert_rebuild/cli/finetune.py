"""`keras-bert finetune`, `predict` and `prune`: a model that answers, its answers to a file, and the same with fewer heads."""

import time

from keras_bert_rebuild.cli.arguments import given_settings, refuse_together, workers_of
from keras_bert_rebuild.cli.progress import Bar, TrainingBar, begin
from keras_bert_rebuild.files.kinds import ANSWERS, MODEL, RUN
from keras_bert_rebuild.files.output import claimed_file, claimed_folder, claimed_run
from keras_bert_rebuild.files.printable import decimals
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.tasks.registry import finetune_task, task_names


def run(args):
    """Train, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.recipes.finetuning.finetune import finetune
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

    refuse_together(args, ("epochs", "steps"))
    _check_options_of_task(args)
    settings = FinetuneSettings.from_dict(given_settings(args, FinetuneSettings))
    args.used = settings.batch_size, settings.max_len or "as many as the model takes, at most 512,"
    inputs = [args.model, args.train, args.dev, args.test, args.settings]
    try:
        with claimed_run(args.output, RUN, inputs), TrainingBar(Console(stderr=True), "fine-tuning") as bar:
            begin("starting", args.output)
            done = finetune(args.task, args.model, args.train, args.dev, args.output, settings, test=args.test, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + stopped.signal
    for name in ("dev", "test", "bm25"):
        if name in done.report:
            print(f"{name:<8} {_scores(done.report[name])}")
    print(f"wrote    {args.output / 'model'}")
    print(f"report   {args.output / 'report.md'}")
    return 0


def _scores(scores):
    return "  ".join(f"{name} {decimals(value)}" for name, value in scores.items())


def _check_options_of_task(args):
    """Refuse options that do not apply to the task."""
    spec = finetune_task(args.task)
    if args.objective is not None and "objective" not in spec.options:
        tasks = ", ".join(word for word in task_names() if "objective" in finetune_task(word).options).replace("_", "-")
        raise ValueError(f"--objective is for {tasks}; the task is {spec.name}.")
    if args.class_weights is not None and "class_weights" not in spec.options:
        raise ValueError(f"--class-weights is for classification and token-classification; the task is {spec.name}.")


def predict(args):
    """Answer, show the progress, and return the exit code."""
    # Claimed before a bar is shown; `predict` takes the same lock.
    with claimed_file(args.output, ANSWERS, [args.input, args.model], args.overwrite):
        scores = _predict(args)
    if scores is not None:
        print(f"scores   {_scores(scores)}")
    print(f"wrote    {args.output}")
    return 0


def _predict(args):
    """Write the file; return the scores, or None if the examples have no labels."""
    from rich.console import Console

    from keras_bert_rebuild.recipes.finetuning.predict import predict

    begin("loading", args.model)
    with workers_of(args, with_model=True) as workers, Bar(Console(stderr=True), "rows") as bar:
        return predict(
            args.model,
            args.input,
            args.output,
            args.task,
            batch_size=args.batch_size,
            columns=args.columns,
            header=args.header,
            format=args.input_format,
            overwrite=args.overwrite,
            workers=workers,
            progress=lambda done, rows: bar("predicting", total=rows, done=done),
        )


def prune(args):
    """Prune, print what it costs and return the exit code."""
    if not 0 < args.amount <= 1:
        raise ValueError(f"--amount must be above 0 and at most 1; got {args.amount}.")
    with claimed_folder(args.output, MODEL, [args.model, args.dev, args.test], args.overwrite):
        return _prune(args)


def _prune(args):
    from rich.console import Console

    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.interpret.head_pruning import prune_task
    from keras_bert_rebuild.tasks.saved_task import load_task

    begin("loading", args.model)
    task = load_task(args.model)
    reading = {"columns": args.columns, "header": args.header, "format": args.input_format}
    examples, measured_on = (
        None if file is None else read_examples(file, task.word.examples, **reading) for file in (args.dev, args.test)
    )
    start = time.monotonic()
    with Bar(Console(stderr=True), "batches") as bar:
        done = prune_task(
            task,
            examples,
            args.amount,
            measured_on=measured_on,
            batch_size=args.batch_size,
            progress=lambda finished, of: bar("importance", total=of, done=finished),
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
        yield f"{name:<8} {decimals(score)} → {decimals(done.after[name])}"
    yield f"wrote    {args.output}"
