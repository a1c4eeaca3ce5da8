"""One contender of pretrain_step.py in a separate process: it builds a model and trains on command.

The process is given a job as its argument, a dictionary in JSON, and answers every line of its standard input, `ceiling` or
`run BEGIN END` with numbers of batches, with a line of JSON.
"""

import importlib.metadata
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

RATE, WEIGHT_DECAY, EPSILON = 1e-4, 0.01, 1e-6

# Name of a contender, and its name in the table.
TITLES = {
    "tensorflow": "ours, TensorFlow",
    "jax": "ours, JAX",
    "torch": "ours, torch",
    "transformers": "transformers",
    "keras_hub": "KerasHub, MLM only",
}
# Device and name of a contender, and the ways to run it, the fastest first.
WAYS = {
    "cpu": {
        "tensorflow": ("graph", "XLA"),
        "jax": ("XLA",),
        "torch": ("eager",),
        "transformers": ("eager", "torch.compile"),
        "keras_hub": ("graph", "XLA"),
    },
    "gpu": {
        "tensorflow": ("XLA", "graph"),
        "jax": ("XLA",),
        "torch": ("eager",),
        "transformers": ("torch.compile", "eager"),
        "keras_hub": ("XLA", "graph"),
    },
}
# Name of a contender, and the packages whose versions are reported.
VERSIONS = {
    "tensorflow": ("keras", "tensorflow"),
    "jax": ("keras", "jax"),
    "torch": ("keras", "torch"),
    "transformers": ("transformers", "torch"),
    "keras_hub": ("keras-hub", "keras", "tensorflow"),
}


def write_batches(path, batches):
    """Batches of a `PretrainingBatches` as an .npz file."""
    arrays = {}
    for i, ((tokens, segments, chosen, *numbers), y) in enumerate(batches):
        labels, following = y if isinstance(y, tuple) else (y, np.zeros((len(tokens), 1), "int32"))
        named = {"tokens": tokens, "segments": segments, "chosen": chosen, "labels": labels[..., 0], "next": following}
        named |= {"numbers": numbers[0]} if numbers else {}
        arrays.update({f"{i}/{name}": array for name, array in named.items()})
    np.savez(path, count=len(batches), **arrays)


def read_batches(path):
    """The batches of an .npz file, each the arrays by name."""
    with np.load(path) as file:
        names = ("tokens", "segments", "chosen", "labels", "next", "numbers")
        return [{name: file[f"{i}/{name}"] for name in names if f"{i}/{name}" in file} for i in range(file["count"])]


def make_ours(job, batches):
    """Ours: `fit` over the batches, the MLM head at the masked positions, and the NSP head where there are pairs."""
    import keras

    from keras_bert_rebuild import BertConfig, build_model, compile_model
    from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW

    dropouts = {"hidden_dropout_prob": job["dropout"], "attention_probs_dropout_prob": job["dropout"]}
    packed = "numbers" in batches[0]
    model = build_model(BertConfig(**job["size"], **dropouts), ["mlm", "nsp"] if job["pairs"] else ["mlm"], packed=packed)
    optimizer = AdamW(RATE, weight_decay=WEIGHT_DECAY, epsilon=EPSILON)
    compile_model(model, optimizer=optimizer, max_predictions=job["max_predictions"], metrics=None, jit_compile=job["way"] == "XLA")

    def as_ours(batch):
        labels = batch["labels"][..., None]
        x = batch["tokens"], batch["segments"], batch["chosen"], *([batch["numbers"]] if packed else [])
        return x, (labels, batch["next"]) if job["pairs"] else labels

    def run(chosen):
        made = [as_ours(batch) for batch in chosen]
        if keras.backend.backend() == "tensorflow":
            data = tensorflow_dataset(made, {batch["tokens"].shape[1] for batch in batches})
        else:
            data = py_dataset(made)
        return model.fit(data, shuffle=False, verbose=0).history["loss"][-1]

    return run


def make_keras_hub(job, batches):
    """KerasHub's `BertMaskedLM`, which has no NSP: `fit` over batches as its preprocessor makes them, padded to one length."""
    import keras
    import keras_hub

    size = job["size"]
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=size["vocab_size"],
        num_layers=size["num_hidden_layers"],
        num_heads=size["num_attention_heads"],
        hidden_dim=size["hidden_size"],
        intermediate_dim=size["intermediate_size"],
        max_sequence_length=size["max_position_embeddings"],
        dropout=job["dropout"],
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=WEIGHT_DECAY, epsilon=EPSILON)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, weighted_metrics=None, jit_compile=job["way"] == "XLA")

    def as_theirs(batch):
        slots = np.argsort(-batch["chosen"], axis=1, kind="stable")[:, : job["max_predictions"]].astype("int32")
        x = {"token_ids": batch["tokens"], "segment_ids": batch["segments"], "padding_mask": (batch["tokens"] != 0).astype("int32")}
        labels, weights = (np.take_along_axis(batch[name], slots, axis=1) for name in ("labels", "chosen"))
        return x | {"mask_positions": slots}, labels, weights.astype("float32")

    def run(chosen):
        data = tensorflow_dataset([as_theirs(batch) for batch in chosen], {batch["tokens"].shape[1] for batch in batches})
        return model.fit(data, verbose=0).history["loss"][-1]

    return run


