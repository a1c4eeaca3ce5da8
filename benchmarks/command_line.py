"""How long `keras-bert` takes to answer: every verb's help, a typo, a missing file, and the first own line of its work.

Command: KERAS_BACKEND=tensorflow python benchmarks/command_line.py [--source FOLDER] [--work FOLDER] [--only VERB ...]

Each is a process of its own on a terminal, from --source (this working tree). Seconds are of the processor, of all threads, so
that other programs on the machine do not count. "first line" counts from the end of the import of
the backend and the package, which is measured once; "noise" are lines of a library's log. Inputs are made by the verbs themselves,
from a few generated sentences, and kept in --work.
"""

import argparse
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = "import sys, keras_bert_command; sys.exit(keras_bert_command.main())"
RUN = ("--steps", 6, "--batch-size", 8, "--seq-len", 16, "--workers", 0, "--tensorboard", "no", "--log-steps", 1, "--held-out", 0)

PAIRS = ("--train", "pairs.jsonl", "--dev", "pairs.jsonl")
CLASSIFY = ("classification", "--model", "run/model", "--train", "train.tsv", "--dev", "train.tsv")

# What makes the inputs, in this order: the verb, its arguments. Names are those of the first release, which every version takes.
INPUTS = (
    ("vocab", "corpus.txt", "--size", 200, "--output", "vocab.txt"),
    ("prepare", "corpus.txt", "--vocab", "vocab.txt", "--output", "tokens", "--workers", 1),
    ("pretrain", "tokens", "--output", "run", "--model", "tiny", *RUN),
    ("finetune", *CLASSIFY, "--output", "task", "--epochs", 1),
    ("finetune", "retrieval", "--model", "run/model", *PAIRS, "--output", "embedder", "--epochs", 1),
    ("index", "corpus.txt", "--model", "embedder/model", "--output", "index"),
)

# What is measured: the verb, its arguments, and those with a file that is missing.
VERBS = (
    ("demo", ("--steps", 5, "--corpus", "books", "--output", "@demo"), ("--corpus", "missing")),
    ("vocab", ("corpus.txt", "--size", 200, "--output", "@vocab.txt"), ("missing", "--output", "@v.txt")),
    (
        "prepare",
        ("corpus.txt", "--vocab", "vocab.txt", "--output", "@tokens"),
        ("missing", "--vocab", "vocab.txt", "--output", "@t"),
    ),
    ("pretrain", ("tokens", "--output", "@run", "--model", "tiny", *RUN), ("missing", "--output", "@r")),
    ("distill", ("run/model", "tokens", "--output", "@small", *RUN), ("missing", "tokens", "--output", "@s")),
    (
        "finetune",
        (*CLASSIFY, "--output", "@task", "--epochs", 1),
        ("classification", "--model", "run/model", "--train", "missing.tsv", "--dev", "train.tsv", "--output", "@t"),
    ),
    (
        "predict",
        ("--model", "task", "--input", "train.tsv", "--output", "@a.jsonl"),
        ("--model", "task", "--input", "missing.tsv", "--output", "@a.jsonl"),
    ),
    ("curves", ("run", "--output", "@c.svg"), ("missing",)),
    (
        "prune",
        ("task", "--heads", 0.4, "--data", "train.tsv", "--output", "@pruned"),
        ("task", "--heads", 0.4, "--data", "missing.tsv", "--output", "@pruned"),
    ),
    ("plan", ("base",), ("missing.json",)),
    ("convert", ("run/model", "@google", "--to", "google"), ("missing", "@g", "--to", "google")),
    (
        "embed",
        ("two.txt", "--model", "run/model", "--output", "@v.npy"),
        ("missing.txt", "--model", "run/model", "--output", "@v.npy"),
    ),
    (
        "index",
        ("corpus.txt", "--model", "embedder/model", "--output", "@index"),
        ("missing.txt", "--model", "embedder/model", "--output", "@index"),
    ),
    ("search", ("index", "the boat"), ("missing", "the boat")),
    (
        "mine",
        ("pairs.jsonl", "--model", "embedder/model", "--output", "@m.jsonl"),
        ("missing.jsonl", "--model", "embedder/model", "--output", "@m.jsonl"),
    ),
    ("export", ("run/model", "--output", "@folder", "--format", "huggingface"), ("missing", "--output", "@folder")),
    ("inspect", ("run/model",), ("missing",)),
    ("explain", ("run/model",), ("missing",)),
    ("explain-text", ("the boat", "--model", "run/model"), ("the boat", "--model", "missing")),
    ("lens", ("run/model", "the [MASK] sat"), ("missing", "the [MASK] sat")),
    (
        "probe",
        ("run/model", "--train", "train.tsv", "--dev", "train.tsv"),
        ("run/model", "--train", "missing.tsv", "--dev", "train.tsv"),
    ),
    ("cka", ("run/model", "--texts", "two.txt"), ("run/model", "--texts", "missing.txt")),
    ("why", ("task", "the boat sat"), ("missing", "the boat sat")),
    (
        "attention",
        ("the boat sat", "--model", "run/model", "--output", "@a.html"),
        ("the boat", "--model", "missing", "--output", "@a.html"),
    ),
)

