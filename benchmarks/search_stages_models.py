"""The stages of `search_stages.py`: each is a function to the scores of the queries of dev and test with all documents."""

import json
import lzma
import re
from pathlib import Path

import keras
import numpy as np
from retrieval_worker import banking77, minilm, table
from scipy.sparse import csr_matrix

from keras_bert_rebuild import AdamW, WarmupLinearDecay, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.tasks.model_of_task import predict_own_tokens
from keras_bert_rebuild.tasks.reranker import Reranker
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.tasks.sparse_embedder import SparseEmbedder

QUERIES = 600
DENSE = {"squad": (32, 32, 128), "banking77": (48, 64, 64)}  # steps, pairs of a batch, tokens
SPARSE = {"steps": 70, "batch_size": 10, "learning_rate": 5e-5, "max_len": 96}
RERANK = {"batch_size": 12, "learning_rate": 1.5e-4, "near": 40}
RERANK_SIZES = {"squad": (320, 144, 10), "banking77": (560, 64, 20)}  # steps, tokens, documents that are scored again


def read_set(data, name):
    """Pairs with labels to train on, the documents, and for dev and test the queries and what answers them."""
    rng = np.random.default_rng(0)
    if name == "banking77":
        pairs, test = banking77({"data_folder": data, "objective": ""}, rng)
        asked = table(Path(data) / "classification" / "banking77_test.tsv")
        asked = [asked[i] for i in np.random.default_rng(0).permutation(len(asked))]
        of = {intent: test["judged"][str(i)] for i, (_, intent) in enumerate(asked[:QUERIES])}
        rest = [(text, of[intent]) for text, intent in asked[QUERIES : 2 * QUERIES]]
        dev = [text for text, _ in rest], {str(i): judged for i, (_, judged) in enumerate(rest)}
        return pairs, test["corpus"], {"dev": dev, "test": (test["queries"], test["judged"])}
    with lzma.open(Path(data) / "qa/squad_v1.1_dev_partA.json.xz") as file:
        articles = [article["paragraphs"] for article in json.load(file)["data"]]
    asked = [[(qa["question"], part["context"]) for part in parts for qa in part["qas"]] for parts in articles]
    corpus = list(dict.fromkeys(part["context"] for parts in articles for part in parts))
    number = {text: str(i) for i, text in enumerate(corpus)}
    parts = {}
    for part, of_articles in (("dev", asked[20:24]), ("test", asked[24:])):
        every = [pair for of_article in of_articles for pair in of_article]
        every = [every[i] for i in np.random.default_rng(0).permutation(len(every))[:QUERIES]]
        parts[part] = [query for query, _ in every], {str(i): {number[text]: 1} for i, (_, text) in enumerate(every)}
    return [(pair, None) for of_article in asked[:20] for pair in of_article], corpus, parts


def dense(name, pairs, corpus, parts, work, seed, steps):
    """Cosines of MiniLM trained further with in-batch negatives."""
    usual, batch_size, max_len = DENSE[name]
    settings = {"example_kind": "retrieval", "objective": "in_batch_negatives", "max_len": max_len, "truncate": True}
    task = SentenceEmbedder.from_encoder(minilm(), **settings)
    _train(task, _in_batches(pairs, batch_size, steps or usual, seed), batch_size, 3e-5, seed)
    task.save(work / "dense")
    documents = task(corpus, batch_size=64)
    return {part: task(queries, batch_size=64) @ documents.T for part, (queries, _) in parts.items()}


def lexical(name, pairs, corpus, parts, work, seed, steps, k1=1.2, b=0.75):
    """BM25 of the words in lower case, the probe that learns nothing.

    Reference: Robertson and Zaragoza, 2009, section 3.5 (https://doi.org/10.1561/1500000019), with Lucene's logarithm.
    """
    number = {}

    def counts(texts, grow):
        rows = [re.findall(r"\w+", text.lower()) for text in texts]
        entries = [(i, word) for i, row in enumerate(rows) for word in row if grow or word in number]
        columns = [number.setdefault(word, len(number)) for _, word in entries]
        return csr_matrix((np.ones(len(entries)), ([i for i, _ in entries], columns)), shape=(len(texts), len(number)))

    of_documents = counts(corpus, True)
    lengths = np.asarray(of_documents.sum(axis=1)).ravel()
    of_word = np.bincount(of_documents.indices, minlength=len(number))
    found = of_documents.tocoo()
    rarity = np.log(1 + (len(corpus) - of_word + 0.5) / (of_word + 0.5))[found.col]
    weights = rarity * found.data * (k1 + 1) / (found.data + k1 * (1 - b + b * lengths[found.row] / lengths.mean()))
    documents = csr_matrix((weights, (found.row, found.col)), shape=found.shape)
    return {part: (counts(queries, False) @ documents.T).toarray() for part, (queries, _) in parts.items()}


