"""Folders of sentence-transformers."""

import json

import pytest

from keras_bert_rebuild.pretrained.sentence_transformers_folder import read_sentence_pooling

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}


def write(folder, modules, pooling, limits=None):
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if limits is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(limits))
    return folder


def test_pooling_normalisation_and_length_are_read(tmp_path):
    pooling = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    told = read_sentence_pooling(write(tmp_path, [TRANSFORMER, POOLING, NORMALIZE], pooling, {"max_seq_length": 256}))
    assert (told.poolings, told.normalize, told.max_len) == (("mean",), True, 256)
    assert (told.folder / "modules.json").is_file()


def test_several_poolings_are_joined_in_the_order_of_sentence_transformers(tmp_path):
    pooling = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    told = read_sentence_pooling(write(tmp_path, [TRANSFORMER, POOLING], pooling))
    assert (told.poolings, told.normalize, told.max_len) == (("cls", "max", "mean"), False, None)


def test_the_folder_of_an_embedding_task_has_means_of_length_one(tmp_path):
    (tmp_path / "task.json").write_text(json.dumps({"task": "embedding", "max_len": 64}))
    told = read_sentence_pooling(tmp_path)
    assert (told.folder, told.poolings, told.normalize, told.max_len) == (tmp_path, ("mean",), True, 64)


def test_other_folders_say_nothing(tmp_path):
    assert read_sentence_pooling(tmp_path) is None
    (tmp_path / "task.json").write_text(json.dumps({"task": "classification"}))
    assert read_sentence_pooling(tmp_path) is None


@pytest.mark.parametrize(
    ("modules", "pooling", "message"),
    [
        ([TRANSFORMER, POOLING, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}], {}, "got .*'Dense'"),
        ([TRANSFORMER, POOLING, POOLING], {"pooling_mode_mean_tokens": True}, "got .*'Pooling', 'Pooling'"),
        ([POOLING], {}, "must name the modules Transformer, Pooling, Normalize"),
        ({"0": TRANSFORMER}, {}, "must hold a list of modules; got dict"),
        ([TRANSFORMER, POOLING], {"pooling_mode_weightedmean_tokens": True}, "got pooling_mode_weightedmean_tokens"),
        ([TRANSFORMER, POOLING], {"pooling_mode_mean_tokens": False}, "got none"),
        ([TRANSFORMER, {**POOLING, "path": "../elsewhere"}], {}, "must lie in it; got '../elsewhere'"),
    ],
)
def test_what_is_not_known_is_refused_in_a_sentence(tmp_path, modules, pooling, message):
    with pytest.raises(ValueError, match=message):
        read_sentence_pooling(write(tmp_path, modules, pooling))
