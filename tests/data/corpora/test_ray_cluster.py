"""What workers of a Ray cluster write is what one process writes, byte by byte, also when a node is lost while they work."""

import functools
import itertools
import json
import math
import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import run_verb, save_small_model
from helpers.small_tasks import small_task

from keras_bert_rebuild import SentenceEmbedder, TextClassifier
from keras_bert_rebuild.cli import embed
from keras_bert_rebuild.cli.parsers import parsed
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.ray_cluster import RayCluster
from keras_bert_rebuild.data.corpora.worker_pool import mapped
from keras_bert_rebuild.search.dense_vectors import DenseVectors
from keras_bert_rebuild.search.table import Table

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

WORDS = ["the", "boat", "river", "miller", "baker", "wheat", "bread", "mill"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**NODE)
    yield cluster
    cluster.shutdown()


NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(WORDS[(i * k) % 8] for k in range(1, 12)) for i in range(1, 300)]
    (tmp_path / "corpus.txt").write_text("\n".join(line + "\n" * (i % 5 == 0) for i, line in enumerate(lines)))
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    return tmp_path


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()} if path.is_dir() else path.read_bytes()


def same_by(cluster, capsys, verb, arguments, output):
    """Run a verb in this process and on the cluster, and compare what it wrote."""
    for folder, engine in (("one", []), ("three", ["--engine", "ray", "--address", cluster.address])):
        os.makedirs(folder, exist_ok=True)
        code, _, err = run_verb(verb, capsys, *arguments.split(), "--output", f"{folder}/{output}", *engine)
        assert code == 0, err
    one, three = (contents(Path(folder) / output) for folder in ("one", "three"))
    assert one == three
    return one


def test_a_vocabulary_and_a_store_without_duplicates_are_the_same(cluster, here, capsys):
    same_by(cluster, capsys, "vocab", "corpus.txt --vocab-size 150", "v.txt")
    files = same_by(cluster, capsys, "prepare", "corpus.txt --tokenizer vocab.txt --deduplicate near", "tokens")
    assert json.loads(files["index.json"])["removed"]["passages"]["exact"]["texts"] > 20


def test_answers_and_the_vectors_of_an_index_are_the_same(cluster, here, capsys, monkeypatch):
    small_task(TextClassifier, labels=["cat", "dog"]).save(here / "classifier")
    same_by(cluster, capsys, "predict", "--model classifier --input corpus.txt --batch-size 8", "answers.jsonl")
    monkeypatch.setattr(DenseVectors, "BLOCK", 70)
    small_task(SentenceEmbedder).save(here / "encoder")
    for folder, engine in (("1", []), ("3", ["--engine", "ray", "--address", cluster.address])):
        code, _, err = run_verb("index", capsys, "corpus.txt", "--model", "encoder", "--output", folder, *engine)
        assert code == 0, err
    one, three = (list(Table(here / folder).batches(["id", "vector"])) for folder in "13")
    assert sum(map(len, one)) == 299
    assert one == three


@pytest.mark.parametrize("with_model", [False, True])
def test_what_a_lost_node_had_to_do_is_done_by_others(cluster, here, with_model):
    """Its task is lost with it, and so are results that were not fetched yet."""
    save_small_model(here / "encoder")
    arguments = parsed(["embed", "corpus.txt", "--model", "encoder", "--output", "v.npy"])
    arguments.model = here / "encoder"
    texts = (here / "corpus.txt").read_text().split("\n")
    parts = [texts[first : first + 20] for first in range(0, len(texts), 20)]

    def lose_a_node(*_):
        if len(cluster.worker_nodes) == 2:
            cluster.remove_node(sorted(cluster.worker_nodes, key=id)[0])

    with RayCluster(cluster.address, with_model=with_model) as workers:
        if with_model:
            made = mapped(embed.make_encoder, (arguments.model, arguments, None), parts, workers)
            first = next(made)
            lose_a_node()
            vectors = list(itertools.chain(first, *made))
        else:
            prepare("corpus.txt", "vocab.txt", "lost", workers=workers, block_bytes=400, progress=lose_a_node)
    assert len(cluster.worker_nodes) == 1
    cluster.add_node(**NODE)
    if with_model:
        expected = itertools.chain.from_iterable(mapped(embed.make_encoder, (arguments.model, arguments, None), parts, 1))
        assert [vector.tobytes() for vector in vectors] == [vector.tobytes() for vector in expected]
    else:
        prepare("corpus.txt", "vocab.txt", "whole", workers=1, block_bytes=400)
        assert len(contents(here / "lost")) > 100
        assert contents(here / "lost") == contents(here / "whole")


def test_results_that_are_iterators_come_whole_and_arrays_of_one_shape_as_one(cluster):
    rows = np.arange(6, dtype="float32").reshape(3, 2)
    tasks = [[*rows], [rows[0], rows[:, 0]], [rows[0], rows[0].astype("int32")], [(1, rows[0])], []]
    with RayCluster(cluster.address, processes=1) as workers:
        alike, *others = mapped(functools.partial, (iter,), tasks, workers)
    assert (alike.dtype, alike.tolist()) == ("float32", rows.tolist())
    assert [type(other) for other in others] == [list] * 4
    assert [row.dtype for row in others[1]] == ["float32", "int32"]
    assert others[2][0][0] == 1


def test_errors_of_workers_are_raised_here_and_name_the_node(cluster, tmp_path):
    with RayCluster(cluster.address, processes=2) as workers:
        assert list(mapped(functools.partial, (math.factorial,), range(30), workers)) == [math.factorial(i) for i in range(30)]
        assert list(mapped(functools.partial, (int,), [], workers)) == []
        with pytest.raises(ValueError, match="invalid literal"):
            list(mapped(functools.partial, (int,), ["1", "x"], workers))
        with pytest.raises(OSError, match=f"nothing.txt: No such file or directory, on the node {socket.gethostname()}"):
            list(mapped(functools.partial, (open,), [str(tmp_path / "nothing.txt")], workers))
        with pytest.raises(TypeError):
            list(mapped(functools.partial, (math.sqrt,), ["x"], workers))
        with pytest.raises(ChildProcessError, match="died 4 times at task 0"):
            list(mapped(functools.partial, (os._exit,), [3], workers))


def test_a_cluster_that_is_not_there_is_one_sentence(here, capsys, monkeypatch):
    arguments = ["corpus.txt", "--vocab-size", 150, "--output", "v.txt", "--engine", "ray"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code, _, err = run_verb("vocab", capsys, *arguments, "--address", address)
    assert (code, f"expected a Ray cluster at {address}: Connection refused." in err, err.count("\n")) == (2, True, 1), err
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run_verb("vocab", capsys, *arguments)
    assert (code, 'pip install "keras-bert-rebuild[ray]"' in err) == (2, True)
    assert not (here / "v.txt").exists()
