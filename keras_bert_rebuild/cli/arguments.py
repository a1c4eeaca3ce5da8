"""What several verbs make of their arguments: settings, files of another form, and what excludes what."""

import contextlib
import dataclasses
import importlib
from pathlib import Path

from keras_bert_rebuild.cli.options import option_of
from keras_bert_rebuild.files.hub import origin_of


def given_settings(args, settings):
    """The settings of a command line by field: those of --settings, and above these the options.

    Args:
        args: the arguments of a verb with options for the fields.
        settings: the dataclass.

    Raises:
        ValueError: the file cannot be read.
    """
    from keras_bert_rebuild.files.yaml_files import read_yaml

    fields = {field.name for field in dataclasses.fields(settings)}
    by_option = {option_of(name).removeprefix("--"): name for name in fields}
    values = {}
    for name, value in (read_yaml(args.settings) if getattr(args, "settings", None) else {}).items():
        is_field = name in fields or not isinstance(name, str)
        values[name if is_field else by_option.get(name.replace("_", "-"), name)] = value
    return values | {name: value for name in fields if (value := getattr(args, name, None)) is not None}


def refuse_together(args, *pairs):
    """Refuse two options that exclude each other.

    Args:
        args: the arguments.
        *pairs: names in the namespace, `(one, other)`.

    Raises:
        ValueError: both of a pair were given.
    """
    for one, other in pairs:
        if all(getattr(args, name) not in (None, False) for name in (one, other)):
            raise ValueError(f"{option_of(one)} and {option_of(other)} exclude each other: leave one of them out.")


def check_format(args, file):
    """Complete --format, of which one is that of a file.

    Raises:
        ValueError: it needs an output and there is none, or the output is a file of another format.
    """
    if args.format is None:
        args.format = "text" if args.output is None else file
    if args.format == file and args.output is None:
        raise ValueError(f"--format {file} needs a file to write: add --output FILE.{file}.")
    if args.format != file and args.output is not None:
        raise ValueError(f"--output is only for --format {file}; the format {args.format} is printed.")


def poolings_of(args):
    """The poolings of --pooling, or None without it.

    Raises:
        ValueError: one is unknown.
    """
    from keras_bert_rebuild.tasks.embedding_model import POOLINGS

    poolings = tuple(args.pooling.split(",")) if args.pooling else None
    if not set(poolings or ()) <= set(POOLINGS):
        raise ValueError(f"--pooling must be some of {', '.join(POOLINGS)}, separated by commas; got {args.pooling!r}.")
    return poolings


@contextlib.contextmanager
def workers_of(args, with_model=False):
    """What --engine, --address and --processes say of the workers for `mapped`: a number of processes, or a cluster of Ray.

    Args:
        args: the arguments.
        with_model: whether a model does the work: one process on a single machine.

    Raises:
        ValueError: an address without a cluster.
    """
    processes = getattr(args, "processes", 1)
    if args.engine == "ray":
        from keras_bert_rebuild.data.corpora.ray_cluster import RayCluster

        # The main module imports this one.
        setup = (importlib.import_module("keras_bert_rebuild.cli.main").apply_device_options, args) if with_model else None
        with RayCluster(args.address or "auto", None if with_model else processes, with_model, setup) as cluster:
            yield cluster
        return
    if args.address is not None:
        raise ValueError("--address is for --engine ray: give both, or leave it out.")
    yield processes


def vocabulary_file(path):
    """The file of a vocabulary: that of a folder, or the path itself."""
    return path / "vocab.txt" if path.is_dir() and (path / "vocab.txt").is_file() else path


def model_folder(path):
    """The folder of a model: that in a run or in the folder of a recipe, or else the path itself.

    Raises:
        ValueError: the run has no model yet.
    """
    path = Path(path)
    if (path / "run" / "settings.yaml").is_file():
        path = path / "run"
    if not (path / "settings.yaml").is_file():
        return path
    if not (path / "model").is_dir():
        raise ValueError(f"{path} must be a finished run, with a model; the command that began it resumes it.")
    return path / "model"


def run_folder(path):
    """The run of a model that `model_folder` found, or else the path itself."""
    path = Path(path)
    return path.parent if path.name == "model" and (path.parent / "settings.yaml").is_file() else path


def named(path):
    """What a model is called: its name on the hub, or that of its folder or run."""
    origin = origin_of(Path(path).absolute())
    return run_folder(Path(path).resolve()).name if origin is None else origin.repository
