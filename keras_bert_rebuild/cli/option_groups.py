"""The groups of options in a help, in one order for all verbs: title, and the options in it."""

GROUPS = (
    (
        "model",
        "model teacher init tokenizer config other other-tokenizer task heads layers num-hidden-layers hidden-size "
        "num-attention-heads intermediate-size generator-size start start-blocks",
    ),
    (
        "input",
        "recipe settings train dev test input texts corpus pair truth queries candidates fuse qrels calibrate "
        "importance other-importance mix columns "
        "header input-format kind limit vocab-size cased document-per-file shard deduplicate similarity apart-from held-out",
    ),
    ("output", "output overwrite format top-k"),
    (
        "method",
        "objective next-sentence discriminator-weight mlm-weight soft-weight temperature learned-temperature hidden-weight "
        "hidden-layers hidden-measure relation-weight relation-layers relation-heads relations symmetric negatives guide "
        "false-negative-margin query-prompt document-prompt matryoshka-dims matryoshka-weights positive-weight flops class-weights "
        "new-head crf lora-rank freeze pooling normalize prompt method target at quantity baseline integration-steps samples "
        "rescoring rerank "
        "depth rescore engine from-rank to-rank margin relative-margin max-score sampling scores-by amount "
        "checkpoints why lens names",
    ),
    (
        "sequences",
        "max-seq-length stride lengths packing short-seq-prob masking mask-rate max-predictions real-tokens",
    ),
    (
        "training",
        "steps epochs minutes tokens batch-size gradient-accumulation-steps batch-warmup batch-warmup-steps "
        "optimizer learning-rate head-rate schedule warmup-steps warmup-ratio decay-fraction decay-shape decay-from decay-step "
        "weight-decay layer-decay beta-2 clip-norm dropout ema",
    ),
    (
        "evaluation and checkpoints",
        "metric eval-steps eval-batches patience probes probe-steps probe-examples log-steps tensorboard save-steps "
        "keep-checkpoints "
        "save-in-background",
    ),
    (
        "speed and memory",
        "dtype jit-compile remat loss-chunk chunk batch-tokens workers processes verify matmul-precision compilation-cache",
    ),
    ("devices", "distribute model-devices hosts host-index coordinator tpu gpus gpu cpu measure compile utilisation"),
    ("other", "seed verbose help"),
)

# Title and place in the help of every option.
PLACES = {f"--{name}": (title, place) for title, names in GROUPS for place, name in enumerate(names.split())}


def place_of(names):
    """The title of the group of an option and its place there.

    Args:
        names: those of the option, such as `["-h", "--help"]`.
    """
    return next((PLACES[name] for name in names if name in PLACES), ("other", -1))


def arrange(parser):
    """Put the options of a parser into the groups, and the groups in order."""
    options = [action for action in parser._actions if action.option_strings]
    parser._optionals._group_actions.clear()
    for title, _ in GROUPS:
        here = sorted((a for a in options if place_of(a.option_strings)[0] == title), key=lambda a: place_of(a.option_strings)[1])
        if here:
            parser.add_argument_group(title)._group_actions.extend(here)
