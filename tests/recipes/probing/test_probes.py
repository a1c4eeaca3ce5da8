"""Probes in a run: what they measure, that they change nothing, and that a resumed run writes the same scores."""

import csv
import os
import random
import shutil
from xml.etree import ElementTree

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.small import small_model
from helpers.small_corpus import FIRST, small_corpus

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.recipes.metrics_table import read_curves
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.probing.probe_files import probe_files, read_probe
from keras_bert_rebuild.recipes.probing.probes import EncoderCopy, probe_report, score
from keras_bert_rebuild.tasks.embedding_stream import EmbeddingStream
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

COLUMNS = ["probe_parity_accuracy", "probe_near_spearman"]


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(longest=8)


@pytest.fixture(scope="module")
def probes(corpus, tmp_path_factory):
    """Texts whose words are in the first or the second half of the vocabulary, and pairs scored by the words they share."""
    folder, rng = tmp_path_factory.mktemp("probes"), np.random.default_rng(5)
    half = (len(corpus.vocabulary) - FIRST) // 2

    def text(label):
        return " ".join(corpus.vocabulary[FIRST + label * half + i] for i in rng.integers(0, half, rng.integers(2, 30)))

    for name, count in (("train", 40), ("dev", 20)):
        rows = [f"{text(i % 2)}\t{'second' if i % 2 else 'first'}\n" for i in range(count)]
        (folder / f"{name}.tsv").write_text("".join(rows))
        scored = [(text(0), text(1), i % 6) for i in range(count)]
        rows = [f"{one}\t{' '.join(one.split()[: score + 1])} {other}\t{score}\n" for one, other, score in scored]
        (folder / f"{name}_pairs.tsv").write_text("".join(rows))
    return [f"parity={folder}/train.tsv,{folder}/dev.tsv", f"similarity:near={folder}/train_pairs.tsv,{folder}/dev_pairs.tsv"]


def rows_of(folder):
    """The table of a run without what depends on its speed."""
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if not name.startswith(("tokens_per", "flop"))} for row in rows]


@pytest.fixture(scope="module")
def whole(corpus, probes, tmp_path_factory):
    settings = {**small_runs.FOUR_STEPS, "probes": probes}
    return *small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", settings), settings


def test_a_run_has_the_scores_in_its_table_and_what_they_are_compared_with_beside_it(whole):
    folder, rows, _, _ = whole
    curves = read_curves(folder)
    for column in COLUMNS:
        assert [step for step, _ in curves[column]] == [2, 4]
        assert rows[-1][column] == pytest.approx(curves[column][-1][1], rel=1e-5)
    recorded = yaml.safe_load((folder / "probes.yaml").read_text())
    assert recorded["step"] == 0
    parity, near = recorded["probes"]
    assert (parity["majority"], parity["train"], parity["dev"], parity["labels"]) == (0.5, 40, 20, 2)
    assert parity["bag_of_words"] > 0.5
    assert near["bag_of_words"] > 0.5
    assert 0 <= parity["start"] <= 1
    lines = probe_report(folder)
    assert lines[0].startswith(f"probe    parity: accuracy {rows[-1][COLUMNS[0]]:.3f} (most frequent label 0.500, bag of words ")
    assert lines[1].startswith("probe    near: spearman ")


def test_weights_and_everything_else_in_a_checkpoint_are_those_of_a_run_without_probes(whole, corpus, tmp_path):
    folder, _, model, _ = whole
    plain = pretrain(corpus, tmp_path / "plain", small_runs.FOUR_STEPS)
    for one, other in zip(plain.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)
    digests = [CheckpointFolder(path / "checkpoints").newest().sha256 for path in (folder, tmp_path / "plain")]
    assert digests[0] == digests[1]
    without = [{name: value for name, value in row.items() if name not in COLUMNS} for row in rows_of(folder)]
    assert rows_of(tmp_path / "plain") == without
    assert not (tmp_path / "plain" / "probes.yaml").exists()


