"""`keras-bert curves`: the curves of a run as a picture."""

from pathlib import Path


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("folder", type=Path, help="the folder of a run, with metrics.csv")
    parser.add_argument("--output", type=Path, help="the SVG file to write (curves.svg in the folder)")


def run(args):
    """Draw the curves and return the exit code."""
    from keras_bert_rebuild.files.durable import write_file
    from keras_bert_rebuild.recipes.curves import draw_curves, read_curves

    curves = read_curves(args.folder)
    beside = args.folder if args.folder.is_dir() else args.folder.parent
    output = args.output or beside / "curves.svg"
    picture = draw_curves(curves, beside.resolve().name)
    write_file(output, lambda file: file.write(picture.encode("utf-8")))
    print(f"Wrote {output}: open it in a browser.")
    return 0
