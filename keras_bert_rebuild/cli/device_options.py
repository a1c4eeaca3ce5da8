"""Options of verbs that compute with a model: the exactness of its products, and where compiled programs are kept."""

import sys
from pathlib import Path

from keras_bert_rebuild.kernels.device_settings import (
    MATMUL_PRECISIONS,
    compile_quickly,
    keep_compiled_programs,
    keep_no_programs,
    set_matmul_precision,
)

NONE = "none"

# Verbs whose runs are so short that compiling is much of their time.
SHORT = ("finetune",)


def add_device_options(parser):
    """Declare --matmul-precision and --compilation-cache."""
    parser.add_argument(
        "--matmul-precision",
        choices=MATMUL_PRECISIONS,
        default="default",
        help="precision of float32 matrix products on a GPU or TPU: highest is float32, high is TF32, default the backend's choice "
        "(default: default)",
    )
    parser.add_argument(
        "--compilation-cache",
        metavar=f"{NONE}|FOLDER",
        help="JAX: folder that keeps compiled programs for later runs; none keeps nothing (default: $JAX_COMPILATION_CACHE_DIR, or "
        "else keras-bert/jax in the user's cache folder)",
    )


def apply_device_options(args):
    """Make the settings of the options, before anything is compiled; verbs without the options have none.

    Programs that cannot be kept are a note on standard error, and stop nothing.
    """
    if not hasattr(args, "compilation_cache"):
        return
    set_matmul_precision(args.matmul_precision)
    if getattr(args, "verb", None) in SHORT:
        compile_quickly()
    given = args.compilation_cache
    if given == NONE:
        keep_no_programs()
    elif reason := keep_compiled_programs(None if given is None else Path(given).expanduser().absolute()):
        print(f"keras-bert {args.verb}: compiled programs are not kept: {reason}", file=sys.stderr)
