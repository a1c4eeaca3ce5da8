"""What a teacher is worth: a student distilled from it beside the same small model without a teacher, in the same minutes.

Command: KERAS_BACKEND=torch python benchmarks/distill.py CORPUS ... --work FOLDER --teacher-minutes 60 --minutes 15 --seeds 0 1 2
Time: the minutes of the teacher once; then for each seed and side the minutes, and half a minute more to load and to score
Needs: 2 GB of memory

The corpus is split once into training text and held-out text, without passages that both have; teacher, students and small models
train on the first. `--teacher` takes a pretrained folder instead of training one; its vocabulary is then that of the stores.

    distilled      `keras-bert distill` from the teacher, with the options of --distill and the blocks of --layers
    alone          `keras-bert pretrain` of a model with the same config, from random weights
    alone, copied  the same, which starts with the weights that the student starts with; with --copied

All read the same examples of the same seed, with the same optimizer and schedule, for the same minutes by the clock, in which the
distilled student also waits for its teacher. Afterwards one evaluator scores every encoder on the same masks of all held-out text.
A result is a line of `results.jsonl` in FOLDER as soon as it is known, and those in it are not run again; the table has them all.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

SIDES = ("distilled", "alone", "alone, copied")


def verb(args, *words):
    """Run a verb of `keras-bert` in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": str(Path(__file__).parents[1])}
    program = "import sys; from keras_bert_rebuild.cli.main import main; sys.exit(main())"
    words = [str(word) for word in words]
    print(f"$ keras-bert {shlex.join(words)}", flush=True)
    subprocess.run([sys.executable, "-c", program, *words], env=environment, check=True)


