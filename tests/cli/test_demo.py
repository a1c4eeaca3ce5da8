"""`keras-bert demo`, shortened."""

import re
import types
from itertools import pairwise

import keras
import numpy as np
import pytest
from rich.console import Console

from keras_bert_rebuild.cli import demo
from keras_bert_rebuild.cli.main import main

SUBJECTS = ("the river", "a small boat", "the old bridge", "every child", "the market", "our neighbour", "the north wind")
VERBS = ("crosses", "follows", "remembers", "leaves", "greets", "watches")
OBJECTS = ("the green valley", "a long road", "the quiet harbour", "the evening train", "its own shadow", "the first snow")


@pytest.fixture
def corpus(tmp_path):
    """Sixty documents of small sentences."""
    lines = []
    for document in range(60):
        for i in range(12):
            n = document * 13 + i * 7
            lines.append(f"{SUBJECTS[n % 7]} {VERBS[n % 6]} {OBJECTS[(n // 3) % 6]} number {document} .")
        lines.append("")
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def small(monkeypatch):
    """The sizes of the demo, small."""
    article = {**demo.ARTICLE_MODEL, "token_num": 300, "transformer_num": 2, "embed_dim": 24, "feed_forward_dim": 48}
    monkeypatch.setattr(demo, "ARTICLE_MODEL", article)
    trained = {**demo.SMALL_MODEL, "transformer_num": 1, "embed_dim": 24, "feed_forward_dim": 48}
    monkeypatch.setattr(demo, "SMALL_MODEL", trained)
    monkeypatch.setattr(demo, "VOCAB_SIZE", 300)
    monkeypatch.setattr(demo, "EVALUATION_STEPS", 3)
    monkeypatch.setattr(demo, "COMPILED", ("jax",))  # compiling takes most of a minute; the README's test covers it


def losses(text):
    return re.findall(r"MLM loss\s+([\d.]+) nats\s+unigram ([\d.]+)", text)


@pytest.mark.slow
def test_the_demo_runs_and_the_same_seed_gives_the_same_loss(capsys, corpus, small, tmp_path):
    results = []
    for run in (1, 2):
        output = tmp_path / f"out{run}"
        assert main(["demo", "--steps", "40", "--seed", "3", "--corpus", str(corpus), "--output", str(output)]) == 0
        said = capsys.readouterr().out
        assert "Encoder-2-FeedForward-Norm (LayerNormalization)" in said
        assert "predictions differ by 0.0" in " ".join(said.split())
        assert said.count("____") >= 5
        assert (output / "vocab.txt").exists()
        assert keras.models.load_model(output / "bert.keras").count_params() > 0
        results.append(losses(said)[0])
    assert results[0] == results[1]
    assert (tmp_path / "out1" / "vocab.txt").read_bytes() == (tmp_path / "out2" / "vocab.txt").read_bytes()


def test_held_out_documents_of_the_demo_are_not_in_training_as_ids():
    """Passages lose their case and long words their end: two texts may have the same ids."""
    words = [f"w{i}" for i in range(60)]
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    train = [["w1 w2", "w3 unknown"], ["w5 w6 w7", "w9"]]
    test = [["w8 w8", "W1 W2", "w2 w1", "w4"], ["w3 strange", "w5 w6"]]
    corpora = demo._encode_parts(Console(quiet=True), train, test, vocabulary)
    seen, tested = ([corpus.ids_at(range(a, b)).tolist() for a, b in pairwise(corpus.passage_starts)] for corpus in corpora)
    assert [[vocabulary[word] for word in passage.split()] for passage in ("w8 w8", "w2 w1", "w4", "w5 w6")] == tested
    assert len(seen) == 4
    starts = np.searchsorted(corpora[1].passage_starts, corpora[1].document_starts)
    assert np.diff(starts).tolist() == [1, 2, 1]  # nothing follows what it did not follow


def test_the_minutes_determine_the_steps(monkeypatch):
    clock = iter([0.0, 2.0])
    monkeypatch.setattr(demo.time, "perf_counter", lambda: next(clock))
    model = types.SimpleNamespace(train_on_batch=lambda x, y: None)
    assert demo._steps_for(1, model, [(None, None)]) == 600  # 20 steps took 2 s
