"""A race of pretrainings by wall clock: `--recipe modern`, `--recipe bert`, and transformers' Trainer as its script run_mlm.py.

Command: python benchmarks/race.py CORPUS ... --ours PYTHON --peer PYTHON --minutes 30 --seeds 0 1 2 --results R --output TABLE
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
import shlex
import statistics
import sys
from pathlib import Path

from workers import Results, environment, result_of

TUNED, USUAL, SAME_MODEL = "transformers tuned", "transformers", "transformers modern"
SIDES = ("modern", "bert", USUAL, TUNED, SAME_MODEL)

# What --tune tries, at a rate of 5e-5 and at others.
BATCHES, USUAL_RATE, RATES = (8, 16, 32), 5e-5, (5e-4, 1e-3, 2e-3)


def worker(python, what, job, args):
    """The result of a process of `race_worker.py`."""
    job = json.dumps({**job, "folder": str(args.work.resolve()), "threads": args.threads})
    backend = "torch" if what == "peer" else args.backend
    return result_of((python, Path(__file__).with_name("race_worker.py"), what, job), environment(backend, args.threads))


def prepared(args):
    """Make the text, the vocabulary and the sizes, once."""
    done = args.work / "prepared.json"
    if done.is_file():
        return
    args.work.mkdir(parents=True, exist_ok=True)
    job = {"corpora": [str(path.resolve()) for path in args.corpus], "vocab_size": args.vocab_size, "minutes": args.minutes}
    done.write_text(json.dumps(worker(args.ours, "prepare", job, args)))


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
        trained = worker(args.ours, "ours", {**job, "recipe": side, "model": str(args.work.resolve() / f"{side}.json")}, args)
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
    """The results as Markdown."""
    of = {side: [row for row in rows if row["side"] == side] for side in dict.fromkeys(row["side"] for row in rows)}
    of.pop("tune", None)
    final = {side: statistics.mean(row["loss"] for row in found) for side, found in of.items()}
    goals = [side for side in (USUAL, TUNED, SAME_MODEL) if side in of]
    columns = ["side", "parameters", "steps", "tokens", "seconds", "held-out loss", "by seed", "accuracy"]
    columns += [f"reaches the loss of {side} after" for side in goals]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * 1}{'---:|' * (len(columns) - 1)}"]
    for side, found in of.items():
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
    return "\n".join([*lines, ""])


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
    results = Results(args.results, minutes=args.minutes)
    rows = results.rows

    def keep(row):
        print(f"{row['side']}, seed {row['seed']}: {row['loss']:.3f} nats after {row['seconds']:,.0f} s", flush=True)
        return results.keep(row)

    if not args.only_table:
        prepared(args)
        peers = tuned(rows, args, keep) if any(side.startswith(USUAL) for side in args.sides) else {}
        for seed in args.seeds:
            for side in args.sides:
                if not results.has(side=side, seed=seed):
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
