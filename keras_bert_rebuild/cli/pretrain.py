"""`keras-bert pretrain`: from a token store to a BERT, an ELECTRA or an XLNet."""

import contextlib
import dataclasses
import signal
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import above_zero, docs, option_kind, refuse_together
from keras_bert_rebuild.cli.pretrain_recipe import add_recipe_options, refuse_recipe_options, run_recipe
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import DECAY_SHAPES, SCHEDULES
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import DTYPES, MASKING, NEXT_SENTENCE, OPTIMIZERS, PretrainSettings
from keras_bert_rebuild.training.distributed.distribution import KINDS

CHOICES = {
    "objective": tuple(OBJECTIVES),
    "next_sentence": NEXT_SENTENCE,
    "masking": MASKING,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "decay_shape": DECAY_SHAPES,
    "dtype": DTYPES,
    "distribute": KINDS,
}
# Placeholders in the help for values that are neither numbers nor from a list.
METAVARS = {"model": "SIZE|PATH", "init": "PATH", "decay_from": "RUN", "coordinator": "ADDRESS:PORT"}
# Settings that a file can express, but a command line cannot.
ONLY_IN_FILES = ("phases",)
# Options that exclude each other.
APART = (("init", "model"), ("steps", "minutes"), ("warmup_steps", "warmup_fraction"))


def add_arguments(parser):
    """Declare the options: one for every field of `PretrainSettings`."""
    parser.add_argument(
        "store",
        type=Path,
        nargs="+",
        help="a folder that `keras-bert prepare` wrote; several are mixed, with the same vocabulary; with --recipe also text files",
    )
    parser.add_argument(
        "--mix", type=above_zero, nargs="+", metavar="X", help="the weight of every folder in the examples (its number of tokens)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="the folder of the run; called again, it resumes a stopped run (with --recipe keras-bert-NAME)",
    )
    parser.add_argument("--config", type=Path, metavar="YAML", help="a file of settings, the names below with _ for -; options win")
    add_recipe_options(parser)
    helps = docs(PretrainSettings)
    for field in dataclasses.fields(PretrainSettings):
        if field.name in ONLY_IN_FILES:
            continue
        parser.add_argument(f"--{field.name.replace('_', '-')}", help=helps[field.name].replace("%", "%%"), **_kind(field))
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    if args.recipe is not None:
        return run_recipe(args, _names())
    refuse_recipe_options(args)
    if args.output is None:
        raise ValueError("--output is needed without --recipe: the folder of the run.")
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import TrainingBar
    from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
    from keras_bert_rebuild.recipes.pretraining.decay_from import with_decay
    from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
    from keras_bert_rebuild.recipes.probing.probe_report import probe_report
    from keras_bert_rebuild.recipes.run_folder import read_yaml
    from keras_bert_rebuild.training.distributed.hosts import host_index, join_hosts

    refuse_together(args, *APART, ("minutes", "decay_from"))
    stores = args.store
    if args.mix is not None and len(args.mix) != len(stores):
        raise ValueError(f"--mix must have a weight for every folder of tokens; got {len(args.mix)} for {len(stores)}.")
    if args.held_out == 0 and args.evaluation_steps is not None:
        raise ValueError("--evaluation-steps is for documents held out, and --held-out 0 holds out none: leave one of them out.")
    given = read_yaml(args.config) if args.config else {}
    of_one_phase = [name for name in ("steps", "batch_size", "seq_len", "max_predictions") if getattr(args, name) is not None]
    if given.get("phases") and of_one_phase:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in of_one_phase)
        raise ValueError(f"{args.config} has phases with their own steps, batches and lengths; got {options} as well.")
    given.update({name: getattr(args, name) for name in _names() if getattr(args, name) is not None})
    settings = PretrainSettings.from_dict(given)
    planned = with_decay(settings, args.output)
    args.used = tuple(max(getattr(phase, name) for phase in planned.all_phases) for name in ("batch_size", "seq_len"))
    total = planned.total_steps if planned.minutes is None else None
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        writes = host_index() == 0
        inputs = [*stores, args.config, settings.init, settings.decay_from]
        claim = claimed_run(args.output, RUN, inputs) if writes else contextlib.nullcontext()
        shown = TrainingBar(Console(stderr=True), total) if writes else contextlib.nullcontext()
        with claim, shown as bar:
            corpus = stores[0] if len(stores) == 1 else MixedCorpus(stores, args.mix)
            pretrain(corpus, args.output, settings, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + (stopped.signal or signal.SIGTERM)
    if host_index() == 0:
        for folder in settings.learned.folders:
            print(f"wrote    {args.output / folder}")
        for line in probe_report(args.output):
            print(line)
        print(f"curve    {args.output / 'metrics.csv'}")
    return 0


def _names():
    """The settings that have an option."""
    return [field.name for field in dataclasses.fields(PretrainSettings) if field.name not in ONLY_IN_FILES]


def _kind(field):
    """How an option is parsed, from its field."""
    if field.name == "probes":
        return {"nargs": "*", "metavar": "[KIND:]NAME=TRAIN,DEV"}
    if field.name in ("lengths", "batch_warmup"):
        return {"type": int, "nargs": "*", "metavar": "N"}
    return option_kind(field, CHOICES, METAVARS)