CONTROL = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|[\s\x07]")
NOISE = re.compile(
    rb"^(.*[IWEF]\d{4} [\d:.]+ |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] |WARNING:|.*(Warning|warn)[:(])",
    re.M,
)


def run(arguments, args, folder, code=COMMAND):
    """Run Python on a terminal: CPU seconds to the first visible character, all of them, the exit code and what was shown."""
    main, side = pty.openpty()
    first, shown = None, b""
    environment = os.environ | {"PYTHONPATH": str(args.source), "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdin=side, stdout=side, stderr=side, cwd=folder, env=environment
    )
    os.close(side)
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # closed by the process
            break
        shown += part
        if first is None and CONTROL.sub(b"", shown):
            first = cpu_seconds(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    os.close(main)
    return first, usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status), shown


def cpu_seconds(process):
    """What a process has used until now; Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median(arguments, args, folder, rounds=3, **kwargs):
    """The median of all CPU seconds."""
    return statistics.median(run(arguments, args, folder, **kwargs)[1] for _ in range(rounds))


def make_inputs(folder, args):
    """Write the inputs."""
    words = [
        "the",
        "boat",
        "sat",
        "by",
        "a",
        "river",
        "and",
        "the",
        "cat",
        "saw",
        "it",
        "in",
        "old",
        "rain",
        "while",
        "birds",
        "sang",
        "to",
        "wind",
        "on",
        "hills",
    ]
    lines = [" ".join(words[(i * j + j) % len(words)] for j in range(1, 10)) for i in range(400)]
    (folder / "corpus.txt").write_text("\n".join(f"{line}\n" if i % 5 == 4 else line for i, line in enumerate(lines)) + "\n")
    (folder / "books").mkdir()
    (folder / "books" / "a.txt").write_text((folder / "corpus.txt").read_text())
    (folder / "two.txt").write_text("the boat\nthe cat\n")
    (folder / "train.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t{'ab'[i % 2]}\n" for i, line in enumerate(lines[:40])))
    (folder / "pairs.jsonl").write_text(
        "".join(f'{{"query": "{a}", "positive": "{b}"}}\n' for a, b in zip(lines[:8], lines[8:16], strict=True))
    )
    for arguments in INPUTS:
        _, _, code, shown = run(arguments, args, folder)
        if code:
            raise SystemExit(f"{arguments}: {shown.decode(errors='replace')}")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--work", type=Path, help="folder of inputs and of what is shown, made if it is missing")
    parser.add_argument("--only", nargs="+", metavar="VERB")
    args = parser.parse_args()
    args.source = args.source.resolve()
    work = args.work or Path(tempfile.mkdtemp())
    if not (work / "index").exists():
        work.mkdir(parents=True, exist_ok=True)
        make_inputs(work, args)
    interpreter = median((), args, work, code="pass")
    imported = median((), args, work, code="import keras_bert_rebuild.cli.main")
    version = median(("--version",), args, work)
    whole = median(("--help",), args, work)
    print(
        f"interpreter {interpreter:.2f} s, --version {version:.2f}, --help {whole:.2f}, import of backend and package "
        f"{imported:.2f}"
    )
    print(f"{'verb':<13}{'help':>6}{'typo':>6}{'missing':>9}{'first line':>12}{'all':>7}  code  noise")
    for verb, arguments, missing in VERBS:
        if args.only and verb not in args.only:
            continue
        with tempfile.TemporaryDirectory() as out:
            placed = [str(a).replace("@", f"{out}/") if str(a).startswith("@") else a for a in arguments]
            lost = [str(a).replace("@", f"{out}/") if str(a).startswith("@") else a for a in missing]
            first, seconds, code, shown = run((verb, *placed), args, work)
            (work / f"shown-{verb}.txt").write_bytes(shown)
            gone = run((verb, *lost), args, work)
            (work / f"missing-{verb}.txt").write_bytes(gone[3])
        times = (median((verb, "--help"), args, work), median((verb, "--hepl"), args, work))
        after = (seconds if first is None else first) - imported
        noise = len(NOISE.findall(shown)) + len(NOISE.findall(gone[3]))
        print(
            f"{verb:<13}{times[0]:>6.2f}{times[1]:>6.2f}{gone[1]:>6.2f} ({gone[2]}){after:>9.2f}{seconds:>10.2f}  "
            f"{code:>4}  {noise}",
            flush=True,
        )


if __name__ == "__main__":
    main()