def sparse(name, pairs, corpus, parts, work, seed, steps):
    """Products of SPLADE vectors of MiniLM, whose head predicts every token itself before it is trained."""
    steps = steps or SPARSE["steps"]
    settings = {"flops": (1e-4, 1e-4), "flops_steps": max(1, steps // 3), "truncate": True}
    task = SparseEmbedder.from_encoder(minilm(), max_len=SPARSE["max_len"], **settings)
    predict_own_tokens(task, list(dict.fromkeys(text for (_, text), _ in pairs))[:400])
    batch_size = SPARSE["batch_size"]
    _train(task, _in_batches(pairs, batch_size, steps, seed), batch_size, SPARSE["learning_rate"], seed)
    task.max_len = 128
    task.save(work / "sparse")
    documents = task.to_scipy(corpus, "document")
    return {part: (task.to_scipy(queries, "query") @ documents.T).toarray() for part, (queries, _) in parts.items()}


def rerank(name, pairs, corpus, parts, work, seed, steps):
    """Logits of a reranker that starts from the weights of the dense stage, for its best documents; −∞ for the others.

    Every group has one other text: in half of them a random one, in the others one of those nearest to the query by the dense
    stage. Batches are of groups of similar length, in random order.
    """
    usual, max_len, depth = RERANK_SIZES[name]
    steps, batch_size = steps or usual, RERANK["batch_size"]
    embed = load_task(work / "dense")
    rng = np.random.default_rng(seed)
    count = steps * batch_size
    order = np.concatenate([rng.permutation(len(pairs)) for _ in range(1 + count // len(pairs))])[:count]
    texts = sorted({text for (_, text), _ in pairs})
    vectors = embed(texts, batch_size=64)
    queries = dict.fromkeys(pairs[i][0][0] for i in order)
    queries = dict(zip(queries, embed(list(queries), batch_size=64), strict=True))
    label = {text: text if of is None else of for (_, text), of in pairs}
    labels = np.array([label[text] for text in texts])
    groups = []
    for k, i in enumerate(order):
        (query, positive), _ = pairs[i]
        others = np.flatnonzero(labels != label[positive])
        if k % 2:
            others = others[np.argsort(-(vectors[others] @ queries[query]), kind="stable")[: RERANK["near"]]]
        groups.append(TextGroup(query, positive, (texts[rng.choice(others)],)))
    settings = {"objective": "pairwise", "negatives": 1, "max_len": max_len, "truncate": True, "activation": "linear"}
    task = Reranker.from_encoder(work / "dense", **settings)
    _train(task, groups, batch_size, RERANK["learning_rate"], seed, random=True)
    task.save(work / "rerank")
    found = {}
    for part, (queries, _) in parts.items():
        first = np.load(work / f"dense-{part}.npy")
        best = np.argsort(-first, axis=1, kind="stable")[:, :depth]
        scores = task.scores_of([(query, corpus[at]) for query, row in zip(queries, best, strict=True) for at in row])
        found[part] = np.full(first.shape, -np.inf)
        np.put_along_axis(found[part], best, scores.reshape(best.shape), axis=1)
    return found


def _in_batches(pairs, batch_size, steps, seed):
    """The groups of all steps in random order, no positive twice in a batch."""
    rng, groups, order = np.random.default_rng(seed), [], []
    for _ in range(steps):
        batch, seen, later = [], set(), []
        while len(batch) < batch_size:
            at = order.pop() if order else (order := rng.permutation(len(pairs)).tolist()).pop()
            text = pairs[at][0][1]
            (later if text in seen else batch).append(at)
            seen.add(text)
        order += later
        groups += [TextGroup(*pairs[at][0]) for at in batch]
    return groups


def _train(task, groups, batch_size, rate, seed, random=False):
    keras.utils.set_random_seed(seed)
    steps = len(groups) // batch_size
    batches = task.batches(task.encode(groups), batch_size, seed=seed if random else None)
    schedule = WarmupLinearDecay(rate, int(0.1 * steps), steps)
    task.compile(AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0), jit_compile=keras.backend.backend() == "jax")
    task.training_model.fit(batches, epochs=1, shuffle=False, verbose=2)


STAGES = {"dense": dense, "lexical": lexical, "sparse": sparse, "rerank": rerank}
