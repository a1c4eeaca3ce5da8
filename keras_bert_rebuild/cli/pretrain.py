"""`keras-bert pretrain`, `distill` and `curves`: from a token store, or from text by a recipe, to a model and its curves."""

import contextlib
import signal
import sys
from pathlib import Path

from keras_bert_rebuild.cli.arguments import given_settings, refuse_together, vocabulary_file
from keras_bert_rebuild.cli.options import option_of
from keras_bert_rebuild.cli.progress import Bar, TrainingBar, begin, counted
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import CURVES, RUN
from keras_bert_rebuild.files.output import claimed_file, claimed_run
from keras_bert_rebuild.recipes.pretraining.distill import DistillSettings
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

# Options that exclude each other.
APART = (("init", "model"), ("steps", "minutes"), ("warmup_steps", "warmup_fraction"))
# Options that are for a recipe.
ONLY_WITH_RECIPE = ("tokenizer", "vocab_size", "processes", "document_per_file")


def run(args):
    """Pretrain, show the progress, and return the exit code."""
    if args.recipe is not None:
        return _run_recipe(args)
    name = next((name for name in ONLY_WITH_RECIPE if getattr(args, name)), None)
    if name is not None:
        raise ValueError(f"{option_of(name)} is only for --recipe: add --recipe, or leave it out.")
    if args.output is None:
        raise ValueError("--output FOLDER is required without --recipe: the folder of the run.")
    from keras_bert_rebuild.recipes.pretraining.decay_from import with_decay
    from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
    from keras_bert_rebuild.recipes.probing.probes import probe_report

    refuse_together(args, *APART, ("minutes", "decay_from"))
    if args.held_out == 0 and args.evaluation_steps is not None:
        raise ValueError("--eval-batches is for documents held out, and --held-out 0 holds out none: leave one of them out.")
    values = given_settings(args, PretrainSettings)
    of_one_phase = [name for name in ("steps", "batch_size", "seq_len", "max_predictions") if getattr(args, name) is not None]
    if values.get("phases") and of_one_phase:
        options = ", ".join(map(option_of, of_one_phase))
        raise ValueError(f"{args.settings} has phases with their own steps, batches and lengths; got {options} as well.")
    settings = PretrainSettings.from_dict(values)

    def train(corpus, bar):
        pretrain(corpus, args.output, settings, report=bar)

    inputs = [args.settings, settings.init, settings.decay_from]
    return _train(args, with_decay(settings, args.output), inputs, train, settings.learned.folders, probe_report)


def distill(args):
    """Distil, show the progress, and return the exit code."""
    from keras_bert_rebuild.recipes.pretraining.distill import distill

    refuse_together(args, *APART[1:])
    settings = DistillSettings.from_dict(given_settings(args, DistillSettings))

    def train(corpus, bar):
        distill(Path(args.teacher), corpus, args.output, settings, report=bar)

    return _train(args, settings, [args.settings, args.teacher], train)


def _train(args, settings, inputs, train, folders=("model",), report=lambda folder: ()):
    """Train on the token stores and say what was written; return the exit code.

    Args:
        args: the arguments of the verb.
        settings: those of the run, as they are planned.
        inputs: files that are read besides the stores.
        train: called with the corpus and a bar that takes the rows of the curve.
        folders: of the models, in that of the run.
        report: called with the folder of the run, returns more lines to print.
    """
    from rich.console import Console

    from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
    from keras_bert_rebuild.training.distributed.hosts import host_index, join_hosts

    stores = args.store
    if args.mix is not None and len(args.mix) != len(stores):
        raise ValueError(f"--mix must have one weight for every token store; got {len(args.mix)} for {len(stores)}.")
    _remember_sizes(args, settings)
    total = settings.total_steps if settings.minutes is None else None
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        writes = host_index() == 0
        claim = claimed_run(args.output, RUN, [*stores, *inputs]) if writes else contextlib.nullcontext()
        bar = TrainingBar(Console(stderr=True), "pretraining", total) if writes else contextlib.nullcontext()
        with claim, bar as shown:
            if writes:
                begin("starting", args.output)
            train(stores[0] if len(stores) == 1 else MixedCorpus(stores, args.mix), shown)
    except StoppedError as stopped:
        return _say_stopped(stopped)
    if writes:
        for folder in folders:
            print(f"wrote    {args.output / folder}")
        for line in report(args.output):
            print(line)
        print(f"curve    {args.output / 'metrics.csv'}")
    return 0


def _remember_sizes(args, settings):
    """Keep the largest batch and length, for the error if memory is exhausted."""
    args.used = tuple(max(getattr(phase, name) for phase in settings.all_phases) for name in ("batch_size", "seq_len"))