def split(args):
    """Write training text and held-out text, and make a store of each with one vocabulary."""
    from keras_bert_rebuild.data.corpora.documents import hold_out, read_documents

    work = args.work
    if not (work / "train.txt").exists():
        train, held_out = hold_out([document for corpus in args.corpus for document in read_documents(corpus)], every=40)
        seen = {passage for document in train for passage in document}
        held_out = [[passage for passage in document if passage not in seen] for document in held_out]
        for name, documents in (("held_out", held_out), ("train", train)):
            text = "\n\n".join("\n".join(document) for document in documents if document)
            (work / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")
    vocabulary = work / "vocab.txt"
    if args.teacher is not None:
        vocabulary = args.teacher / "vocab.txt"
    elif not vocabulary.exists():
        verb(args, "vocab", work / "train.txt", "--size", args.vocab_size, "--output", vocabulary)
    for name in ("train", "held_out"):
        verb(args, "prepare", work / f"{name}.txt", "--vocab", vocabulary, "--output", work / f"{name}-tokens", "--workers", 1)


def common(args, minutes, seed):
    """The options that all trainings share."""
    sizes = ("--batch-size", args.batch_size, "--seq-len", args.seq_len, "--learning-rate", args.learning_rate, "--held-out", 0)
    return [*sizes, "--minutes", minutes, "--seed", seed, *shlex.split(args.options)]


def train(args, side, seed):
    """Train one side; the folder of its model."""
    from keras_bert_rebuild import BertConfig
    from keras_bert_rebuild.pretrained.config_files import config_to_huggingface
    from keras_bert_rebuild.recipes.pretraining.distill import DistillSettings
    from keras_bert_rebuild.recipes.pretraining.student import student_config, teacher_facts

    run = args.work / f"{side.replace(', ', '-')}-{args.minutes:g}-{seed}"
    options = ["--output", run, *common(args, args.minutes, seed)]
    tokens = args.work / "train-tokens"
    if side == "distilled":
        verb(args, "distill", args.teacher, tokens, "--layers", args.layers, *options, *shlex.split(args.distill))
        return run / "model"
    settings = DistillSettings(teacher=str(args.teacher), layers=args.layers)
    teacher, _ = teacher_facts(str(args.teacher))
    config: BertConfig = student_config(settings, teacher)
    if side == "alone":
        sizes = args.work / "student.json"
        sizes.write_text(json.dumps(config_to_huggingface(config)))
        start = ["--model", sizes]
    else:
        start = ["--init", copied(args, settings, config)]
    verb(args, "pretrain", tokens, "--next-sentence", "none", *start, *options)
    return run / "model"


def copied(args, settings, config):
    """A folder of the weights that the student starts with."""
    from keras_bert_rebuild import build_model, save_pretrained
    from keras_bert_rebuild.recipes.pretraining.student import copy_weights, load_teacher, source_blocks, teacher_tokenizer

    teacher, student = load_teacher(args.teacher), build_model(config, ["mlm"])
    copy_weights(teacher, student, source_blocks(settings, teacher.config, config))
    save_pretrained(student, args.work / "copied", vocabulary=teacher_tokenizer(args.teacher))
    return args.work / "copied"


def score(args, folder):
    """Loss and accuracy at the same masked tokens of the held-out text, as in race.py, and the parameters of the model."""
    from keras_bert_rebuild import TokenStore, from_pretrained
    from keras_bert_rebuild.recipes.pretraining.masked_score import masked_score

    model = from_pretrained(folder, heads=["mlm"])
    held_out, train = (TokenStore(args.work / f"{name}-tokens") for name in ("held_out", "train"))
    found = masked_score(model, held_out, train, args.seq_len)
    return {"loss": found.loss, "accuracy": found.accuracy, "parameters": model.count_params()}


def table(results):
    """The results as lines of Markdown: mean and spread over the seeds."""
    yield "| | minutes | seeds | parameters | held-out loss | accuracy | minus distilled, seed by seed |"
    yield "|---|---|---|---|---|---|---|"
    for side in ("teacher", *SIDES):
        for minutes in sorted({result["minutes"] for result in results if result["side"] == side}):
            own = [result for result in results if (result["side"], result["minutes"]) == (side, minutes)]
            losses, accuracies = ([result[name] for result in own] for name in ("loss", "accuracy"))
            beside = {
                result["seed"]: result["loss"]
                for result in results
                if (result["side"], result["minutes"]) == ("distilled", minutes)
            }
            differences = [f"{result['loss'] - beside[result['seed']]:+.3f}" for result in own if result["seed"] in beside]
            spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
            shown = ", ".join(differences) if side.startswith("alone") else ""
            yield (
                f"| {side} | {minutes:g} | {len(own)} | {own[0]['parameters']:,} | {statistics.mean(losses):.3f}{spread} "
                f"| {statistics.mean(accuracies):.3f} | {shown} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("corpus", type=Path, nargs="+", help="text files, as for `keras-bert prepare`")
    parser.add_argument("--work", type=Path, required=True, help="a folder for stores, runs and results.jsonl")
    parser.add_argument("--teacher", type=Path, help="a pretrained folder with a vocab.txt; by default one is trained")
    parser.add_argument("--teacher-minutes", type=float, default=60.0, help="minutes to train one (60)")
    parser.add_argument("--teacher-model", default="mini", help="its size, or the path of a config.json (mini)")
    parser.add_argument("--layers", type=int, default=2, help="blocks of the student (2)")
    parser.add_argument("--minutes", type=float, default=15.0, help="of every training (15)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--options", default="", help="further options of all trainings, as one word")
    parser.add_argument("--distill", default="", help="further options of `keras-bert distill`, as one word")
    parser.add_argument("--copied", action="store_true", help="also the small model with the weights that the student starts with")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every training (all cores)")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    file = args.work / "results.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    known = {(result["side"], result["minutes"], result["seed"]) for result in results}

    def add(side, minutes, seed, folder):
        results.append({"side": side, "minutes": minutes, "seed": seed, **score(args, folder)})
        with file.open("a") as lines:
            lines.write(json.dumps(results[-1]) + "\n")

    split(args)
    if args.teacher is None:
        run = args.work / f"teacher-{args.teacher_minutes:g}"
        options = ["--model", args.teacher_model, "--next-sentence", "none", *common(args, args.teacher_minutes, 0)]
        verb(args, "pretrain", args.work / "train-tokens", "--output", run, *options)
        args.teacher = run / "model"
    if ("teacher", args.teacher_minutes, 0) not in known:
        add("teacher", args.teacher_minutes, 0, args.teacher)
    for seed in args.seeds:
        for side in SIDES if args.copied else SIDES[:2]:
            if (side, args.minutes, seed) not in known:
                add(side, args.minutes, seed, train(args, side, seed))
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
