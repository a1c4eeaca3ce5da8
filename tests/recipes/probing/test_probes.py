"""Probes in a run change nothing and are resumed with the same scores; their files; linear probes find what vectors have."""

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
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.probing.linear_probe import (
    overlap,
    predicted_labels,
    predicted_numbers,
    ridge_regression,
    score,
    token_counts,
)
from keras_bert_rebuild.recipes.probing.probe_files import probe_files, read_probe
from keras_bert_rebuild.recipes.probing.probes import EncoderCopy, probe_report
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
    stream = EmbeddingStream.from_model(encoder, WordPieceTokenizer(corpus.vocabulary), max_len=16)
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


# Files of probes: how they are named, what of them is used, and what is refused.


TRAIN = "".join(f"text {i}\t{'odd' if i % 2 else 'even'}\n" for i in range(12))


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    return f"mood={folder}/train.tsv,{folder}/dev.tsv"


def test_a_name_a_kind_and_two_files_are_a_probe():
    one, two = probe_files(["mood=a.tsv,b.tsv", "similarity:sts-b=c.jsonl,d.jsonl"])
    assert (one.name, one.kind, str(one.train), str(one.dev)) == ("mood", "classification", "a.tsv", "b.tsv")
    assert (two.name, two.kind) == ("sts-b", "similarity")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["train.tsv,dev.tsv"], r"probes must be of the form NAME=TRAIN,DEV or .*; got 'train.tsv,dev.tsv'\."),
        (["a=train.tsv"], r"probes must be of the form NAME=TRAIN,DEV or .*; got 'a=train.tsv'\."),
        (["tagging:a=b,c"], r"the kind of a probe must be one of classification, similarity; got 'tagging' in 'tagging:a=b,c'\."),
        (["a=b,c", "a=d,e"], r"probes must have different names; got 'a' twice\."),
        ("a=b,c", r"probes must be a list; got 'a=b,c'\."),
    ],
)
def test_other_names_are_refused_by_the_settings(given, said):
    with pytest.raises(ValueError, match=said):
        PretrainSettings(probes=given)


def test_steps_without_files_are_refused():
    with pytest.raises(ValueError, match=r"probe_steps needs the files in probes; got 5 steps and no file\."):
        PretrainSettings(probe_steps=5)


def test_settings_without_probes_say_nothing_of_them():
    assert not [name for name in PretrainSettings().resolved() if "probe" in name]
    assert PretrainSettings(probes=["a=b,c"], steps=50).resolved()["probe_steps"] == 5


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"train": "a\tyes\nb\tyes\n", "dev": "a\tyes\n"},
            r"two labels; all examples of .*train\.tsv are 'yes'",
        ),
        (
            {"train": TRAIN, "dev": "a\teven\nb\tsad\n"},
            r"every label of a probe must occur in .*train\.tsv; .*dev\.tsv, line 2 has 'sad'\.",
        ),
        ({"train": "a\tyes\nb\tno\n", "dev": "a\tyes\n"}, r"at least 10 training examples; .*train\.tsv has 2\."),
        ({"train": TRAIN, "dev": "a\tb\teven\n"}, r"must all be texts or all be pairs; .* have both\."),
        ({"train": "", "dev": "a\teven\n"}, r"train\.tsv"),
    ],
)
def test_files_that_tell_nothing_are_errors(tmp_path, files, said):
    (named,) = probe_files([written(tmp_path, **files)])
    with pytest.raises(ValueError, match=said):
        read_probe(named, 100)


def test_pairs_without_different_scores_and_missing_files_are_errors(tmp_path):
    pairs = "".join(f"text {i}\tother\t1.5\n" for i in range(12))
    (named,) = probe_files([f"similarity:{written(tmp_path, train=pairs, dev=pairs)}"])
    with pytest.raises(ValueError, match=r"pairs with different scores; .*train\.tsv has none\."):
        read_probe(named, 100)
    (named,) = probe_files([f"mood={tmp_path}/gone.tsv,{tmp_path}/dev.tsv"])
    with pytest.raises((ValueError, OSError), match=r"gone\.tsv"):
        read_probe(named, 100)


