"""Folders of sentence-transformers."""

import contextlib
import json

import keras
import numpy as np
import pytest
from helpers.small_tasks import small_encoder
from safetensors.numpy import save_file

from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.pretrained.sentence_transformers_folder import check_case, read_sentence_pooling
from keras_bert_rebuild.tasks.embedding_model import embedding_model, with_modules

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
WEIGHTS = {"idx": 1, "name": "1", "path": "1_WordWeights", "type": "sentence_transformers.models.WordWeights"}
DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
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


@pytest.mark.parametrize(
    ("pooling", "poolings"),
    [
        ({"pooling_mode": "cls"}, ("cls",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({"pooling_mode": ["mean", "cls"], "pooling_mode_max_tokens": True}, ("mean", "cls")),
        ({"pooling_mode_mean_tokens": False}, ("mean",)),
        ({}, ("mean",)),
    ],
)
def test_poolings_of_newer_files_have_the_order_of_the_file_and_default_to_mean(tmp_path, pooling, poolings):
    assert read_sentence_pooling(write(tmp_path, [TRANSFORMER, POOLING], pooling)).poolings == poolings


@pytest.mark.parametrize(("said", "max_len"), [({}, 128), ({"max_seq_length": None}, 128), ({"max_seq_length": 300}, 300)])
def test_the_default_limit_is_that_of_the_tokenizer(tmp_path, said, max_len):
    write(tmp_path, [TRANSFORMER, POOLING], {}, said)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128}))
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    assert read_sentence_pooling(tmp_path).max_len == max_len
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 100}))
    assert read_sentence_pooling(tmp_path).max_len == (300 if max_len == 300 else None)  # None: the maximum of the model


@pytest.mark.parametrize(
    ("values", "prompt"),
    [
        ({"prompts": {"query": "q: "}}, ""),
        ({"prompts": {"query": "q: "}, "default_prompt_name": "query"}, "q: "),
        ({"prompts": {}, "default_prompt_name": "document"}, ""),
        ({"prompts": {"query": "q: "}, "default_prompt_name": "x"}, None),
        ({"prompts": ["q: "], "default_prompt_name": "query"}, None),
        ({"truncate_dim": 8}, None),
        ({"model_type": "SparseEncoder"}, None),
    ],
)
def test_the_default_prompt_is_prepended_and_settings_that_change_vectors_are_refused(tmp_path, values, prompt):
    write(tmp_path, [TRANSFORMER, POOLING], {"include_prompt": True})
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(values))
    if prompt is None:
        with pytest.raises(ValueError, match=r"config_sentence_transformers\.json must have "):
            read_sentence_pooling(tmp_path)
        return
    assert read_sentence_pooling(tmp_path).prompt == prompt
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"include_prompt": False}))
    if prompt:
        with pytest.raises(ValueError, match="include_prompt true if there is a default prompt"):
            read_sentence_pooling(tmp_path)


def test_a_dense_module_is_applied_to_the_pooled_vector(tmp_path, rng):
    kernel, bias = rng.normal(size=(3, 12)).astype("float32"), rng.normal(size=3).astype("float32")
    write(tmp_path, [TRANSFORMER, POOLING, DENSE, {**NORMALIZE, "path": "3_Normalize"}], {})
    (tmp_path / "2_Dense").mkdir()
    save_file({"linear.weight": kernel, "linear.bias": bias}, tmp_path / "2_Dense" / "model.safetensors")
    settings = {"in_features": 12, "out_features": 3, "activation_function": "torch.nn.modules.activation.Tanh"}
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(settings))
    told = read_sentence_pooling(tmp_path)
    encoder = small_encoder()
    pooled = embedding_model(encoder, ("mean",))
    width = pooled.output.shape[-1]
    ids = np.array([[2, 7, 8, 3]])
    vector = keras.ops.convert_to_numpy(pooled([ids, ids * 0]))
    modules = (told.modules[0]._replace(kernel=np.resize(kernel.T, (width, 3))),)
    expected = np.tanh(vector @ modules[0].kernel + bias)
    got = with_modules(pooled, modules, told.normalize)([ids, ids * 0])
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(got), expected, atol=1e-5)
    np.testing.assert_array_equal(told.modules[0].kernel, kernel.T)
    with pytest.raises(ValueError, match=f"must take {width} numbers; its weights are for 11"):
        with_modules(pooled, (told.modules[0]._replace(kernel=np.zeros((11, 3), "float32")),))


@pytest.mark.parametrize(("cased", "is_refused"), [(False, False), (True, True)])
def test_do_lower_case_must_agree_with_the_tokenizer(tmp_path, cased, is_refused):
    told = read_sentence_pooling(write(tmp_path, [TRANSFORMER, POOLING], {}, {"do_lower_case": True}))
    tokenizer = WordPieceTokenizer({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5}, cased=cased)
    with pytest.raises(ValueError, match="do_lower_case true") if is_refused else contextlib.nullcontext():
        check_case(told, tokenizer)


def test_settings_that_would_change_vectors_are_refused_by_name(tmp_path):
    write(tmp_path, [TRANSFORMER, POOLING], {}, {"transformer_task": "fill-mask"})
    with pytest.raises(ValueError, match="transformer_task must be 'feature-extraction', got 'fill-mask'"):
        read_sentence_pooling(tmp_path)


def test_the_folder_of_an_embedding_task_has_means_of_length_one(tmp_path):
    (tmp_path / "task.json").write_text(json.dumps({"task": "embedding", "max_len": 64}))
    told = read_sentence_pooling(tmp_path)
    assert (told.folder, told.poolings, told.normalize, told.max_len) == (tmp_path, ("mean",), True, 64)


def test_other_folders_have_no_settings(tmp_path):
    assert read_sentence_pooling(tmp_path) is None
    (tmp_path / "task.json").write_text(json.dumps({"task": "classification"}))
    assert read_sentence_pooling(tmp_path) is None


@pytest.mark.parametrize(
    ("modules", "pooling", "message"),
    [
        (
            [TRANSFORMER, POOLING, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}],
            {},
            "expected model.safetensors",
        ),
        ([TRANSFORMER, POOLING, POOLING], {"pooling_mode_mean_tokens": True}, "1_Pooling is of Pooling"),
        ([TRANSFORMER, WEIGHTS, POOLING], {}, "Transformer and Pooling first; got Transformer, WordWeights, Pooling"),
        ([POOLING], {}, "must name the modules Transformer and Pooling first; got Pooling"),
        ([TRANSFORMER, {**POOLING, "type": "mine.Pooling"}], {}, "modules of sentence_transformers; got 'mine.Pooling'"),
        ({"0": TRANSFORMER}, {}, "must hold a list of modules; got dict"),
        ([TRANSFORMER, POOLING], {"pooling_mode_weightedmean_tokens": True}, "got weightedmean"),
        ([TRANSFORMER, POOLING], {"pooling_mode": ["mean", "mean"]}, "each once; got mean, mean"),
        ([TRANSFORMER, {**POOLING, "path": "../elsewhere"}], {}, "must be inside it; got '../elsewhere'"),
    ],
)
def test_unknown_modules_are_refused_in_a_sentence(tmp_path, modules, pooling, message):
    with pytest.raises(ValueError, match=message):
        read_sentence_pooling(write(tmp_path, modules, pooling))
