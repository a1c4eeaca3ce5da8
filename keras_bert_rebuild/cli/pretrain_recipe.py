"""`keras-bert pretrain --recipe`: vocabulary, tokens, plan, training and score in one go."""

import signal
import sys
from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import existing, positive
from keras_bert_rebuild.cli.said import begin, counted
from keras_bert_rebuild.cli.shared_options import (
    add_document_per_file,
    add_processes,
    option_of,
    refuse_together,
    vocabulary_file,
)

# Options that are for a recipe, and their names in `args`.
ONLY_WITH_RECIPE = ("tokenizer", "vocab_size", "processes", "document_per_file")


def add_recipe_options(parser):
    """Declare --recipe and the options of the text that it is trained on."""
    parser.add_argument(
        "--recipe",
        metavar="NAME|YAML",
        help="bert, modern or a recipe file: make vocabulary and tokens from text files, train for --minutes or --steps "
        "and evaluate, in "
        "one go; other options take precedence over the recipe (default: none)",
    )
    parser.add_argument(
        "--tokenizer",
        type=existing,
        metavar="PATH",
        help="with --recipe: vocabulary file, or a folder with one (default: learn one)",
    )
    parser.add_argument(
        "--vocab-size", type=positive, metavar="N", help="with --recipe: tokens of the vocabulary to learn (default: the recipe's)"
    )
    add_processes(parser, "with --recipe: ")
    add_document_per_file(parser, "with --recipe: ")


def refuse_recipe_options(args):
    """Refuse options of a recipe where there is none.

    Raises:
        ValueError: there is one.
    """
    name = next((name for name in ONLY_WITH_RECIPE if getattr(args, name)), None)
    if name is not None:
        raise ValueError(f"{option_of(name)} is only for --recipe: add --recipe, or leave it out.")


def run_recipe(args, given):
    """Train by the recipe, print what is done, and return the exit code.

    Args:
        args: the arguments of `keras-bert pretrain`.
        given: the settings that they give.
    """
    refuse_together(
        args,
        ("init", "model"),
        ("steps", "minutes"),
        ("warmup_steps", "warmup_fraction"),
        ("recipe", "settings"),
        ("tokenizer", "vocab_size"),
    )
    if "minutes" not in given and "steps" not in given:
        raise ValueError("--recipe needs a budget: add --minutes or --steps.")

    from rich.console import Console

    from keras_bert_rebuild.recipes.pretraining.pretrain_recipe import pretrain_recipe
    from keras_bert_rebuild.recipes.pretraining.recipe import name_of
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError

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
            **given,
        )
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + (stopped.signal or signal.SIGTERM)
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

    def reading(self, what, file_bytes):
        """A bar."""
        from keras_bert_rebuild.cli.progress import ReadingProgress

        return ReadingProgress(self.console, what, file_bytes)

    def training(self, steps):
        """A bar with the last values."""
        from keras_bert_rebuild.cli.progress import TrainingBar

        return TrainingBar(self.console, steps)

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
        phases = settings.all_phases
        self.args.used = tuple(max(getattr(phase, name) for phase in phases) for name in ("batch_size", "seq_len"))
        print(
            f"model    {config.family}, {config.num_hidden_layers} blocks of {config.hidden_size}, {plan.num_params:,} parameters"
        )
        lengths = " then ".join(dict.fromkeys(f"{phase.batch_size} x {phase.seq_len}" for phase in phases))
        about = "" if settings.minutes is None else "about "
        print(f"plan     {about}{plan.steps:,} steps of {lengths} tokens, {plan.tokens:,} tokens, {plan.passes:.1f} passes")
        memory = f"{plan.memory / 1e9:.2f} GB" if plan.memory >= 1e8 else f"{plan.memory / 1e6:.0f} MB"
        free = "" if plan.available is None else f" of {plan.available / 1e9:.1f} GB free"
        approximate = "about " if settings.minutes is None else ""
        print(f"         {approximate}{plan.minutes:,.1f} minutes, {memory} a device{free}", flush=True)
