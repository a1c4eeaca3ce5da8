"""`keras-bert pretrain`: from a token store to a BERT."""

import argparse
import contextlib
import dataclasses
import inspect
import re
import signal
from pathlib import Path

from keras_bert_rebuild.recipes.pretrain_settings import DTYPES, MASKING, NEXT_SENTENCE, OPTIMIZERS, PretrainSettings
from keras_bert_rebuild.training.distribution import KINDS

CHOICES = {"next_sentence": NEXT_SENTENCE, "masking": MASKING, "optimizer": OPTIMIZERS, "dtype": DTYPES, "distribute": KINDS}
# What stands for the value of an option in the help, where it is neither a number nor one of a list.
METAVARS = {"init": "PATH", "coordinator": "ADDRESS:PORT"}
# What a line has no good words for; a file has.
ONLY_IN_FILES = ("phases",)


def add_arguments(parser):
    """Declare the options: one for every field of `PretrainSettings`."""
    parser.add_argument("store", type=Path, help="the folder that `keras-bert prepare` wrote")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the run; called again, a stopped run goes on")
    parser.add_argument("--config", type=Path, metavar="YAML", help="a file of settings, the names below with _ for -; options win")
    helps = _docs(PretrainSettings)
    for field in dataclasses.fields(PretrainSettings):
        if field.name in ONLY_IN_FILES:
            continue
        parser.add_argument(f"--{field.name.replace('_', '-')}", help=helps[field.name].replace("%", "%%"), **_kind(field))


def run(args):
    """Train, show how it goes, and return the exit code."""
    from rich.console import Console

    from keras_bert_rebuild.cli.training_bar import TrainingBar
    from keras_bert_rebuild.recipes.pretrain import pretrain
    from keras_bert_rebuild.recipes.run_folder import read_yaml
    from keras_bert_rebuild.recipes.training_run import StoppedError
    from keras_bert_rebuild.training.hosts import host_index, join_hosts

    given = read_yaml(args.config) if args.config else {}
    names = (field.name for field in dataclasses.fields(PretrainSettings) if field.name not in ONLY_IN_FILES)
    given.update({name: getattr(args, name) for name in names if getattr(args, name) is not None})
    settings = PretrainSettings.from_dict(given)
    try:
        join_hosts(settings.hosts, settings.host_index, settings.coordinator)
        shown = TrainingBar(Console(stderr=True), settings.total_steps) if host_index() == 0 else contextlib.nullcontext()
        with shown as bar:
            pretrain(args.store, args.output, settings, report=bar)
    except StoppedError as stopped:
        print(f"{stopped} The same command goes on.")
        return 128 + (stopped.signal or signal.SIGTERM)
    if host_index() == 0:
        print(f"wrote    {args.output / 'model'}")
        print(f"curve    {args.output / 'metrics.csv'}")
    return 0


def _kind(field):
    """How an option is read, from the type of its field."""
    if field.name in CHOICES:
        return {"choices": CHOICES[field.name]}
    if field.type is bool:
        return {"type": _yes_or_no, "metavar": "yes|no"}
    if field.name == "jit_compile":
        return {"type": lambda text: text if text == "auto" else _yes_or_no(text), "metavar": "yes|no|auto"}
    if field.name == "lengths":
        return {"type": int, "nargs": "*", "metavar": "N"}
    if field.type in (int, int | None):
        return {"type": int, "metavar": "N"}
    if field.type in (float, float | None):
        return {"type": float, "metavar": "X"}
    return {"metavar": METAVARS.get(field.name, "SIZE|PATH")}


def _yes_or_no(text):
    answers = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"expected yes or no; got {text!r}")
    return answers[text.lower()]


def _docs(settings):
    """The string behind every field, without line breaks."""
    source = inspect.getsource(settings)
    found = re.findall(r'^    ([a-z_]+): [^\n]+\n    """(.+?)"""', source, re.M | re.S)
    return {name: " ".join(text.replace("`", "").split()).removesuffix(".") for name, text in found}
