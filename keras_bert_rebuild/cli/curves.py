"""`keras-bert curves`: the curves of a run as a picture."""

from pathlib import Path

from keras_bert_rebuild.cli.option_kinds import add_overwrite, existing
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.kinds import CURVES
from keras_bert_rebuild.files.output import claimed_file


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("run", type=existing, metavar="RUN", help="folder of a training run, or its metrics.csv")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="SVG file to write (default: curves.svg in the folder of the run)"
    )
    add_overwrite(parser, "the picture")


def run(args):
    """Draw the curves and return the exit code."""
    from keras_bert_rebuild.recipes.metrics_table import draw_curves, read_curves
    from keras_bert_rebuild.recipes.probing.probes import BASELINES, read_baselines

    folder = args.run if args.run.is_dir() else args.run.parent
    output = args.output or folder / "curves.svg"
    curves = read_curves(args.run)
    levels = {
        facts["column"]: {words: facts[key] for key, words in BASELINES.items() if key in facts} for facts in read_baselines(folder)
    }
    with claimed_file(output, CURVES, [folder / "metrics.csv", args.run if args.run.is_file() else None], args.overwrite):
        write_text(output, draw_curves(curves, folder.resolve().name, levels))
    print(f"Wrote {output}: open it in a browser.")
    return 0
