"""How long `keras-bert` takes to answer: every verb's help, a typo, a missing file, and the first own line of its work.

Command: KERAS_BACKEND=tensorflow python benchmarks/command_line.py [--source FOLDER] [--work FOLDER] [--only VERB ...]

Each is a process of its own on a terminal, from --source (this working tree). Seconds are of the processor, of all threads, so
that other programs on the machine do not count. "sign" is the first character on the terminal, "then" the
first that follows the line about the import, counted from the end of the import of the backend and the package, which is measured
once; "noise" are lines of a library's log. Inputs are made by the verbs themselves, from a few generated sentences, and kept in
--work.
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
    ("plan", ("base", "--gpu", "l4"), ("missing.json", "--gpu", "l4")),
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
    ("why", ("task", "the boat sat"), ("missing", "the boat sat")),
    (
        "attention",
        ("the boat sat", "--model", "run/model", "--output", "@a.html"),
        ("the boat", "--model", "missing", "--output", "@a.html"),
    ),
)

CONTROL = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|[\s\x07]")
# What is said before the import, without white space.
BEFORE = re.compile(rb".*[Ii]mportingKerasanditsbackend\.\.\.")
NOISE = re.compile(
    rb"^(.*[IWEF]\d{4} [\d:.]+ |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] |WARNING:|.*(Warning|warn)[:(])",
    re.M,
)


def run(arguments, args, folder, code=COMMAND):
    """Run Python on a terminal: CPU seconds to the first visible character and to that after the line about the import, all of
    them, the exit code and what was shown."""
    main, side = pty.openpty()
    first, then, shown = None, None, b""
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
        visible = CONTROL.sub(b"", shown) if then is None else b""
        if first is None and visible:
            first = cpu_seconds(process.pid)
        if then is None and BEFORE.sub(b"", visible, count=1):
            then = cpu_seconds(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    os.close(main)
    return first, then, usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status), shown


def cpu_seconds(process):
    """What a process has used until now; Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median(arguments, args, folder, rounds=3, **kwargs):
    """The median of all CPU seconds."""
    return statistics.median(run(arguments, args, folder, **kwargs)[2] for _ in range(rounds))


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
    numbered = "\n".join(f"{line} {i}\n" if i % 5 == 4 else f"{line} {i}" for i, line in enumerate(lines))
    (folder / "books" / "a.txt").write_text(numbered)
    (folder / "two.txt").write_text("the boat\nthe cat\nold rain\nbirds sang\n")
    (folder / "train.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t{'ab'[i % 2]}\n" for i, line in enumerate(lines[:40])))
    (folder / "pairs.jsonl").write_text(
        "".join(f'{{"query": "{a}", "positive": "{b}"}}\n' for a, b in zip(lines[:8], lines[8:16], strict=True))
    )
    for arguments in INPUTS:
        *_, code, shown = run(arguments, args, folder)
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
    print(f"{'verb':<13}{'help':>6}{'typo':>6}{'missing':>10}{'sign':>6}{'then':>7}{'all':>7}  code  noise")
    for verb, arguments, missing in VERBS:
        if args.only and verb not in args.only:
            continue
        with tempfile.TemporaryDirectory() as out:
            placed = [str(a).replace("@", f"{out}/") if str(a).startswith("@") else a for a in arguments]
            lost = [str(a).replace("@", f"{out}/") if str(a).startswith("@") else a for a in missing]
            first, then, seconds, code, shown = run((verb, *placed), args, work)
            (work / f"shown-{verb}.txt").write_bytes(shown)
            gone = run((verb, *lost), args, work)
            (work / f"missing-{verb}.txt").write_bytes(gone[-1])
        times = (median((verb, "--help"), args, work), median((verb, "--hepl"), args, work))
        after = (seconds if then is None else then) - imported
        noise = len(NOISE.findall(shown)) + len(NOISE.findall(gone[-1]))
        print(
            f"{verb:<13}{times[0]:>6.2f}{times[1]:>6.2f}{gone[2]:>6.2f} ({gone[3]}){first or seconds:>6.2f}{after:>7.2f}"
            f"{seconds:>7.2f}  {code:>4}  {noise}",
            flush=True,
        )


if __name__ == "__main__":
    main()
