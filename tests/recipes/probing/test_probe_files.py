"""Files of probes: how they are named, what of them is used, and what is refused."""

import numpy as np
import pytest

from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.probing.probe_files import probe_files, read_probe

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
