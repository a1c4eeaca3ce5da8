"""What the encoders of `race.py` are good for: each fine-tuned by one recipe on three sets.

Command: KERAS_BACKEND=tensorflow python benchmarks/race_finetune.py DATA --work RACE --race-seed 0 --seeds 0 1 2 \
--results RESULTS --output TABLE
Time: two minutes for each side and set on two idle cores
Needs: the folder of a race that is over, and keras with a backend

DATA is the folder with classification/, ner/ and sts/; the sets are those of `finetune.py`. The sides are the encoders at the end
of their runs, and two that have read nothing, with random weights, of the modern recipe's blocks and of BERT's. Every side has the
dropouts of its own config. Its rate is the one of RATES with the best score on dev, by the first seed; test is read for all seeds
with that rate. A result is appended to RESULTS as soon as it is known, and existing results are not run again; TABLE is made from
all of them. --limit N takes N examples of every part, to check that it runs.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

from finetune import SETS as ALL_SETS
from finetune_worker import read

SETS = ("subjectivity", "snips-slots", "sts")
RATES = (3e-4, 1e-3, 3e-3)
# The folders of the race, less the seed; or the config of a model with random weights.
SIDES = {
    "modern": "modern-seed-{}/run/model",
    "bert": "bert-seed-{}/run/model",
    "transformers": "transformers-seed-{}/snapshot-*",
    "transformers tuned": "transformers-tuned-seed-{}/snapshot-*",
    "modern, untrained": "modern.json",
    "bert, untrained": "bert.json",
}


def encoder_of(side, args, folder):
    """The folder of an encoder; one with random weights is written first."""
    path = SIDES[side].format(args.race_seed)
    if not path.endswith(".json"):
        # The last snapshot.
        return sorted(args.work.glob(path))[-1]
    from keras_bert_rebuild import BertConfig
    from keras_bert_rebuild.models.build_model import build_model
    from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained

    model = build_model(BertConfig.from_dict(json.loads((args.work / path).read_text())), ["mlm"])
    save_pretrained(model, folder / "untrained", vocabulary=args.work / "vocab.txt")
    return folder / "untrained"


def train(side, name, rate, seed, args):
    """The row of a fine-tuning."""
    import keras

    from keras_bert_rebuild.recipes.finetuning.finetune import finetune

    job = {**ALL_SETS[name], "limit": args.limit}
    parts = read(job, args.data)
    settings = {**job["settings"], "learning_rate": rate, "seed": seed}
    keras.utils.set_random_seed(seed)
    with tempfile.TemporaryDirectory(prefix="race-finetune.") as folder:
        encoder = encoder_of(side, args, Path(folder))
        done = finetune(job["task"], encoder, parts["train"], parts["dev"], Path(folder) / "run", settings, test=parts["test"])
    metric = done.report["metric"]
    scores = {part: done.report[part][metric] for part in ("dev", "test")}
    return {"set": name, "side": side, "race_seed": args.race_seed, "seed": seed, "rate": rate, "metric": metric, **scores}


def table(rows):
    """The scores on test as Markdown, a row for each side."""
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    metrics = {name: next(row["metric"] for row in rows if row["set"] == name) for name in names}
    lines = [f"| side | {' | '.join(f'{name}, {metrics[name]}' for name in names)} |", f"|---|{'---|' * len(names)}"]
    for side in SIDES:
        cells = []
        for name in names:
            found = [row for row in rows if (row["side"], row["set"]) == (side, name)]
            if not found:
                cells.append("")
                continue
            best = max((row for row in found if row["seed"] == found[0]["seed"]), key=lambda row: row["dev"])["rate"]
            scores = [100 * row["test"] for row in sorted(found, key=lambda row: row["seed"]) if row["rate"] == best]
            cells.append(f"{statistics.mean(scores):.2f} ({', '.join(f'{score:.1f}' for score in scores)}; rate {best:g})")
        if any(cells):
            lines.append(f"| {side} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main(args):
    """Run what is not known, and print the table."""
    known = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.is_file() else []
    rows = [row for row in known if row["race_seed"] == args.race_seed]

    def row_of(side, name, rate, seed):
        wanted = {"side": side, "set": name, "rate": rate, "seed": seed}
        row = next((row for row in rows if wanted.items() <= row.items()), None)
        if row is None:
            row = train(side, name, rate, seed, args)
            rows.append(row)
            with args.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{name}, {side}, rate {rate:g}, seed {seed}: dev {row['dev']:.4f}, test {row['test']:.4f}", flush=True)
        return row

    for name in args.sets:
        for side in args.sides:
            tries = [row_of(side, name, rate, args.seeds[0]) for rate in RATES]
            best = max(tries, key=lambda row: row["dev"])["rate"]
            for seed in args.seeds[1:]:
                row_of(side, name, best, seed)
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("race"), help="the folder of the race")
    parser.add_argument("--race-seed", type=int, default=0, help="which run of each side")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("race_finetune.jsonl"))
    parser.add_argument("--output", type=Path)
    main(parser.parse_args())