def test_of_many_examples_some_are_drawn_and_every_text_is_kept_once(tmp_path):
    repeated = TRAIN + "text 1\tsame\n"
    (named,) = probe_files([written(tmp_path, train=repeated, dev=repeated)])
    whole, part = (read_probe(named, limit, seed=3) for limit in (100, 7))
    assert (len(whole.train), len(whole.dev), len(whole.texts), whole.labels) == (13, 13, 12, ("even", "odd", "same"))
    assert (len(part.train), part.labels, part.sha256) == (7, whole.labels, whole.sha256)
    for row, target in zip(whole.train, whole.train_targets, strict=True):
        text, label = whole.texts[row[0]], whole.labels[target]
        assert label == "same" or (int(text[5:]) % 2 == 1) == (label == "odd")
    np.testing.assert_array_equal(part.train, read_probe(named, 7, seed=3).train)


# Linear probes: what is in the vectors is found, what is not is not, and ridge regressions are exact.


def examples(rng, count=120, width=5, classes=3):
    vectors = rng.normal(size=(count, width)) * rng.uniform(0.1, 10, width) + rng.normal(size=width)
    logits = vectors @ rng.normal(size=(width, classes))
    return vectors, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def test_ridge_regressions_solve_their_normal_equations(rng):
    vectors, numbers = rng.normal(size=(40, 6)) + 2, rng.normal(size=40) + 3
    columns, penalties = np.concatenate([vectors, np.ones((40, 1))], axis=1), np.diag([1.0] * 6 + [0.0])
    kernels, biases = ridge_regression(vectors, numbers, (0.5, 1e-3))
    for kernel, bias, l2 in zip(kernels.T, biases, (0.5, 1e-3), strict=True):
        expected = np.linalg.solve(columns.T @ columns / 40 + l2 * penalties, columns.T @ numbers / 40)
        np.testing.assert_allclose([*kernel, bias], expected, rtol=1e-8, atol=1e-10)


def test_constant_features_are_harmless_and_scales_do_not_matter(rng):
    vectors, labels = examples(rng)
    with_constants = np.concatenate([vectors * 1e4, np.full((len(vectors), 2), 7.0)], axis=1)
    answers = [predicted_labels(given[:80], labels[:80], 3, given[80:]) for given in (vectors, with_constants)]
    np.testing.assert_array_equal(*answers)
    assert np.mean(answers[0] == labels[80:]) > 0.6


def test_labels_and_numbers_that_vectors_do_not_tell_are_not_found(rng):
    vectors = rng.normal(size=(400, 30))
    labels, numbers = rng.integers(0, 2, 400), rng.normal(size=400)
    found = predicted_labels(vectors[:200], labels[:200], 2, vectors[200:])
    assert 0.35 < np.mean(found == labels[200:]) < 0.65
    # The strongest penalty is chosen: predictions stay near the mean.
    assert predicted_numbers(vectors[:200], numbers[:200], vectors[200:]).std() < 0.3 * numbers.std()


def test_bags_of_words_count_frequent_tokens_and_weigh_rare_ones():
    ids = [np.array(row) for row in ([2, 7, 7, 3], [2, 7, 8, 3], [2, 9, 9, 3])]
    counts = token_counts(ids, 12)
    assert counts.shape == (3, 5)
    np.testing.assert_allclose(counts.sum(axis=1), np.log([2 * 2 * 3, 2 * 2 * 2 * 2, 2 * 2 * 3]))
    similar = overlap(counts, np.array([0, 0, 0]), np.array([0, 1, 2]))
    assert similar[0] == pytest.approx(1)
    assert 0 < similar[1] < 1
    assert similar[2] == 0  # what they share is in every text