@pytest.mark.slow(torch=True)
def test_a_resumed_run_writes_the_same_rows_and_keeps_its_baselines(whole, corpus, tmp_path):
    folder, _, _, settings = whole
    before = (folder / "probes.yaml").read_bytes()
    small_runs.check_resumption(whole[:3], corpus, tmp_path / "run", settings)
    assert rows_of(tmp_path / "run") == rows_of(folder)
    assert (tmp_path / "run" / "probes.yaml").read_bytes() == before


def test_other_examples_are_another_run_and_other_paths_are_not(whole, corpus, probes, tmp_path):
    folder, _, _, settings = whole
    shutil.copytree(folder, tmp_path / "run")
    moved = []
    for probe in probes:
        name, _, files = probe.partition("=")
        copies = [shutil.copy(path, tmp_path) for path in files.split(",")]
        moved.append(f"{name}={','.join(map(str, copies))}")
    pretrain(corpus, tmp_path / "run", {**settings, "probes": moved})
    path = tmp_path / "dev.tsv"
    path.write_text(path.read_text() + "w5\tfirst\n")
    with pytest.raises(ValueError, match=r"holds a run with other settings: probed was .*Choose another folder"):
        pretrain(corpus, tmp_path / "run", {**settings, "probes": moved})


@pytest.mark.parametrize(
    "changes",
    [
        {"packing": True},
        pytest.param({"objective": "electra"}, marks=pytest.mark.slow(torch=True)),
        pytest.param({"objective": "xlnet"}, marks=pytest.mark.slow(torch=True)),
    ],
    ids=str,
)
def test_a_score_is_that_of_the_encoder_in_the_folder(corpus, probes, tmp_path, changes):
    rows = []
    settings = {**small_runs.FOUR_STEPS, "probes": probes, "ema": None, **changes}
    pretrain(corpus, tmp_path / "run", settings, report=rows.append)
    encoder = from_pretrained(tmp_path / "run" / "model", heads=[])
    stream = EmbeddingStream.of_model(encoder, WordPieceTokenizer(corpus.vocabulary), max_len=16)
    for files, column in zip(probe_files(probes), COLUMNS, strict=True):
        probe = read_probe(files, 2000)
        expected = score(probe, stream(probe.texts))
        assert rows[-1][column] == pytest.approx(expected, abs=1e-6)


def test_a_copy_draws_no_random_number_and_follows_the_weights(corpus):
    model = small_model(token_num=len(corpus.vocabulary), transformer_num=1)
    states = random.getstate(), np.random.get_state()[1].tolist()
    copy = EncoderCopy(model, WordPieceTokenizer(corpus.vocabulary), 12)
    rows = copy.rows(["w5 w6", "w7"])
    copy.update()
    first = copy.vectors(rows)
    np.testing.assert_array_equal(copy.vectors(rows), first)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    model.get_layer("Embedding-Token").weights[0].assign_add(keras.random.normal((len(corpus.vocabulary), first.shape[1])))
    np.testing.assert_array_equal(copy.vectors(rows), first)
    copy.update()
    assert np.abs(copy.vectors(rows) - first).min() > 1e-6


def test_files_that_cannot_be_probes_leave_no_folder(corpus, tmp_path):
    with pytest.raises((ValueError, OSError), match=r"gone\.tsv"):
        pretrain(corpus, tmp_path / "run", small_runs.FOUR_STEPS, probes=[f"a={tmp_path}/gone.tsv,{tmp_path}/dev.tsv"])
    assert os.listdir(tmp_path) in ([], ["run"])
    assert not (tmp_path / "run" / "settings.yaml").exists()


def test_the_picture_has_a_chart_of_each_probe_with_its_baselines(whole, tmp_path, capsys):
    folder, _, _, _ = whole
    assert main(["curves", str(folder), "--output", str(tmp_path / "curves.svg")]) == 0
    capsys.readouterr()
    svg = (tmp_path / "curves.svg").read_text()
    for said in ("Probe parity: accuracy", "Probe near: spearman", "most frequent label", "before training"):
        assert said in svg
    assert svg.count("stroke-dasharray") == 5
    ElementTree.fromstring(svg)
