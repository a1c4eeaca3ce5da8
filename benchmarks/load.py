"""Loading BERT-base from a Hugging Face folder and a Google checkpoint, and a first prediction: time and memory, with peers.

Command: python benchmarks/load.py --peer transformers=PYTHON --peer keras_hub=PYTHON --rounds 3
Time: two minutes on two cores

PYTHON is the interpreter of an environment that has the peer. Every load runs in a separate process, in turn with the others, on
files that were just read, so that the disk does not matter. The first prediction, for eight tokens, is timed too, since
transformers maps the file and reads it only then. Memory is the highest resident set of the process, up to the end of the load and
up to the prediction, beyond what it was after the imports and a first small variable, divided by the bytes of the weights; the
loaded model itself takes 1.0 of that.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# A variable of four million numbers, filled twice: it starts the threads and allocators of the backend.
START = "import keras, numpy; v = keras.Variable(numpy.ones((2000, 2000))); v.assign(numpy.zeros((2000, 2000))); del v"

# The program of a process: the imports, and the load, which is timed. {folder} is the model.
LOADS = {
    "ours": (
        f"from keras_bert_rebuild import from_pretrained; {START}",
        "model = from_pretrained({folder!r}, heads=['pooler'])",
        "ids = numpy.ones((1, 8), int); model([ids, ids * 0], training=False)",
    ),
    "transformers": (
        "import torch; from transformers import BertModel",
        "model = BertModel.from_pretrained({folder!r})",
        "ids = torch.ones((1, 8), dtype=int); model(ids)",
    ),
    "keras_hub": (
        f"import keras_hub; {START}",
        "model = keras_hub.models.BertBackbone.from_preset({folder!r})",
        "ids = numpy.ones((1, 8), int); model({{'token_ids': ids, 'segment_ids': ids * 0, 'padding_mask': ids}})",
    ),
    "read": (
        "from pathlib import Path",
        "data = [p.open('rb').read() for p in Path({folder!r}).iterdir() if p.stat().st_size > 1e6]",
        "",
    ),
}

SCRIPT = """
import json, os, resource, time
{imports}
pages = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
open("/proc/self/clear_refs", "w").write("5")  # reset the peak resident set
started = time.perf_counter()
{load}
loaded = time.perf_counter() - started

def extra():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) * 1024 - pages

of_load = extra()
started = time.perf_counter()
{answer}
answered = loaded + time.perf_counter() - started
print(json.dumps({{"loaded": loaded, "of_load": of_load, "answered": answered, "of_answer": extra()}}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="transformers or keras_hub")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    peers = dict(peer.split("=", 1) for peer in args.peer)
    with tempfile.TemporaryDirectory() as folder:
        size = make_checkpoints(Path(folder))
        runs = [
            ("read", sys.executable, "huggingface"),
            ("ours", sys.executable, "huggingface"),
            ("ours", sys.executable, "google"),
        ]
        runs += [(name, python, "huggingface") for name, python in peers.items()]
        results = {run: [] for run in runs}
        for _ in range(args.rounds):
            for run in runs:
                name, python, format = run
                results[run].append(measure(name, python, Path(folder) / format))
    print(f"{os.environ.get('KERAS_BACKEND', 'tensorflow')}, BERT-base with its pooler, {size / 1e6:.0f} MB, {args.rounds} rounds")
    for (name, _, format), measured in results.items():
        loaded, of_load, answered, of_answer = (statistics.median(m[kind] for m in measured) for kind in measured[0])
        print(
            f"  {name:<13} {format:<12} loaded {loaded:5.2f} s, memory {of_load / size:4.2f}   "
            f"answered {answered:5.2f} s, memory {of_answer / size:4.2f}"
        )


def make_checkpoints(folder):
    """Save BERT-base with random weights in both formats; returns the bytes of its weights."""
    from keras_bert_rebuild import BertConfig, build_model, save_pretrained

    model = build_model(BertConfig(hidden_act="gelu_erf"), ["pooler"])
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(30517))]
    for format in ("huggingface", "google"):
        save_pretrained(model, folder / format, format, vocabulary=words)
    return model.count_params() * 4


def measure(name, python, folder):
    imports, load, answer = (part.format(folder=str(folder)) for part in LOADS[name])
    script = SCRIPT.format(imports=imports, load=load, answer=answer)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