def py_dataset(batches):
    """A `PyDataset` of a list of batches."""
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(batches)

        def __getitem__(self, index):
            return batches[index]

    return Batches()


def tensorflow_dataset(batches, lengths):
    """A `tf.data.Dataset` of a list of batches; the second dimension of their arrays is declared only by these lengths."""
    import tensorflow as tf

    def spec(array):
        shape = list(array.shape)
        if len(lengths) > 1 and shape[1:2] and shape[1] in lengths:
            shape[1] = None
        return tf.TensorSpec(shape, array.dtype)

    data = tf.data.Dataset.from_generator(lambda: batches, output_signature=tf.nest.map_structure(spec, batches[0]))
    options = tf.data.Options()
    # The thread that tunes a pipeline sleeps for longer and longer, and a finished iterator waits for it to wake up.
    options.autotune.enabled = False
    return data.apply(tf.data.experimental.assert_cardinality(len(batches))).with_options(options)


def make_transformers(job, batches):
    """transformers' `BertForPreTraining`, without pairs `BertForMaskedLM`: SDPA, autocast, fused AdamW, padded to the longest."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, BertConfig

    torch.set_num_threads(job["threads"])
    if job["device"] == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, the default of JAX
    dropouts = {"hidden_dropout_prob": job["dropout"], "attention_probs_dropout_prob": job["dropout"]}
    config = BertConfig(**job["size"], **dropouts, hidden_act="gelu_pytorch_tanh")
    kind = AutoModelForPreTraining if job["pairs"] else AutoModelForMaskedLM
    model = kind.from_config(config, attn_implementation="sdpa").to(job["device"]).train()
    groups = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[name.endswith("bias") or "LayerNorm" in name].append(weight)
    groups = [{"params": weights, "weight_decay": 0.0 if bare else WEIGHT_DECAY} for bare, weights in groups.items()]
    optimizer = torch.optim.AdamW(groups, RATE, eps=EPSILON, fused=True)
    forward = torch.compile(model) if "compile" in job["way"] else model

    def as_theirs(batch):
        real = batch["tokens"] != 0
        longest = int(real.sum(1).max())
        labels = np.where(batch["chosen"] != 0, batch["labels"], -100)
        arrays = {"input_ids": batch["tokens"], "token_type_ids": batch["segments"], "labels": labels}
        if not real[:, :longest].all():  # without a mask SDPA may take its flash kernel
            arrays["attention_mask"] = real
        arrays = {name: array[:, :longest] for name, array in arrays.items()}
        if job["pairs"]:
            arrays["next_sentence_label"] = batch["next"][:, 0]
        return {name: torch.from_numpy(array.astype("int64")).to(job["device"]) for name, array in arrays.items()}

    def run(chosen):
        losses = []
        for batch in chosen:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(job["device"], torch.bfloat16, enabled=job["dtype"] == "bfloat16"):
                loss = forward(**as_theirs(batch)).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return float(torch.stack(losses).mean())  # waits for the device

    return run


MAKERS = {
    **dict.fromkeys(("tensorflow", "jax", "torch"), make_ours),
    "keras_hub": make_keras_hub,
    "transformers": make_transformers,
}


def peak_memory(job):
    """The peak memory so far, bytes: allocated on the device, or the highest resident set of the process."""
    if job["device"] == "cuda":
        if job["contender"] == "jax":
            import jax

            return jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
        import torch

        return torch.cuda.max_memory_allocated()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def processor_seconds():
    """Processor time of the machine that was not idle, and of this process."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]]
    busy = sum(ticks[:8]) - ticks[3] - ticks[4]  # neither idle nor waiting for a disk
    return busy / os.sysconf("SC_CLK_TCK"), time.process_time()


def timed(run, batches):
    """The result of a run, and its time and memory."""
    started, (busy, own) = time.perf_counter(), processor_seconds()
    loss = run(batches)
    seconds, (busy_after, own_after) = time.perf_counter() - started, processor_seconds()
    own = own_after - own
    others = max(busy_after - busy - own, 0) / (seconds * os.cpu_count())
    return {"loss": loss, "seconds": seconds, "processor": own, "others": others}


def main():
    job = json.loads(sys.argv[1])
    # The output of libraries goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    is_keras = job["contender"] != "transformers"
    if is_keras:
        import keras

        keras.config.set_dtype_policy("mixed_bfloat16" if job["dtype"] == "bfloat16" else "float32")
        keras.utils.set_random_seed(0)
    batches = read_batches(job["data"])
    run = MAKERS[job["contender"]](job, batches)
    # Programs are compiled for every shape, except by torch, which compiles for any length once it has seen a second one.
    shapes = {batch["tokens"].shape if is_keras else int((batch["tokens"] != 0).sum(1).max()): batch for batch in batches}
    first = list(shapes.values())[: None if is_keras else 2]
    run([*first, first[0]])
    versions = {name: importlib.metadata.version(name) for name in VERSIONS[job["contender"]]}
    answer(versions=versions)
    for words in map(str.split, sys.stdin):
        if words[0] == "run":
            taken = timed(run, batches[int(words[1]) : int(words[2])] * int(words[3]))
            answer(**taken, peak=peak_memory(job))
        elif words[0] == "ceiling":
            from keras_bert_rebuild.recipes.step_costs import matrix_ceiling

            answer(flops=matrix_ceiling(job["dtype"]))


if __name__ == "__main__":
    main()
