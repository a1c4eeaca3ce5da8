"""One contender of `embed.py`: a process that embeds texts on command and waits in between.

Commands are lines on standard input, answers lines of JSON on standard output: `first`, `single`, `all`, `save FILE`.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Name of a contender, and its title.
TITLES = {
    "keras_bert": "keras_bert's way: 4 texts, padded to 512",
    "transformers_32": "transformers, float32, sorted, 32 texts",
    "transformers_tokens": "transformers, float32, sorted, 4096 tokens",
    "transformers_256": "transformers, sorted, 256 texts",
    "transformers_16k": "transformers, sorted, 16,384 tokens",
    "transformers_64k": "transformers, sorted, 65,536 tokens",
    "jax": "ours, JAX",
    "torch": "ours, torch",
    "tensorflow": "ours, TensorFlow, graph, float32",
    "xla": "ours, TensorFlow, XLA, float32",
    "openvino": "ours, OpenVINO, float32",
    "openvino_bf16": "ours, OpenVINO, bfloat16",
    "openvino_int8": "ours, OpenVINO, int8",
}
PEERS = ("transformers_32", "transformers_tokens", "transformers_256", "transformers_16k", "transformers_64k")
# Contenders on a device, where the dtype is an option and not in the title.
ON_DEVICE = ("transformers_256", "transformers_16k", "transformers_64k", "jax", "torch")
# The backend of the others is TensorFlow.
BACKENDS = {"jax": "jax", "torch": "torch"}

# keras_bert's way embeds this part of the texts, so that it finishes.
PART = 25


def keras_bert(work):
    """The loop of keras_bert's `extract_embeddings`, with our model of a static length, which is as fast as its."""
    import keras

    from keras_bert_rebuild import Tokenizer, from_pretrained, load_vocabulary
    from keras_bert_rebuild.tasks.embedding_model import embedding_model

    model = from_pretrained(work / "model", heads=(), seq_len=512)
    pooled = embedding_model(model, ("mean",), normalize=True)
    tokenizer = Tokenizer(load_vocabulary(work / "model" / "vocab.txt"))

    def embed(texts):
        vectors = []
        texts = iter(texts)
        while batch := list(itertools.islice(texts, 4)):
            rows = [tokenizer.encode(text, max_len=512) for text in batch]
            vectors.append(
                keras.ops.convert_to_numpy(pooled.predict_on_batch([np.array(column) for column in zip(*rows, strict=True)]))
            )
        return np.concatenate(vectors)

    return embed


def transformers_sorted(work, batches, device="cpu", dtype="float32"):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "model")
    model = transformers.AutoModel.from_pretrained(work / "model", dtype=getattr(torch, dtype), attn_implementation="sdpa")
    model.to(device).eval()

    def embed(texts):
        ids = tokenizer(texts, truncation=True, max_length=512)["input_ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(ids[i]))
        vectors = np.zeros((len(texts), model.config.hidden_size), "float32")
        for part in batches(order, ids):
            batch = tokenizer.pad({"input_ids": [ids[i] for i in part]}, return_tensors="pt").to(device)
            with torch.inference_mode():
                states = model(**batch).last_hidden_state.float()
                mask = batch["attention_mask"][..., None].float()
                mean = (states * mask).sum(1) / mask.sum(1)
                vectors[part] = torch.nn.functional.normalize(mean).cpu().numpy()
        return vectors

    return embed


def of_texts(order, ids, count=32):
    for start in range(0, len(order), count):
        yield order[start : start + count]


def of_tokens(order, ids, tokens=4096):
    start = 0
    while start < len(order):
        stop = start + max(1, tokens // len(ids[order[start]]))
        yield order[start:stop]
        start = stop


def ours(work, dtype, batch_tokens):
    """With the defaults of the device that the backend finds, or other batches."""
    from keras_bert_rebuild import EmbeddingStream, from_pretrained, load_tokenizer

    policy = {"float32": None, "bfloat16": "mixed_bfloat16"}[dtype]
    model = from_pretrained(work / "model", heads=(), dtype=policy)
    return EmbeddingStream.from_model(model, load_tokenizer(work / "model"), normalize=True, batch_tokens=batch_tokens)


def graph(work, xla=False):
    from keras_bert_rebuild import EmbeddingStream, from_pretrained, load_tokenizer
    from keras_bert_rebuild.tasks.embedding_model import embedding_model

    model = from_pretrained(work / "model", heads=())
    embedding_model(model, ("mean",), True, any_length=True).jit_compile = xla
    return EmbeddingStream.from_model(model, load_tokenizer(work / "model"), normalize=True)


def openvino(work, folder, precision="f32"):
    from keras_bert_rebuild import EmbeddingStream
    from keras_bert_rebuild.export.openvino import OpenVINORunner

    runner = OpenVINORunner(work / folder, precision)
    return EmbeddingStream(runner, runner.tokenizer, runner.max_len)


# Functions of a folder, for those in `ON_DEVICE` also of torch's name of the device and the dtype.
LOAD = {
    "transformers_256": lambda work, *on: transformers_sorted(work, lambda order, ids: of_texts(order, ids, 256), *on),
    "transformers_16k": lambda work, *on: transformers_sorted(work, lambda order, ids: of_tokens(order, ids, 16384), *on),
    "transformers_64k": lambda work, *on: transformers_sorted(work, lambda order, ids: of_tokens(order, ids, 65536), *on),
    "jax": lambda work, _, *options: ours(work, *options),
    "torch": lambda work, _, *options: ours(work, *options),
    "keras_bert": keras_bert,
    "transformers_32": lambda work: transformers_sorted(work, of_texts),
    "transformers_tokens": lambda work: transformers_sorted(work, of_tokens),
    "tensorflow": graph,
    "xla": lambda work: graph(work, xla=True),
    "openvino": lambda work: openvino(work, "openvino"),
    "openvino_bf16": lambda work: openvino(work, "openvino", "bf16"),
    "openvino_int8": lambda work: openvino(work, "openvino_int8"),
}


def main(name, work, device, dtype, batch_tokens):
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print, too
    texts = json.loads((work / "texts.json").read_text(encoding="utf-8"))
    mine = texts[::PART] if name == "keras_bert" else texts
    single = mine[:: max(1, len(mine) // 60)]
    options = (int(batch_tokens) or None,) if name in BACKENDS else ()
    embed = LOAD[name](work, *((device, dtype, *options) if name in ON_DEVICE else ()))
    vectors = None
    for line in sys.stdin:
        command, *arguments = line.split()
        started, processor = time.perf_counter(), time.process_time()
        if command == "first":
            embed(texts[:1])
        elif command == "single":
            seconds = []
            for text in single:
                begun = time.perf_counter()
                embed([text])
                seconds.append(time.perf_counter() - begun)
            print(json.dumps({"seconds": seconds}), file=answers, flush=True)
            continue
        elif command == "all":
            vectors = embed(mine)
        else:
            np.save(arguments[0], vectors)
        result = {"seconds": time.perf_counter() - started, "processor": time.process_time() - processor, "texts": len(mine)}
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
