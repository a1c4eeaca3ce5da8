"""A race of pretrainings by wall clock: `--recipe modern`, `--recipe bert`, and transformers' Trainer as its script run_mlm.py.

Command: python benchmarks/race.py CORPUS ... --ours PYTHON --peer PYTHON --minutes 30 --seeds 0 1 2 --results R --output TABLE
         the same with --sides modern --without packing masks ...   for what each ingredient of the recipe gives
Time: for each side and seed the minutes, and about two more to load and to score; with --tune a sixth of the minutes for each try
Needs: keras with the backend in the first environment; torch, transformers, datasets and accelerate in the second

All sides have the same cores, the same training text in the same vocabulary, learned from it, and models of the same number of
blocks, of the same width and heads: those that the modern recipe chooses for the minutes (the others have BERT's blocks). One
document in forty is held out, without passages that the training text has too.

    modern, bert         `keras-bert pretrain --recipe` with --minutes
    transformers         BertForMaskedLM, with the defaults of run_mlm.py: blocks of 128 tokens of the joined lines, 15 % masked,
                         AdamW with a rate of 5e-5 that falls linearly, dropout 0.1, at the best batch size of --tune
    transformers tuned   with the best batch size and rate of --tune, warm-up over a tenth of the steps, and the rest the same
    transformers modern  as the tuned one, with ModernBertForMaskedLM of the modern recipe's blocks

The steps of transformers are those that fit into the minutes by the speed of its first steps, which are not counted; it may take
longer in the end. Time is that of the training, without imports and without the tokens of either side being made.

Ten times in a run the weights are kept, and afterwards one evaluator scores all of them: the same masks for every encoder, 15 % of
the tokens of all held-out text in rows of 128 (`masked_score`). A result is appended to R as soon as it is known, and those in it
are not run again; each is a process of its own. TABLE is made from all of R.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

TUNED, USUAL, SAME_MODEL = "transformers tuned", "transformers", "transformers modern"
SIDES = ("modern", "bert", USUAL, TUNED, SAME_MODEL)

# What --tune tries, at a rate of 5e-5 and at others.
BATCHES, USUAL_RATE, RATES = (8, 16, 32), 5e-5, (5e-4, 1e-3, 2e-3)

# The modern recipe with one ingredient left out: fields of its training that differ, and of its model; weight decay is as in BERT.
WITHOUT = {
    "packing": {"packing": False},
    "masks": {"mask_rate": 0.15},
    # AdamW at the best rate of "transformers tuned", and at that of the recipe.
    "optimizer": {"optimizer": "adamw", "learning_rate": 1e-3},
    "optimizer-same-rate": {"optimizer": "adamw"},
    "schedule": {"schedule": "linear", "decay_fraction": None, "decay_shape": None},
    "weight-decay": {"weight_decay": 0.01},
    "growth": {"phases": "last"},
    "block": {"model": "bert.json"},
    "dropout": {"model": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "mlp_dropout": 0.1}},
    "no-pairs": {"packing": False, "next_sentence": "nsp"},
}


def worker(python, what, job, args):
    """The result of a process of `race_worker.py`."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "KERAS_BACKEND": "torch" if what == "peer" else args.backend,
        "OMP_NUM_THREADS": str(args.threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    job = {**job, "folder": str(args.work.resolve()), "threads": args.threads}
    command = [python, str(Path(__file__).with_name("race_worker.py")), what, json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{what} ended with {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def prepared(args):
    """Make the text, the vocabulary and the sizes, once."""
    done = args.work / "prepared.json"
    if done.is_file():
        return
    args.work.mkdir(parents=True, exist_ok=True)
    job = {"corpora": [str(path.resolve()) for path in args.corpus], "vocab_size": args.vocab_size, "minutes": args.minutes}
    done.write_text(json.dumps(worker(args.ours, "prepare", job, args)))


def recipe_without(name, args):
    """The file of the modern recipe without an ingredient, and the model."""
    import yaml

    folder = Path(__file__).parents[1] / "keras_bert_rebuild" / "recipes" / "pretraining" / "presets"
    recipe = yaml.safe_load((folder / "modern.yaml").read_text(encoding="utf-8"))
    training, model = recipe["training"], args.work.resolve() / "modern.json"
    for field, value in WITHOUT[name].items():
        if field == "model" and isinstance(value, str):
            own = {**json.loads((args.work / value).read_text()), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        elif field == "model":
            named = {"hidden_dropout_prob": "embedding_dropout", "attention_probs_dropout_prob": "attention_dropout"}
            own = {**json.loads(model.read_text()), **{named.get(key, key): rate for key, rate in value.items()}}
        elif field == "phases":
            training["phases"] = [{**training["phases"][-1], "steps": 1}]
        elif value is None:
            training.pop(field, None)
        else:
            training[field] = value
        if field == "model":
            model = args.work.resolve() / f"modern-without-{name}.json"
            model.write_text(json.dumps(own))
    path = args.work.resolve() / f"modern-without-{name}.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path, model


def run(side, seed, args, **peer):
    """The row of a run."""
    output = args.work.resolve() / f"{side.replace(' ', '-')}-seed-{seed}"
    job = {"output": str(output), "seed": seed, "minutes": args.minutes, **peer}
    if side.startswith(USUAL):
        trained = worker(args.peer, "peer", job, args)
        snapshots = trained.pop("snapshots")
        curve = worker(args.ours, "score", {"snapshots": snapshots}, args)
        job_of = peer
    else:
        recipe, model = side, args.work.resolve() / ("modern.json" if side == "modern" else "bert.json")
        if side.startswith("without "):
            recipe, model = recipe_without(side.removeprefix("without "), args)
        trained = worker(args.ours, "ours", {**job, "recipe": str(recipe), "model": str(model)}, args)
        curve = trained.pop("curve")
        job_of = {}
    seconds, loss, accuracy, unigram = curve[-1]
    scores = {"seconds": seconds, "loss": loss, "accuracy": accuracy, "unigram": unigram}
    return {"side": side, "seed": seed, "minutes": args.minutes, **job_of, **trained, **scores, "curve": curve}


def tuned(rows, args, keep):
    """The best batch size and rate of transformers, and the best batch size at its usual rate, from short runs."""
    tries = [(batch, rate) for rate in (USUAL_RATE, *RATES) for batch in BATCHES]
    known = {(row["batch_size"], row["learning_rate"]): row for row in rows if row["side"] == "tune"}
    short = argparse.Namespace(**{**vars(args), "minutes": args.minutes / 6})
    for batch, rate in tries if args.tune else ():
        if (batch, rate) not in known:
            warmup = 0.0 if rate == USUAL_RATE else 0.1
            row = run(f"{USUAL} try", 0, short, batch_size=batch, learning_rate=rate, warmup=warmup)
            known[batch, rate] = keep({**row, "side": "tune", "minutes": args.minutes})
    usual = min((row for row in known.values() if row["learning_rate"] == USUAL_RATE), key=lambda row: row["loss"], default=None)
    best = min((row for row in known.values() if row["learning_rate"] != USUAL_RATE), key=lambda row: row["loss"], default=None)
    settings = {
        USUAL: {"batch_size": usual["batch_size"] if usual else 8, "learning_rate": USUAL_RATE, "warmup": 0.0},
        TUNED: {"batch_size": best["batch_size"] if best else 16, "learning_rate": best["learning_rate"] if best else 1e-3},
    }
    settings[TUNED]["warmup"] = 0.1
    settings[SAME_MODEL] = {**settings[TUNED], "model": "modern.json"}
    return settings


def seconds_to(loss, curve):
    """When a curve reaches a loss, on straight lines between its points; None if it does not."""
    before = None
    for seconds, value, *_ in curve:
        if value <= loss:
            if before is None:
                return seconds
            return before[0] + (before[1] - loss) / (before[1] - value) * (seconds - before[0])
        before = seconds, value
    return None


def table(rows):
    """The results as Markdown: the sides, and what the ingredients give."""
    of = {side: [row for row in rows if row["side"] == side] for side in dict.fromkeys(row["side"] for row in rows)}
    of.pop("tune", None)
    final = {side: statistics.mean(row["loss"] for row in found) for side, found in of.items()}
    goals = [side for side in (USUAL, TUNED, SAME_MODEL) if side in of]
    columns = ["side", "parameters", "steps", "tokens", "seconds", "held-out loss", "by seed", "accuracy"]
    columns += [f"reaches the loss of {side} after" for side in goals]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * 1}{'---:|' * (len(columns) - 1)}"]
    for side, found in of.items():
        if side.startswith("without "):
            continue
        found = sorted(found, key=lambda row: row["seed"])
        middle = {name: statistics.median(row[name] for row in found) for name in ("params", "steps", "tokens", "seconds")}
        cells = [side, *(f"{middle[name]:,.0f}" for name in middle), f"{final[side]:.3f}"]
        cells += [", ".join(f"{row['loss']:.3f}" for row in found), f"{statistics.mean(row['accuracy'] for row in found):.1%}"]
        for goal in goals:
            times = [seconds_to(final[goal], row["curve"]) for row in found]
            whole = statistics.median(row["seconds"] for row in of[goal])
            reached = None if None in times or side == goal else statistics.mean(times)
            cells.append("" if side == goal else "never" if reached is None else f"{reached:,.0f} s, {reached / whole:.2f} of it")
        lines.append(f"| {' | '.join(cells)} |")
    unigram = next((row["unigram"] for row in rows), None)
    lines += ["", f"Unigram: {unigram:.3f}." if unigram else ""]
    left_out = [side for side in of if side.startswith("without ")]
    if left_out and "modern" in of:
        lines += ["", "| modern | held-out loss | by seed | worse by |", "|---|---:|---:|---:|"]
        for side in ("modern", *left_out):
            losses = ", ".join(f"{row['loss']:.3f}" for row in sorted(of[side], key=lambda row: row["seed"]))
            worse = "" if side == "modern" else f"{_paired(of[side], of['modern']):+.3f}"
            lines.append(f"| {side if side != 'modern' else 'as it is'} | {final[side]:.3f} | {losses} | {worse} |")
    return "\n".join([*lines, ""])


def _paired(found, others):
    """The mean difference of the losses over the seeds that both have."""
    of = {row["seed"]: row["loss"] for row in others}
    differences = [row["loss"] - of[row["seed"]] for row in found if row["seed"] in of]
    return statistics.mean(differences) if differences else float("nan")


def curves(rows):
    """The loss by wall clock, a line for every run."""
    lines = ["", "Seconds and held-out loss:", ""]
    for row in rows:
        if row["side"] != "tune":
            points = "  ".join(f"{seconds:,.0f} s {loss:.3f}" for seconds, loss, *_ in row["curve"])
            lines.append(f"- {row['side']}, seed {row['seed']}: {points}")
    return "\n".join([*lines, ""])


def main(args):
    """Run what is not known, and print the table."""
    known = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.is_file() else []
    rows = [row for row in known if row["minutes"] == args.minutes]

    def keep(row):
        rows.append(row)
        with args.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['side']}, seed {row['seed']}: {row['loss']:.3f} nats after {row['seconds']:,.0f} s", flush=True)
        return row

    if not args.only_table:
        prepared(args)
        peers = tuned(rows, args, keep) if any(side.startswith(USUAL) for side in args.sides) else {}
        for seed in args.seeds:
            for side in (*args.sides, *(f"without {name}" for name in args.without)):
                if not any((row["side"], row["seed"]) == (side, seed) for row in rows):
                    keep(run(side, seed, args, **peers.get(side, {})))
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(rows)}{curves(rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="+", help="text files, plain, .gz or .xz")
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with the backend")
    parser.add_argument("--peer", default=sys.executable, help="the interpreter with transformers")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=list(SIDES))
    parser.add_argument("--without", nargs="+", choices=WITHOUT, default=[], help="ingredients that are left out, one in each run")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--tune", action="store_true", help="first find the batch size and rate of transformers in short runs")
    parser.add_argument("--vocab-size", type=int, default=10000)
    parser.add_argument("--backend", default="torch", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("race"), help="the folder of what is trained")
    parser.add_argument("--results", type=Path, default=Path("race.jsonl"))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only-table", action="store_true", help="of the results, without a run")
    main(parser.parse_args())
