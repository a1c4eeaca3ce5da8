"""`keras-bert distill`: from a teacher and a token store to a smaller model."""

import contextlib
import signal
from pathlib import Path

from keras_bert_rebuild.cli import pretrain as pretrain_verb
from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import checkpoint, existing, whole
from keras_bert_rebuild.cli.said import begin
from keras_bert_rebuild.cli.settings_options import add_settings, given_settings
from keras_bert_rebuild.cli.shared_options import add_mix, check_mix, refuse_together
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.models.distillation_objectives import MEASURES
from keras_bert_rebuild.recipes.pretraining.distill import OF_TEACHER, RELATIONS, STARTS, DistillSettings

# How options are parsed that are neither a number nor any text.
KINDS = {
    **pretrain_verb.KINDS,
    "start": {"choices": STARTS},
    "start_blocks": {"type": whole, "nargs": "*", "metavar": "N"},
    "hidden_measure": {"choices": MEASURES},
    **{name: {"nargs": "+", "metavar": "last|uniform|TEACHER:STUDENT"} for name in ("hidden_layers", "relation_layers")},
    "relations": {"nargs": "+", "choices": RELATIONS, "metavar": "PAIR"},
}
# What a command line cannot express, what it has as an argument, and what a distillation does not have.
WITHOUT_OPTION = ("phases", "student", "teacher", *OF_TEACHER)


def add_arguments(parser):
    """Declare the options: one for every field of `DistillSettings`."""
    parser.add_argument(
        "store",
        type=existing,
        nargs="+",
        metavar="STORE",
        help="token store that keras-bert prepare wrote with the teacher's vocabulary; several are mixed",
    )
    parser.add_argument(
        "--teacher",
        type=checkpoint,
        required=True,
        metavar="PATH",
        help="model to learn from: a folder or file in the format of Hugging Face, Google or Keras",
    )
    add_mix(parser)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of the run; the same command resumes an interrupted run",
    )
    add_settings(parser, DistillSettings, KINDS, WITHOUT_OPTION)
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import TrainingBar
    from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
    from keras_bert_rebuild.recipes.pretraining.distill import distill
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
    from keras_bert_rebuild.training.distributed.hosts import host_index, join_hosts

    refuse_together(args, ("steps", "minutes"), ("warmup_steps", "warmup_fraction"))
    stores = args.store
    check_mix(args)
    given = given_settings(args, DistillSettings, WITHOUT_OPTION)
    settings = DistillSettings.from_dict({**given, "teacher": str(args.teacher)})
    args.used = tuple(max(getattr(phase, name) for phase in settings.all_phases) for name in ("batch_size", "seq_len"))
    total = settings.total_steps if settings.minutes is None else None
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        writes = host_index() == 0
        claim = claimed_run(args.output, RUN, [*stores, args.settings, args.teacher]) if writes else contextlib.nullcontext()
        shown = TrainingBar(Console(stderr=True), total) if writes else contextlib.nullcontext()
        with claim, shown as bar:
            if writes:
                begin("starting", args.output)
            corpus = stores[0] if len(stores) == 1 else MixedCorpus(stores, args.mix)
            distill(Path(args.teacher), corpus, args.output, settings, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + (stopped.signal or signal.SIGTERM)
    if host_index() == 0:
        print(f"wrote    {args.output / 'model'}")
        print(f"curve    {args.output / 'metrics.csv'}")
    return 0
