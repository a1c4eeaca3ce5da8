"""A run of `keras-bert pretrain`, and the same training in transformers: from the same weights, with the same batches and schedule.

Command, the last line in an environment with torch and transformers, and KERAS_BACKEND=torch:

    python benchmarks/pretrain_beside_transformers.py start TOKENS START --size mini
    keras-bert pretrain TOKENS --output RUN --init START --dtype float32 --steps N ...
    python benchmarks/pretrain_beside_transformers.py compare TOKENS RUN

Time: that of the run, and somewhat more for transformers.

`start` draws the weights that both start from. `compare` reads the settings of the run, trains `BertForPreTraining` with torch's
AdamW and transformers' linear schedule on the batches of the run, writes `transformers.csv` next to `metrics.csv`,
and prints both at the same steps. Its dropout draws differ. Its MLM head, too, is computed at the masked positions only, to
save time.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

import numpy as np

COLUMNS = ("step", "mlm_loss", "pair_loss", "held_out_mlm_loss", "held_out_pair_loss", "tokens_per_second")


def start(tokens, folder, size, seed):
    """Write a new model as a Hugging Face folder."""
    import keras

    from keras_bert_rebuild import BertConfig, TokenStore, build_model, save_pretrained
    from keras_bert_rebuild.recipes.settings import SIZES

    vocabulary = list(TokenStore(tokens).vocabulary)
    keras.utils.set_random_seed(seed)
    model = build_model(BertConfig(**SIZES[size], vocab_size=len(vocabulary)), ["mlm", "nsp"])
    save_pretrained(model, folder, "huggingface", vocabulary=vocabulary)
    print(f"{model.count_params():,} parameters in {folder}")


def compare(tokens, run):
    """Train as the run did, and print both curves."""
    import torch
    import transformers

    from keras_bert_rebuild import TokenStore
    from keras_bert_rebuild.data.corpora.held_out import split_documents
    from keras_bert_rebuild.recipes.pretraining.pretrain import held_out_batches, training_batches
    from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
    from keras_bert_rebuild.recipes.run_folder import read_yaml

    values = read_yaml(run / "settings.yaml")
    del values["corpus"]
    settings = PretrainSettings.from_dict(values)
    (phase,) = settings.all_phases
    if settings.gradient_accumulation_steps != 1 or settings.ema is not None or settings.layer_decay != 1:
        sys.exit("expected a run without accumulation, averages and layer-wise rates")
    train, held_out = split_documents(TokenStore(tokens), settings.held_out, settings.seed)
    batches, evaluation = training_batches(train, phase, settings), held_out_batches(held_out, phase, settings)

    torch.manual_seed(settings.seed)
    model = transformers.BertForPreTraining.from_pretrained(settings.init, attn_implementation="sdpa")
    decaying = [p for name, p in model.named_parameters() if not name.endswith("bias") and "LayerNorm" not in name]
    others = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    groups = [{"params": decaying, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, eps=1e-6)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, settings.warmup_steps, phase.steps)

    def losses(batch):
        (ids, segments, chosen), (labels, following) = (
            [torch.from_numpy(np.ascontiguousarray(a)).long() for a in b] for b in batch
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.dtype == "mixed_bfloat16"):
            out = model.bert(ids, attention_mask=(ids != model.config.pad_token_id).long(), token_type_ids=segments)
            logits = model.cls.predictions(out[0][chosen != 0]).float()
            pair = model.cls.seq_relationship(out[1]).float()
        mlm = torch.nn.functional.cross_entropy(logits, labels[..., 0][chosen != 0])
        return mlm, torch.nn.functional.cross_entropy(pair, following[:, 0])

    def evaluate():
        model.eval()
        made = [evaluation.batch(0, i) for i in range(settings.evaluation_steps)]
        with torch.no_grad():
            found = [[float(loss) for loss in losses(batch)] for batch in made]
        model.train()
        means = np.average(found, axis=0, weights=[labels_of(batch) for batch in made])
        return dict(zip(("held_out_mlm_loss", "held_out_pair_loss"), means, strict=True))

    def labels_of(batch):
        """The labels of both heads over which their losses are means."""
        (ids, _, chosen), _ = batch
        return int(chosen.sum()), len(ids)

    model.train()
    since, labels, count, seconds = [], [], 0, time.perf_counter()
    with (run / "transformers.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for step in range(1, phase.steps + 1):
            batch = batches.batch(0, step - 1)
            mlm, pair = losses(batch)
            (mlm + pair).backward()
            if settings.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            since.append((float(mlm.detach()), float(pair.detach())))
            labels.append(labels_of(batch))
            count += int((batch[0][0] != model.config.pad_token_id).sum())
            evaluates = step == phase.steps or step % settings.evaluate_steps == 0
            if not evaluates and step % settings.log_steps and step % settings.save_steps:
                continue
            rate = count / (time.perf_counter() - seconds)
            row = {"step": step, "tokens_per_second": rate}
            row["mlm_loss"], row["pair_loss"] = np.average(since, axis=0, weights=labels)
            if evaluates:
                row.update(evaluate())
            table.writerow(row)
            file.flush()
            print("  ".join(f"{name} {row[name]:.6g}" for name in COLUMNS if name in row), flush=True)
            since, labels, count, seconds = [], [], 0, time.perf_counter()
    print("step   MLM loss: ours, transformers   held out: ours, transformers")
    ours, theirs = ([*csv.DictReader((run / name).open(encoding="utf-8"))] for name in ("metrics.csv", "transformers.csv"))
    for a, b in zip(ours, theirs, strict=True):
        print(a["step"], *(f"{float(row[n]):.4f}" for n in ("mlm_loss", "held_out_mlm_loss") if a[n] for row in (a, b)), sep="   ")
    a, b = (float(rows[-1]["held_out_mlm_loss"]) for rows in (ours, theirs))
    print(f"held-out MLM loss at the end: {a:.4f} and {b:.4f}, {abs(a / b - 1):.2%} apart")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "compare"])
    parser.add_argument("tokens", help="the folder that `keras-bert prepare` wrote")
    parser.add_argument("folder", type=Path, help="the folder to write, or that of the run")
    parser.add_argument("--size", default="mini", help="the size of the new model")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.what == "start":
        start(args.tokens, args.folder, args.size, args.seed)
    else:
        compare(args.tokens, args.folder)
