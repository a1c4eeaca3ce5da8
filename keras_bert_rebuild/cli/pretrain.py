"""`keras-bert pretrain`: from a token store to a BERT, an ELECTRA or an XLNet."""

import contextlib
import signal
from pathlib import Path

from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import checkpoint, existing, size_or_path, whole
from keras_bert_rebuild.cli.pretrain_recipe import add_recipe_options, refuse_recipe_options, run_recipe
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.settings_options import add_settings, given_settings
from keras_bert_rebuild.cli.shared_options import add_mix, check_mix, option_of, refuse_together
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import DECAY_SHAPES, SCHEDULES
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import DTYPES, MASKING, NEXT_SENTENCE, OPTIMIZERS, PretrainSettings
from keras_bert_rebuild.recipes.settings import SIZES
from keras_bert_rebuild.training.distributed.distribution import KINDS as DISTRIBUTIONS

# How options are parsed that are neither a number nor any text.
KINDS = {
    "model": {"type": size_or_path, "metavar": "SIZE|PATH", "known": tuple(SIZES)},
    "init": {"type": checkpoint, "metavar": "PATH"},
    "objective": {"choices": tuple(OBJECTIVES)},
    "next_sentence": {"choices": NEXT_SENTENCE},
    "masking": {"choices": MASKING},
    "optimizer": {"choices": OPTIMIZERS},
    "schedule": {"choices": SCHEDULES},
    "decay_shape": {"choices": DECAY_SHAPES},
    "decay_from": {"type": checkpoint, "metavar": "RUN"},
    "dtype": {"choices": DTYPES},
    "distribute": {"choices": DISTRIBUTIONS},
    "coordinator": {"metavar": "ADDRESS:PORT"},
    "probes": {"nargs": "*", "metavar": "[KIND:]NAME=TRAIN,DEV"},
    "lengths": {"type": whole, "nargs": "*", "metavar": "N"},
    "batch_warmup": {"type": whole, "nargs": "*", "metavar": "N"},
}
# Settings that a file can express, but a command line cannot.
ONLY_IN_FILES = ("phases",)
# Options that exclude each other.
APART = (("init", "model"), ("steps", "minutes"), ("warmup_steps", "warmup_fraction"))


def add_arguments(parser):
    """Declare the options: one for every field of `PretrainSettings`."""
    parser.add_argument(
        "store",
        type=existing,
        nargs="+",
        metavar="STORE",
        help="token store that keras-bert prepare wrote; several with the same vocabulary are mixed. With --recipe also text files",
    )
    add_mix(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of the run, required without --recipe; the same command resumes an interrupted run (default: "
        "keras-bert-RECIPE)",
    )
    add_recipe_options(parser)
    add_settings(parser, PretrainSettings, KINDS, ONLY_IN_FILES)
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    if args.recipe is not None:
        return run_recipe(args, given_settings(args, PretrainSettings, ONLY_IN_FILES))
    refuse_recipe_options(args)
    if args.output is None:
        raise ValueError("--output FOLDER is required without --recipe: the folder of the run.")
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import TrainingBar
    from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
    from keras_bert_rebuild.recipes.pretraining.decay_from import with_decay
    from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
    from keras_bert_rebuild.recipes.probing.probes import probe_report
    from keras_bert_rebuild.training.distributed.hosts import host_index, join_hosts

    refuse_together(args, *APART, ("minutes", "decay_from"))
    stores = args.store
    check_mix(args)
    if args.held_out == 0 and args.evaluation_steps is not None:
        raise ValueError("--eval-batches is for documents held out, and --held-out 0 holds out none: leave one of them out.")
    given = given_settings(args, PretrainSettings, ONLY_IN_FILES)
    of_one_phase = [name for name in ("steps", "batch_size", "seq_len", "max_predictions") if getattr(args, name) is not None]
    if given.get("phases") and of_one_phase:
        options = ", ".join(map(option_of, of_one_phase))
        raise ValueError(f"{args.settings} has phases with their own steps, batches and lengths; got {options} as well.")
    settings = PretrainSettings.from_dict(given)
    planned = with_decay(settings, args.output)
    args.used = tuple(max(getattr(phase, name) for phase in planned.all_phases) for name in ("batch_size", "seq_len"))
    total = planned.total_steps if planned.minutes is None else None
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        writes = host_index() == 0
        inputs = [*stores, args.settings, settings.init, settings.decay_from]
        claim = claimed_run(args.output, RUN, inputs) if writes else contextlib.nullcontext()
        shown = TrainingBar(Console(stderr=True), total) if writes else contextlib.nullcontext()
        with claim, shown as bar:
            if writes:
                begin("starting", args.output)
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
