"""`keras-bert demo`, shortened."""

import os
import re
import shlex
import subprocess
import sys
import types
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import keras
import numpy as np
import pytest
from rich.console import Console

from keras_bert_rebuild import from_pretrained, get_model
from keras_bert_rebuild.cli import demo, demo_texts, demo_training
from keras_bert_rebuild.cli.demo_training import encode
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.parsers import parsed
from keras_bert_rebuild.data.corpora.documents import docstring_document
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.models.encoder_view import EncoderView

ROOT = Path(__file__).parents[2]

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
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    # compiling takes most of a minute on TensorFlow; the README's test covers it
    shortened = {"sizes": sizes, "evaluation_steps": 3, "compiled": ("jax",)}
    monkeypatch.setattr(demo, "WORLD", replace(demo.WORLD, **shortened, steps=20))
    monkeypatch.setattr(demo, "DOCSTRINGS", replace(demo.DOCSTRINGS, **shortened))
    monkeypatch.setattr(demo_texts, "VOCAB_SIZE", 300)


def losses(text):
    return re.findall(r"MLM loss\s+([\d.]+) nats\s+unigram ([\d.]+)", text)


@pytest.mark.slow(torch=True)
def test_the_demo_runs_and_the_same_seed_gives_the_same_loss(capsys, corpus, small, tmp_path):
    results = []
    for run in (1, 2):
        output = tmp_path / f"out{run}"
        assert main(["demo", "--steps", "40", "--seed", "3", "--corpus", str(corpus), "--output", str(output)]) == 0
        said = capsys.readouterr().out
        assert "Encoder-1-FeedForward-Norm (LayerNormalization)" in said
        assert "predictions differ by 0.0" in " ".join(said.split())
        assert said.count("____") >= 5
        assert max(map(len, said.split("What next")[0].splitlines())) <= demo.WIDTH
        assert "Encoder-2-FeedForward-Norm (LayerNormalization)" in (output / "bert-base.txt").read_text()
        assert (output / "bert-base.svg").read_text().startswith("<svg")
        assert keras.models.load_model(output / "bert.keras").count_params() > 0
        assert from_pretrained(output / "small-world").count_params() > 0
        results.append(losses(said))
    assert results[0] == results[1]
    assert len(results[0]) == 2
    assert (tmp_path / "out1" / "vocab.txt").read_bytes() == (tmp_path / "out2" / "vocab.txt").read_bytes()


def test_held_out_documents_of_the_demo_are_not_in_training_as_ids():
    """Passages lose their case and long words their end: two texts may have the same ids."""
    words = [f"w{i}" for i in range(60)]
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    train = [["w1 w2", "w3 unknown"], ["w5 w6 w7", "w9"]]
    test = [["w8 w8", "W1 W2", "w2 w1", "w4"], ["w3 strange", "w5 w6"]]
    corpora = encode(Console(quiet=True), train, test, vocabulary)
    seen, tested = ([corpus.ids_at(range(a, b)).tolist() for a, b in pairwise(corpus.passage_starts)] for corpus in corpora)
    assert [[vocabulary[word] for word in passage.split()] for passage in ("w8 w8", "w2 w1", "w4", "w5 w6")] == tested
    assert len(seen) == 4
    starts = np.searchsorted(corpora[1].passage_starts, corpora[1].document_starts)
    assert np.diff(starts).tolist() == [1, 2, 1]  # nothing follows what it did not follow


def test_the_minutes_determine_the_steps(monkeypatch):
    clock = iter([0.0, 2.0])
    monkeypatch.setattr(demo_training.time, "perf_counter", lambda: next(clock))
    model = types.SimpleNamespace(train_on_batch=lambda x, y: None)
    training = types.SimpleNamespace(model=model, batches=[(None, None)])
    assert demo_training.steps_for(1, training) == 600  # 20 steps took 2 s


def test_the_last_lines_are_commands_that_the_parser_takes(tmp_path):
    commands = [command for _, command in demo.next_commands(tmp_path / "out")]
    given = [parsed(shlex.split(command)[1:]) for command in commands]
    assert [one.verb for one in given] == ["attention", "explain", "pretrain"]
    assert given[0].model == str(tmp_path / "out" / "small-world") or given[0].model == tmp_path / "out" / "small-world"


