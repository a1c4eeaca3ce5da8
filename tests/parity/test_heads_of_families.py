"""Every family with every head: folders of transformers read here, and our folders read by transformers."""

import cases
import keras
import numpy as np
import pytest
import transformers
from helpers.run_model import answers

from keras_bert_rebuild import build_model, from_pretrained, save_pretrained
from keras_bert_rebuild.models.heads import heads_of

pairs = pytest.mark.parametrize(("family", "kind"), cases.PAIRS)


def theirs_of(family, kind):
    labels = {"num_labels": 3} if "Classification" in kind else {}
    return cases.random_model(family, kind, {**cases.FAMILIES[family], **labels})


def assert_same_answers(ours, theirs):
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    for expected, got in zip(cases.outputs_of(theirs, ids, segments), answers(ours, ids, segments), strict=True):
        if expected.shape[:2] == ids.shape:
            expected, got = expected[real], got[real]
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pairs
def test_their_folder_gives_the_same_answers_here(family, kind, tmp_path):
    theirs = theirs_of(family, kind)
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    assert not ours.load_report.unused
    assert_same_answers(ours, theirs)


@pairs
def test_our_folder_has_every_weight_in_transformers_and_gives_the_same_answers(family, kind, tmp_path):
    theirs_of(family, kind).save_pretrained(tmp_path / "theirs")
    known = from_pretrained(tmp_path / "theirs")
    keras.utils.set_random_seed(4)
    ours = build_model(known.config, heads_of(known))
    for variable in ours.weights:  # no bias 0, no gamma 1
        variable.assign(variable + keras.random.normal(variable.shape, stddev=0.2))
    save_pretrained(ours, tmp_path / "ours")
    theirs, info = getattr(transformers, family + kind).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {name: list(keys) for name, keys in info.items() if keys} == {}
    assert theirs.config.architectures == [family + kind]
    assert_same_answers(ours, theirs.eval())
