"""A classifier fine-tuned by transformers as in its documentation, or with one change: for `finetune.py`, `heads.py`.

`AutoModelForSequenceClassification.from_pretrained` draws the head, its tokenizer cuts the texts, a `DataLoader` shuffles them,
`DataCollatorWithPadding` pads to the longest of a batch, the model is in train mode from the first step; AdamW, its linear
schedule and the clipping have the settings of the job, like ours.
"""

import time

import numpy as np
import torch
import transformers
from finetune_worker import minilm, read, settings_of

# The possible changes; see `heads.py`.
BASE = {"init": "normal", "head_rate": 1.0, "dropout": 0.1, "order": "random"}


def train_own(job, changes=()):
    """Scores of the best epoch on dev, or of the last one if the job evaluates only at the end."""
    how = {**BASE, **dict(changes)}
    settings, examples = settings_of(job), read(job, job["data"])
    torch.set_num_threads(job["threads"])
    transformers.set_seed(settings.seed)
    labels = {label: i for i, label in enumerate(sorted({example.label for example in examples["train"]}))}
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    collate = transformers.DataCollatorWithPadding(tokenizer)
    model = _model(len(labels), how)
    rows = {part: [_row(tokenizer, example, labels, settings.max_len) for example in found] for part, found in examples.items()}
    steps = settings.epochs * -(-len(rows["train"]) // settings.batch_size)
    groups = _groups(model, settings.weight_decay, settings.learning_rate, how["head_rate"])
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, eps=1e-6, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(settings.warmup * steps), steps)
    best, seconds = None, 0.0
    for epoch in range(settings.epochs):
        started = time.perf_counter()
        for batch in _batches(rows["train"], how["order"], settings.batch_size, collate):
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        seconds += time.perf_counter() - started
        if epoch + 1 < settings.epochs and settings.evaluate_steps:
            continue
        dev = _accuracy(model, rows["dev"], collate)
        if best is None or dev > best["dev"]["accuracy"]:
            test = _accuracy(model, rows["test"], collate)
            best = {"dev": {"accuracy": dev}, "test": {"accuracy": test}, "metric": "accuracy", "best_epoch": epoch}
    return {**best, "train_seconds": seconds, "steps": steps}


def _row(tokenizer, example, labels, max_len):
    return {**tokenizer(example.text, truncation=True, max_length=max_len), "labels": labels[example.label]}


def _model(labels, how):
    """The model with a new head, in train mode."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=labels)
    kernel = model.classifier.weight
    named = {"zeros": 0.0, "wide": kernel.shape[1] ** -0.5}
    with torch.no_grad():
        if how["init"] == "truncated":
            torch.nn.init.trunc_normal_(kernel, std=0.02, a=-0.04, b=0.04)
        elif how["init"] != "normal":
            kernel.normal_(std=named[how["init"]] if how["init"] in named else float(how["init"]))
    model.dropout.p = how["dropout"]
    return model.train()


def _groups(model, weight_decay, rate, head_rate):
    """Groups of parameters for AdamW, by rate and decay; biases and norms do not decay."""
    groups = {}
    for name, parameter in model.named_parameters():
        decays = not (name.endswith("bias") or "LayerNorm" in name)
        factor = head_rate if name.startswith("classifier.") else 1.0
        groups.setdefault((decays, factor), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": weight_decay if decays else 0.0, "lr": rate * factor}
        for (decays, factor), parameters in groups.items()
    ]


def _batches(rows, order, size, collate):
    """The batches of an epoch."""
    if order == "random":
        return torch.utils.data.DataLoader(rows, batch_size=size, shuffle=True, collate_fn=collate)
    shuffled = torch.randperm(len(rows)).numpy()
    by_length = shuffled[np.argsort([len(rows[i]["input_ids"]) for i in shuffled], kind="stable")]
    parts = [by_length[i : i + size] for i in range(0, len(rows), size)]
    return (collate([rows[i] for i in parts[number]]) for number in torch.randperm(len(parts)))


def _accuracy(model, rows, collate):
    """The fraction of rows whose label is the most probable one; the model stays in train mode."""
    rows = sorted(rows, key=_length)
    model.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(rows), 128):
            batch = collate(rows[i : i + 128])
            labels = batch.pop("labels")
            right += int((model(**batch).logits.argmax(1) == labels).sum())
    model.train()
    return right / len(rows)


def _length(row):
    return len(row["input_ids"])