def _say_stopped(stopped):
    print(f"{stopped} The same command resumes it.")
    return 128 + (stopped.signal or signal.SIGTERM)


def _run_recipe(args):
    """Train by a recipe, print what is done, and return the exit code."""
    values = given_settings(args, PretrainSettings)
    refuse_together(args, *APART, ("recipe", "settings"), ("tokenizer", "vocab_size"))
    if "minutes" not in values and "steps" not in values:
        raise ValueError("--recipe needs a budget: add --minutes or --steps.")

    from rich.console import Console

    from keras_bert_rebuild.recipes.pretraining.pretrain_recipe import pretrain_recipe
    from keras_bert_rebuild.recipes.pretraining.recipe import name_of

    output = args.output or Path(f"keras-bert-{name_of(args.recipe)}")
    begin("starting", output)
    try:
        result = pretrain_recipe(
            args.store,
            output,
            args.recipe,
            vocabulary=None if args.tokenizer is None else vocabulary_file(args.tokenizer),
            vocab_size=args.vocab_size,
            mix=args.mix,
            processes=args.processes,
            document_per_file=args.document_per_file,
            tell=_Printer(Console(stderr=True), args),
            **values,
        )
    except StoppedError as stopped:
        return _say_stopped(stopped)
    if result.score is not None:
        score = result.score
        print(f"held out loss {score.loss:.3f} nats, accuracy {score.accuracy:.1%}: {score.positions:,} masked tokens, 15 % of all")
        print(f"unigram  loss {score.unigram_loss:.3f} nats, accuracy {score.unigram_accuracy:.1%}")
    print(f"wrote    {result.folder}")
    print(f"curve    {output / 'run' / 'metrics.csv'}")
    return 0


class _Printer:
    """What is printed while a recipe is trained: see `pretrain_recipe.Quiet`."""

    def __init__(self, console, args):
        self.console, self.args = console, args

    @contextlib.contextmanager
    def reading(self, what, file_bytes):
        """A bar."""
        with Bar(self.console, "bytes") as bar:
            yield lambda file_bytes_read, text_bytes: bar(what, file_bytes_read, file_bytes)

    def training(self, steps):
        """A bar with the last values."""
        return TrainingBar(self.console, "pretraining", steps)

    def vocabulary(self, tokens, words):
        """Print its size."""
        print(f"learned  {tokens:,} word pieces from {words:,} words of the training text")

    def prepared(self, prepared):
        """Print its size, and what was left out."""
        for note in prepared.notes:
            print(f"keras-bert pretrain: {note}", file=sys.stderr)
        counts = prepared.counts
        documents = counted(counts["documents"], "document")
        print(f"tokens   {counts['tokens']:,} of {documents}, {'cased' if prepared.cased else 'uncased'}")

    def planned(self, plan):
        """Print the plan."""
        settings, config = plan.settings, plan.config
        _remember_sizes(self.args, settings)
        print(
            f"model    {config.family}, {config.num_hidden_layers} blocks of {config.hidden_size}, {plan.num_params:,} parameters"
        )
        lengths = " then ".join(dict.fromkeys(f"{phase.batch_size} x {phase.seq_len}" for phase in settings.all_phases))
        about = "" if settings.minutes is None else "about "
        print(f"plan     {about}{plan.steps:,} steps of {lengths} tokens, {plan.tokens:,} tokens, {plan.passes:.1f} passes")
        memory = f"{plan.memory / 1e9:.2f} GB" if plan.memory >= 1e8 else f"{plan.memory / 1e6:.0f} MB"
        free = "" if plan.available is None else f" of {plan.available / 1e9:.1f} GB free"
        approximate = "about " if settings.minutes is None else ""
        print(f"         {approximate}{plan.minutes:,.1f} minutes, {memory} a device{free}", flush=True)


def curves(args):
    """Draw the curves and return the exit code."""
    from keras_bert_rebuild.recipes.metrics_table import draw_curves, read_curves
    from keras_bert_rebuild.recipes.probing.probes import BASELINES, read_baselines

    folder = args.run if args.run.is_dir() else args.run.parent
    output = args.output or folder / "curves.svg"
    rows = read_curves(args.run)
    levels = {
        facts["column"]: {words: facts[key] for key, words in BASELINES.items() if key in facts} for facts in read_baselines(folder)
    }
    with claimed_file(output, CURVES, [folder / "metrics.csv", args.run if args.run.is_file() else None], args.overwrite):
        write_text(output, draw_curves(rows, folder.resolve().name, levels))
    print(f"Wrote {output}: open it in a browser.")
    return 0
