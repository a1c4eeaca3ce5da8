"""Does an encoder of `race.py` read its context, and does transformers' own code give it the same loss?

Command: python benchmarks/race_probe.py MODEL --work RACE --ours PYTHON --peer PYTHON
Time: a minute
Needs: keras with a backend in the first environment; torch and transformers in the second

MODEL is a Hugging Face folder of the race, such as RACE/modern-seed-0/run/model. The masked tokens of the race's held-out text are
predicted by `AutoModelForMaskedLM` of transformers, from

    the text           as the race's evaluator gives it: the loss of our own code is printed beside it
    shuffled           the other tokens of each row in random order: what their order tells is lost
    another text       the other tokens of another row: context that misleads
    nothing            every other token masked: what positions tell

An encoder that saw the answers in any way would keep its loss without the text; one that reads it falls to the unigram's, or below.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from race import worker


def main(args):
    """Run both parts, each in its environment, and print the losses."""
    with tempfile.TemporaryDirectory(prefix="race-probe.") as folder:
        job = {"model": str(args.model.resolve()), "batches": str(Path(folder) / "batches.npz")}
        ours = worker(args.ours, "probe_batches", job, args)
        theirs = worker(args.peer, "probe", {**job, **ours}, args)
    print(f"our code, the text: {ours['loss']:.4f}; unigram: {ours['unigram']:.4f}")
    for name, loss in theirs.items():
        print(f"transformers, {name}: {loss:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--work", type=Path, default=Path("race"), help="the folder of the race")
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with the backend")
    parser.add_argument("--peer", default=sys.executable, help="the interpreter with transformers")
    parser.add_argument("--backend", default="torch", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    main(parser.parse_args())
