"""A scaling law from small runs, and a larger run that it did not see beside what it said.

Command: python benchmarks/scaling.py TOKENS --output FOLDER
Time: five minutes on one quiet core; the folder keeps what is done, and the same command continues

Every run has a schedule of its own, which ends with it. The law is fitted to all but the one with the largest model and the most
tokens; what it says of that one stands beside what was measured.
"""

import argparse
import time
from pathlib import Path

from keras_bert_rebuild.recipes.planning.law_uncertainty import fit_with_uncertainty
from keras_bert_rebuild.recipes.planning.loss_plan import NAMES
from keras_bert_rebuild.recipes.planning.measured_runs import measured_runs
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

# From blocks and width to the tokens of the runs.
RUNS = {
    (1, 32): (250_000, 500_000, 1_000_000),
    (2, 48): (250_000, 500_000, 1_000_000),
    (2, 96): (250_000, 500_000),
}
# The run that the law does not see.
LARGER = ((2, 96), 1_000_000)
HEAD = 16
SETTINGS = {
    "batch_size": 32,
    "seq_len": 64,
    "packing": True,
    "mask_rate": 0.2,
    "learning_rate": 3e-3,
    "beta_2": 0.98,
    "held_out": 0.02,
    "evaluation_steps": 40,
    "workers": 0,
    "tensorboard": False,
    "keep_checkpoints": 1,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tokens", help="a folder that `keras-bert prepare` wrote")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the runs")
    args = parser.parse_args()
    runs = [train(args, size, tokens) for size, several in RUNS.items() for tokens in several]
    larger = train(args, *LARGER)
    report(runs, larger)


def train(args, size, tokens):
    """Train a model of a size on about this many tokens; the folder of the run."""
    blocks, width = size
    folder = args.output / f"{blocks}x{width}-{tokens // 1000}k"
    model = {
        "num_hidden_layers": blocks,
        "hidden_size": width,
        "num_attention_heads": max(width // HEAD, 1),
        "intermediate_size": 4 * width,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": SETTINGS["seq_len"],
    }
    steps = tokens // (SETTINGS["batch_size"] * SETTINGS["seq_len"])
    started = time.perf_counter()
    pretrain(args.tokens, folder, SETTINGS, model=model, steps=steps, evaluate_steps=steps, log_steps=max(steps // 4, 1))
    print(f"{folder.name}  {time.perf_counter() - started:.0f} s", flush=True)
    return folder


def report(runs, larger):
    """Print the law of the runs, and what it says of the larger one beside what was measured."""
    measured, _, _ = measured_runs([*runs, larger])
    *seen, last = measured
    fitted = fit_with_uncertainty(*zip(*((run.parameters, run.tokens, run.loss) for run in seen), strict=True))
    print("| Run | Parameters | Tokens | Held-out loss | The law | A law without it |\n|---|---:|---:|---:|---:|---:|")
    for run, without in zip(seen, fitted.without, strict=True):
        law = float(fitted.law.loss(run.parameters, run.tokens))
        name = Path(run.folder).name
        print(f"| {name} | {run.parameters:,} | {run.tokens:,} | {run.loss:.3f} | {law:.3f} | {without:.3f} |")
    print()
    for name, letter in NAMES.items():
        low, high = fitted.interval_of(name)
        print(f"{letter} = {getattr(fitted.law, name):.4g}, nine tenths {low:.3g} to {high:.3g}")
    said, (low, high) = float(fitted.law.loss(last.parameters, last.tokens)), fitted.interval(last.parameters, last.tokens)
    name = Path(last.folder).name
    print(f"\n{name}: measured {last.loss:.3f}, the law says {said:.3f}, nine tenths {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