def test_the_first_line_comes_before_keras_is_imported(tmp_path, monkeypatch, capsys):
    """The import of the package prints, and fails, in place of taking seconds."""
    (tmp_path / "keras.py").write_text("print('importing Keras', flush=True); raise ImportError('not now')")
    command = [sys.executable, "-c", "import keras_bert_command; raise SystemExit(keras_bert_command.main())", "demo"]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("BERT-base taken apart")
    assert lines.index("importing Keras") > 0
    assert done.returncode == 2
    assert max(map(len, lines)) <= 100


def test_no_sentence_of_a_held_out_household_is_in_training():
    train, test = demo_texts.world_documents()
    seen = {passage for document in train for passage in document}
    assert seen.isdisjoint(passage for document in test for passage in document)
    held_out = demo_texts.households()[1]
    for (text, word), household in zip(demo_texts.world_masks(), held_out, strict=False):
        assert text.count("[MASK]") == 1
        assert text.replace("[MASK]", word).count(household[0]) == 2
        assert not any(passage in text.replace("[MASK]", word) for passage in seen)


def test_a_word_that_is_part_of_another_is_not_masked_in_it(monkeypatch):
    monkeypatch.setattr(demo_texts, "households", lambda seed: ((), [("anna", "brown", "hen")] * 5))
    texts = dict.fromkeys(text for text, _ in demo_texts.world_masks())
    assert sum("when anna comes" in text for text in texts) >= 1


def test_training_has_no_passage_with_a_sentence_that_is_asked():
    documents = [
        ["If the file does not exist, an exception is raised. So it is.", "Another passage."],
        ["The default value is None."],
    ]
    assert demo_texts.without(documents) == [["Another passage."]]


def test_passages_that_nobody_chose_have_a_word_masked_which_was_there():
    documents = [[f"this passage of number {word} has some words of its own"] for word in ("one", "three", "seven")]
    masks = demo_texts.unchosen(documents, 2)
    assert len(masks) == 2
    for text, word in masks:
        assert [text.replace("[MASK]", word)] in documents
    assert masks == demo_texts.unchosen(documents, 2)


def test_the_word_before_predicts_the_word_that_follows_it_most_often():
    followers = demo_training.most_frequent_after(np.array([1, 2, 1, 2, 1, 3, 4]), 6)
    assert followers[[1, 2, 3]].tolist() == [2, 1, 4]
    assert followers[5] == 1  # never seen: the most frequent of all


def test_blocks_after_the_first_are_one_line_of_the_summary():
    model = get_model(300, transformer_num=3, embed_dim=24, head_num=2, feed_forward_dim=48, seq_len=10, pos_num=10)
    rows = summary_rows(model)
    lines = demo.folded(rows, EncoderView(model))
    (later,) = [line for line in lines if "again" in line[0]]
    assert later[0] == "Encoder-2 to Encoder-3: the same 8 layers again"
    assert sum(int(line[2].replace(",", "")) for line in lines) == model.count_params()
    assert ("MLM (Masked)", "10×300", "0") in lines
    for width in (88, 60, 40):
        assert max(map(len, demo.table(lines, width))) <= width


def test_documentation_is_found_where_the_parser_finds_it_and_code_is_not():
    sentence = "Return the larger of two numbers, or the first of them if both are equal."
    other = "Return the smaller of two numbers, or the first of them if both are equal."
    source = f'''"""{sentence}"""
text = """A string that is assigned to a name is no documentation at all."""

def smaller(a, b):
    r"""{other}

    >>> smaller(1, 2)
    """
    """
    Parameters
    ----------
    a : a number of any kind that can be compared with another one
    """
'''
    assert demo_texts.documented(source) == [sentence, other]
    path = Path(demo.__file__).with_name("progress.py")
    assert set(docstring_document(path)) <= set(demo_texts.documented(path.read_text(encoding="utf-8")))
