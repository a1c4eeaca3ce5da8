"""`keras-bert distill`: from a teacher and a token store to a smaller model."""

import contextlib
import dataclasses
import signal
from pathlib import Path

from keras_bert_rebuild.cli import pretrain as pretrain_verb
from keras_bert_rebuild.cli.device_options import add_device_options
from keras_bert_rebuild.cli.option_kinds import above_zero, docs, option_kind, refuse_together
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.models.distillation_objectives import MEASURES
from keras_bert_rebuild.recipes.pretraining.distill_settings import OF_TEACHER, RELATIONS, STARTS, DistillSettings

CHOICES = {**pretrain_verb.CHOICES, "start": STARTS, "hidden_measure": MEASURES}
# Lists of words and numbers.
LISTS = {
    **{name: {"nargs": "+", "metavar": "last|uniform|TEACHER:STUDENT"} for name in ("hidden_layers", "relation_layers")},
    "probes": {"nargs": "*", "metavar": "[KIND:]NAME=TRAIN,DEV"},
    "relations": {"nargs": "+", "choices": RELATIONS, "metavar": "PAIR"},
    **{name: {"type": int, "nargs": "*", "metavar": "N"} for name in ("start_blocks", "lengths", "batch_warmup")},
}
# What a command line cannot express, what it has as an argument, and what a distillation does not have.
WITHOUT_OPTION = ("phases", "student", "teacher", *OF_TEACHER)


def add_arguments(parser):
    """Declare the options: one for every field of `DistillSettings`."""
    parser.add_argument("teacher", type=Path, help="the model to learn from, a folder or file that from_pretrained reads")
    parser.add_argument(
        "store",
        type=Path,
        nargs="+",
        help="a folder that `keras-bert prepare` wrote with the vocabulary of the teacher; several are mixed",
    )
    parser.add_argument(
        "--mix", type=above_zero, nargs="+", metavar="X", help="the weight of every folder in the examples (its number of tokens)"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder of the run; called again, it resumes a stopped run")
    parser.add_argument("--config", type=Path, metavar="YAML", help="a file of settings, the names below with _ for -; options win")
    helps, fields = docs(DistillSettings), dataclasses.fields(DistillSettings)
    first = [field for field in fields if field.name in DistillSettings.__annotations__]
    for field in (*first, *(field for field in fields if field not in first)):
        if field.name not in WITHOUT_OPTION:
            kind = LISTS.get(field.name) or option_kind(field, CHOICES, pretrain_verb.METAVARS)
            parser.add_argument(f"--{field.name.replace('_', '-')}", help=helps[field.name].replace("%", "%%"), **kind)
    add_device_options(parser)


def run(args):
    """Train, show the progress, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.progress import TrainingBar
    from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
    from keras_bert_rebuild.recipes.pretraining.distill import distill
    from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError
    from keras_bert_rebuild.recipes.run_folder import read_yaml
    from keras_bert_rebuild.training.distributed.hosts import host_index, join_hosts

    refuse_together(args, ("steps", "minutes"), ("warmup_steps", "warmup_fraction"))
    stores = args.store
    if args.mix is not None and len(args.mix) != len(stores):
        raise ValueError(f"--mix must have a weight for every folder of tokens; got {len(args.mix)} for {len(stores)}.")
    given = read_yaml(args.config) if args.config else {}
    names = (field.name for field in dataclasses.fields(DistillSettings) if field.name not in WITHOUT_OPTION)
    given.update({name: getattr(args, name) for name in names if getattr(args, name) is not None})
    settings = DistillSettings.from_dict({**given, "teacher": str(args.teacher)})
    args.used = tuple(max(getattr(phase, name) for phase in settings.all_phases) for name in ("batch_size", "seq_len"))
    total = settings.total_steps if settings.minutes is None else None
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        writes = host_index() == 0
        claim = claimed_run(args.output, RUN, [*stores, args.config, args.teacher]) if writes else contextlib.nullcontext()
        shown = TrainingBar(Console(stderr=True), total) if writes else contextlib.nullcontext()
        with claim, shown as bar:
            corpus = stores[0] if len(stores) == 1 else MixedCorpus(stores, args.mix)
            distill(args.teacher, corpus, args.output, settings, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command resumes it.")
        return 128 + (stopped.signal or signal.SIGTERM)
    if host_index() == 0:
        print(f"wrote    {args.output / 'model'}")
        print(f"curve    {args.output / 'metrics.csv'}")
    return 0
