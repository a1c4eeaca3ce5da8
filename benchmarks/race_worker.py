"""One side of `race.py`, in a process of its own: `python race_worker.py WHAT JOB`, the job as JSON; the last line printed is the
result as JSON."""

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path

SEQ_LEN = 128
# Snapshots of the weights that the loss curve is made of.
SNAPSHOTS = 10


def prepare(job):
    """The text of both sides, its vocabulary, the held-out tokens, and the sizes of the models."""
    from keras_bert_rebuild.config import BertConfig
    from keras_bert_rebuild.data.corpora.documents import hold_out, read_documents
    from keras_bert_rebuild.data.corpora.prepare import prepare as prepare_tokens
    from keras_bert_rebuild.data.corpora.read_corpus import WordCounts
    from keras_bert_rebuild.pretrained.config_files import config_to_huggingface
    from keras_bert_rebuild.recipes.pretraining.recipe import UTILISATION, choose_size, read_recipe
    from keras_bert_rebuild.recipes.settings import size_fields
    from keras_bert_rebuild.recipes.step_costs import matrix_ceiling
    from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary

    folder = Path(job["folder"])
    documents = [document for corpus in job["corpora"] for document in read_documents(corpus)]
    train, held_out = hold_out(documents, every=40)
    seen = {passage for document in train for passage in document}
    held_out = [[passage for passage in document if passage not in seen] for document in held_out]
    words = WordCounts()
    for document in train:
        for passage in document:
            words.add(passage)
    save_vocabulary(train_vocabulary(words.finish(), job["vocab_size"]), folder / "vocab.txt")
    for name, part in (("train", train), ("held_out", held_out)):
        text = "\n\n".join("\n".join(document) for document in part if document)
        (folder / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")
        prepare_tokens(folder / f"{name}.txt", folder / "vocab.txt", folder / f"{name}-tokens", cased=False, workers=1)
    recipe, given = read_recipe("modern"), {"minutes": job["minutes"]}
    size = choose_size(recipe, given, job["vocab_size"], UTILISATION * matrix_ceiling())
    modern = size_fields(recipe.settings(size, given).model)
    bert = {name: modern[name] for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")}
    bert |= {"model_type": "bert", "intermediate_size": 4 * bert["hidden_size"]}
    config = BertConfig.from_dict({**modern, "vocab_size": job["vocab_size"], "pad_token_id": 0})
    (folder / "modern.json").write_text(json.dumps(config_to_huggingface(config)))
    (folder / "bert.json").write_text(json.dumps({**bert, "vocab_size": job["vocab_size"]}))
    return {"train_documents": len(train), "held_out_documents": len(held_out), "size": modern}


def ours(job):
    """Train by a recipe, and score the checkpoints."""
    from keras_bert_rebuild.recipes.pretraining.pretrain_recipe import Quiet, pretrain_recipe

    folder, output = Path(job["folder"]), Path(job["output"])
    shutil.rmtree(output, ignore_errors=True)
    rows = []

    class Rows(Quiet):
        """Keeps the rows of the curve."""

        def training(self, steps):
            """A context manager with the list."""
            return contextlib.nullcontext(rows.append)

    result = pretrain_recipe(
        folder / "train.txt",
        output,
        job["recipe"],
        vocabulary=folder / "vocab.txt",
        processes=1,
        tell=Rows(),
        minutes=job["minutes"],
        model=job["model"],
        seed=job["seed"],
        held_out=0,
        keep_checkpoints=99,
    )
    facts = {"steps": rows[-1]["step"], "tokens": sum(row.get("tokens", 0) for row in rows), "params": result.plan.num_params}
    return {**facts, "curve": _scores_of_run(output / "run", result.plan.config, folder)}


def _scores_of_run(run, config, folder):
    """Seconds, loss and accuracy of every checkpoint of a run."""
    from keras_bert_rebuild.models.build_model import build_model
    from keras_bert_rebuild.training.state.checkpoint import read_checkpoint

    model = build_model(config, ["mlm"])
    found = []
    for path in sorted((run / "checkpoints").glob("step-*")):
        checkpoint = read_checkpoint(path)
        arrays = checkpoint.arrays()
        for weight in model.weights:
            weight.assign(arrays.read(f"weights/{weight.path}"))
        found.append([round(checkpoint.facts["budget"]["seconds"], 1), *_score(model, folder)])
    return found


def score(job):
    """Seconds, loss and accuracy of folders of weights."""
    return [[seconds, *_score(path, Path(job["folder"]))] for seconds, path in job["snapshots"]]


def _score(model, folder):
    from keras_bert_rebuild.data.corpora.token_store import TokenStore
    from keras_bert_rebuild.recipes.pretraining.masked_score import masked_score

    found = masked_score(model, TokenStore(folder / "held_out-tokens"), TokenStore(folder / "train-tokens"), SEQ_LEN)
    return [found.loss, found.accuracy, found.unigram_loss]


def peer(job):
    """Train a model of transformers with its Trainer as its script `run_mlm.py` does, and keep snapshots of the weights."""
    import datasets
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForMaskedLM,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainerCallback,
        TrainingArguments,
        set_seed,
    )

    datasets.disable_progress_bars()
    torch.set_num_threads(job["threads"])
    folder, output = Path(job["folder"]), Path(job["output"])
    shutil.rmtree(output, ignore_errors=True)
    tokenizer = BertTokenizerFast.from_pretrained(str(folder), do_lower_case=True)
    lines = [line for line in (folder / "train.txt").read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = datasets.Dataset.from_dict({"text": lines})
    encoded = texts.map(
        lambda batch: tokenizer(batch["text"], return_special_tokens_mask=True), batched=True, remove_columns=["text"]
    )

    # transformers 5 ignores `vocab_file=` without a word, and then knows no token.
    ids = [i for row in encoded["input_ids"] for i in row]
    unknown = ids.count(tokenizer.unk_token_id) / len(ids)
    if unknown > 0.01:
        sys.exit(f"transformers' tokenizer knows {1 - unknown:.1%} of the tokens: it has not read {folder / 'vocab.txt'}")

    def grouped(batch):
        joined = {name: [item for row in rows for item in row] for name, rows in batch.items()}
        whole = len(joined["input_ids"]) // SEQ_LEN * SEQ_LEN
        return {name: [items[i : i + SEQ_LEN] for i in range(0, whole, SEQ_LEN)] for name, items in joined.items()}

    blocks = encoded.map(grouped, batched=True)
    collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm_probability=0.15)
    values = json.loads((folder / job.get("model", "bert.json")).read_text())

    def trainer(steps, callbacks):
        set_seed(job["seed"])
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(**values))
        arguments = TrainingArguments(
            output_dir=str(output / "trainer"),
            per_device_train_batch_size=job["batch_size"],
            learning_rate=job["learning_rate"],
            warmup_steps=round(job["warmup"] * steps),
            max_steps=steps,
            seed=job["seed"],
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        return Trainer(model=model, args=arguments, train_dataset=blocks, data_collator=collator, callbacks=callbacks)

    class Snapshots(TrainerCallback):
        """Keeps the weights ten times, and the time of the first steps."""

        def __init__(self, steps):
            self.steps, self.found, self.times = steps, [], []

        def on_train_begin(self, args, state, control, **kwargs):
            self.started = time.monotonic()

        def on_step_end(self, args, state, control, model=None, **kwargs):
            self.times.append(time.monotonic() - self.started)
            if state.global_step * SNAPSHOTS // self.steps > (state.global_step - 1) * SNAPSHOTS // self.steps:
                path = output / f"snapshot-{state.global_step:07d}"
                model.save_pretrained(path)
                shutil.copy(folder / "vocab.txt", path / "vocab.txt")
                self.found.append([round(self.times[-1], 1), str(path)])

    measured = Snapshots(1 << 40)
    trainer(MEASURED, [measured]).train()
    half = MEASURED // 2
    step = (measured.times[-1] - measured.times[half]) / (MEASURED - 1 - half)
    steps = max(int(60 * job["minutes"] / step), SNAPSHOTS)
    snapshots = Snapshots(steps)
    trained = trainer(steps, [snapshots])
    trained.train()
    params = sum(parameter.numel() for parameter in trained.model.parameters())
    return {"steps": steps, "tokens": steps * job["batch_size"] * SEQ_LEN, "params": params, "snapshots": snapshots.found}


# Steps whose speed decides how many fit into the minutes; their time is not counted.
MEASURED = 24

if __name__ == "__main__":
    what, job = sys.argv[1], json.loads(sys.argv[2])
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    workers = {each.__name__: each for each in (prepare, ours, score, peer)}
    print(json.dumps(workers[what](job)), flush=True)
