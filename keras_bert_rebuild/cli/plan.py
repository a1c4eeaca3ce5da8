"""`keras-bert plan`: memory, speed and device hours of a training before a machine is rented."""

import argparse
import json
import math

from keras_bert_rebuild.recipes.plan_devices import GPU_CARDS, TPU_CHIPS
from keras_bert_rebuild.recipes.pretrain_settings import DTYPES, NEXT_SENTENCE, OPTIMIZERS


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("model", type=str, help="a size (tiny, mini, small, medium, base, large) or the path of a config.json")
    parser.add_argument("--tpu", type=str, metavar="CHIP:SLICE", help=f"such as v5e:4x4; chips: {', '.join(TPU_CHIPS)}")
    parser.add_argument("--gpus", type=int, metavar="N", help="number of GPUs (1)")
    parser.add_argument("--gpu", type=str, metavar="NAME", help=f"their kind: {', '.join(GPU_CARDS)}")
    parser.add_argument("--cpu", action="store_true", help="this processor, whose rate is measured")
    # Options of `keras-bert pretrain`, with its defaults.
    parser.add_argument("--batch-size", type=int, metavar="N", help="examples of a step, on all devices together (32)")
    parser.add_argument("--seq-len", type=int, metavar="N", help="tokens of an example (128)")
    parser.add_argument("--max-predictions", type=int, metavar="N", help="positions to predict of an example (by the rate)")
    parser.add_argument("--mask-rate", type=float, metavar="X", help="fraction of the tokens to predict (0.15)")
    parser.add_argument("--dtype", choices=DTYPES, help="dtype policy (float32)")
    parser.add_argument("--next-sentence", choices=NEXT_SENTENCE, help="the second task (nsp)")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="(adamw)")
    parser.add_argument("--ema", type=float, metavar="X", help="maintain averaged weights with this momentum")
    parser.add_argument("--gradient-accumulation-steps", type=int, metavar="N", help="consecutive micro-batches of a step (1)")
    parser.add_argument("--remat", action="store_true", default=None, help="recompute blocks in the backward pass")
    parser.add_argument("--loss-chunk", type=int, metavar="N", help="positions whose logits are held at once (all)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="tokens of the vocabulary (the model's)")
    parser.add_argument(
        "--tokens", type=_whole, default=10**9, metavar="N", help="tokens of the whole training, also as 137e9 (1e9)"
    )
    parser.add_argument(
        "--utilisation", type=float, default=0.4, metavar="X", help="the fraction of the published rate that is reached (0.4)"
    )
    parser.add_argument("--compile", action="store_true", help="run the TPU compiler too; takes minutes and needs the extra tpu")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args):
    """Print the plan and return the exit code."""
    from keras_bert_rebuild.cli.plan_tables import print_plan
    from keras_bert_rebuild.recipes.plan import SETTINGS, plan

    given = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    topology = {name: getattr(args, name) for name in ("tpu", "gpus", "gpu", "cpu")}
    others = {name: getattr(args, name) for name in ("tokens", "utilisation", "compile", "vocab_size")}
    planned = plan(args.model, **topology, **others, **given)
    if args.json:
        print(json.dumps(planned.to_dict(), indent=2))
    else:
        print_plan(planned, args.model)
    return 0


def _whole(text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"expected a whole number; got {text!r}")
    return int(number)
