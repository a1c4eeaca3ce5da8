"""`keras-bert inspect`: the contents of a checkpoint."""

import json

from keras_bert_rebuild.cli.option_kinds import existing
from keras_bert_rebuild.cli.shared_options import add_model
from keras_bert_rebuild.files.printable import printable

FORMATS = ("text", "json")


def add_arguments(parser):
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--config", type=existing, metavar="FILE", help="config file of the model (default: next to the weights)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print it (default: text)")


def run(args):
    """Print the format, the config and every name, and return the exit code."""
    from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

    found = inspect_checkpoint(args.model, args.config)
    if args.format == "json":
        print(json.dumps({**found, "names": [row._asdict() for row in found["names"]]}, indent=2, default=str))
        return 0
    _print(found)
    return 0


def _print(found):
    names = found["names"]
    total = sum(row.parameters for row in names if row.path != "-")
    print(f"file        {printable(found['file'])}")
    print(f"format      {printable(found['format'])}")
    print(f"family      {printable(found['family'])}")
    print(f"heads       {', '.join(found['heads']) or 'none'}")
    print(f"parameters  {total:,} under {sum(row.path != '-' for row in names):,} names")
    print("config      " + "\n            ".join(f"{field} = {_shown(value)}" for field, value in found["config"].items()))
    print()
    rows = [("name", "shape", "type", "parameters", "our path")]
    rows += [(printable(row.name), str(row.shape), printable(row.dtype), f"{row.parameters:,}", row.path) for row in names]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for name, shape, dtype, parameters, path in rows:
        print(f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {dtype:<{widths[2]}}  {parameters:>{widths[3]}}  {path}")
    unknown = [printable(row.name) for row in names if row.path == "?"]
    print()
    print("Every weight has a variable." if not unknown else f"No variable for {len(unknown)}: {', '.join(unknown[:5])}")


def _shown(value):
    # repr escapes labels; of a million labels nobody reads more than the first.
    return printable(repr(value))
