"""Folders of embedders: sentence-transformers' of a vector for a text, and Stanford's ColBERT."""

import json
import shutil
import string

import keras
import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder
from safetensors.numpy import load_file, save_file

from keras_bert_rebuild import LateInteractionEmbedder, WordPieceTokenizer, from_pretrained, load_task
from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.pretrained.retriever_folder import lower_cased, read_retriever_folder
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
    folder = read_retriever_folder(write(tmp_path, [TRANSFORMER, POOLING, NORMALIZE], pooling, {"max_seq_length": 256}))
    told = folder.settings
    assert (told["poolings"], told["normalize"], told["max_len"], told["truncate"]) == (("mean",), True, 256, True)
    assert (folder.kind, folder.folder) == ("embedding", tmp_path)


def test_several_poolings_are_joined_in_the_order_of_sentence_transformers(tmp_path):
    pooling = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    told = read_retriever_folder(write(tmp_path, [TRANSFORMER, POOLING], pooling)).settings
    assert (told["poolings"], told["normalize"], told.get("max_len")) == (("cls", "max", "mean"), False, None)


@pytest.mark.parametrize(
    ("pooling", "poolings"),
    [
        ({"pooling_mode": "cls"}, ("cls",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({"pooling_mode": ["mean", "cls"], "pooling_mode_max_tokens": True}, ("mean", "cls")),
        ({"pooling_mode_mean_tokens": False}, ("mean",)),
        ({"pooling_mode": ["lasttoken", "mean_sqrt_len_tokens"]}, ("lasttoken", "mean_sqrt_len")),
        ({"pooling_mode_weightedmean_tokens": True, "pooling_mode_lasttoken": True}, ("weightedmean", "lasttoken")),
        ({}, ("mean",)),
    ],
)
def test_poolings_of_newer_files_have_the_order_of_the_file_and_default_to_mean(tmp_path, pooling, poolings):
    assert read_retriever_folder(write(tmp_path, [TRANSFORMER, POOLING], pooling)).settings["poolings"] == poolings


@pytest.mark.parametrize(("said", "max_len"), [({}, 128), ({"max_seq_length": None}, 128), ({"max_seq_length": 300}, 300)])
def test_the_default_limit_is_that_of_the_tokenizer(tmp_path, said, max_len):
    write(tmp_path, [TRANSFORMER, POOLING], {}, said)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128}))
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    assert read_retriever_folder(tmp_path).settings["max_len"] == max_len
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 100}))
    # None: the maximum of the model.
    assert read_retriever_folder(tmp_path).settings.get("max_len") == (300 if max_len == 300 else None)


def test_prompts_measure_and_width_are_settings(tmp_path):
    write(tmp_path, [TRANSFORMER, POOLING], {"include_prompt": False})
    values = {
        "prompts": {"query": "q: ", "document": "", "passage": None, "title": "t: "},
        "default_prompt_name": "title",
        "similarity_fn_name": "dot",
        "truncate_dim": 8,
        "model_type": "SentenceTransformer",
    }
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(values))
    told = read_retriever_folder(tmp_path).settings
    assert told["prompts"] == {"query": "q: ", "title": "t: "}
    assert [told[name] for name in ("default_prompt", "measure", "truncate_dim", "include_prompt")] == ["title", "dot", 8, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prompts": {"query": "q: "}, "default_prompt_name": "x"}, "the default prompt 'x' among its prompts; it has query"),
        ({"prompts": ["q: "], "default_prompt_name": "query"}, "must have texts by name as prompts"),
        ({"prompts": {"query": 3}}, "must have texts by name as prompts"),
        ({"truncate_dim": 0}, "a number of at least 1 as truncate_dim; got 0"),
        ({"similarity_fn_name": "manhattan"}, "similarity_fn_name cosine or dot; got 'manhattan'"),
        ({"model_type": "StaticEncoder"}, "a model_type among SentenceTransformer, .*; got 'StaticEncoder'"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_by_name(tmp_path, values, message):
    write(tmp_path, [TRANSFORMER, POOLING], {})
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=message):
        read_retriever_folder(tmp_path)


def test_a_dense_module_is_applied_to_the_pooled_vector(tmp_path, rng):
    kernel, bias = rng.normal(size=(3, 12)).astype("float32"), rng.normal(size=3).astype("float32")
    write(tmp_path, [TRANSFORMER, POOLING, DENSE, {**NORMALIZE, "path": "3_Normalize"}], {})
    (tmp_path / "2_Dense").mkdir()
    save_file({"linear.weight": kernel, "linear.bias": bias}, tmp_path / "2_Dense" / "model.safetensors")
    settings = {"in_features": 12, "out_features": 3, "activation_function": "torch.nn.modules.activation.Tanh"}
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(settings))
    told = read_retriever_folder(tmp_path).settings
    encoder = small_encoder()
    pooled = embedding_model(encoder, ("mean",))
    width = pooled.output.shape[-1]
    ids = np.array([[2, 7, 8, 3]])
    vector = keras.ops.convert_to_numpy(pooled([ids, ids * 0]))
    modules = (told["modules"][0]._replace(kernel=np.resize(kernel.T, (width, 3))),)
    expected = np.tanh(vector @ modules[0].kernel + bias)
    got = with_modules(pooled, modules, told["normalize"])([ids, ids * 0])
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(got), expected, atol=1e-5)
    np.testing.assert_array_equal(told["modules"][0].kernel, kernel.T)
    with pytest.raises(ValueError, match=f"must take the width {width}; its weights have 11"):
        with_modules(pooled, (told["modules"][0]._replace(kernel=np.zeros((11, 3), "float32")),))


@pytest.mark.parametrize("cased", [False, True])
def test_do_lower_case_makes_a_tokenizer_lower_case_and_leaves_accents(tmp_path, cased):
    folder = read_retriever_folder(write(tmp_path, [TRANSFORMER, POOLING], {}, {"do_lower_case": True}))
    assert folder.lower_case
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "ä", "A"]
    tokenizer = lower_cased(WordPieceTokenizer(words, cased=cased), tmp_path)
    assert tokenizer.encode_batch(["A Ä"]).ids[0].tolist() == [2, 5, 6 if cased else 5, 3]
    with pytest.raises(ValueError, match="do_lower_case true; expected a tokenizer that can lower-case, but a object cannot"):
        lower_cased(object(), tmp_path)


def test_settings_that_would_change_vectors_are_refused_by_name(tmp_path):
    write(tmp_path, [TRANSFORMER, POOLING], {}, {"transformer_task": "fill-mask"})
    with pytest.raises(ValueError, match="transformer_task must be 'feature-extraction', got 'fill-mask'"):
        read_retriever_folder(tmp_path)


def test_other_folders_are_none(tmp_path):
    assert read_retriever_folder(tmp_path) is None
    (tmp_path / "task.json").write_text(json.dumps({"task": "classification"}))
    assert read_retriever_folder(tmp_path) is None


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
        ({"0": TRANSFORMER}, {}, "must be a list of modules; got dict"),
        ([TRANSFORMER, POOLING], {"pooling_mode": "middle"}, "got middle"),
        ([], {}, "must name at least one module; got none"),
        ([TRANSFORMER, POOLING], {"pooling_mode": ["mean", "mean"]}, "each once; got mean, mean"),
        ([TRANSFORMER, {**POOLING, "path": "../elsewhere"}], {}, "must be inside it; got '../elsewhere'"),
    ],
)
def test_unknown_modules_are_refused_in_a_sentence(tmp_path, modules, pooling, message):
    with pytest.raises(ValueError, match=message):
        read_retriever_folder(write(tmp_path, modules, pooling))


TEXTS = ["the cat sat on the mat .", "who likes paris ?"]
METADATA = {"query_maxlen": 12, "doc_maxlen": 16, "dim": 8, "similarity": "l2", "query_token_id": "un", "doc_token_id": "##s"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An embedder, and a folder with its weights as Stanford's library saves them."""
    folder = tmp_path_factory.mktemp("stanford")
    settings = {"query_prefix": "un ", "document_prefix": "##s ", "query_len": 12, "document_len": 16, "token_width": 8}
    task = LateInteractionEmbedder.from_encoder(small_encoder(()), TOKENIZER, **settings)
    task.save(folder / "ours")
    (folder / "theirs").mkdir()
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copyfile(folder / "ours" / name, folder / "theirs" / name)
    config = json.loads((folder / "ours" / "config.json").read_text())
    (folder / "theirs" / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    arrays = load_file(folder / "ours" / "model.safetensors")
    arrays = {f"bert.{name.removeprefix('bert.')}": array for name, array in arrays.items()}
    (dense,) = (folder / "ours").glob("*_Dense/model.safetensors")
    save_file({**arrays, **load_file(dense)}, folder / "theirs" / "model.safetensors")
    return task, folder / "theirs"


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the folder, and a function that writes its settings."""
    copy = shutil.copytree(saved[1], tmp_path / "stanford")

    def write(**changes):
        (copy / "artifact.metadata").write_text(json.dumps({**METADATA, **changes}))
        return copy

    return write


def test_its_vectors_are_those_of_the_embedder_whose_weights_it_holds(saved, folder):
    task, again = saved[0], load_task(folder())
    assert again.settings() == task.settings()
    for one, other in ((task.queries, again.queries), (task.documents, again.documents)):
        for vectors, others in zip(one(TEXTS), other(TEXTS), strict=True):
            np.testing.assert_allclose(others, vectors, atol=1e-6)
    again.save(folder().parent / "again")
    np.testing.assert_array_equal(load_task(folder().parent / "again").scores_of("cat", TEXTS), again.scores_of("cat", TEXTS))


def test_settings_that_it_does_not_say_are_those_of_colbert_and_documents_are_as_long_as_the_model_allows(saved):
    settings = read_retriever_folder(saved[1]).settings  # without artifact.metadata
    lengths = {
        "query_len": 32,
        "document_len": limit("max_position_embeddings"),
        "query_prefix": "[unused0] ",
        "document_prefix": "[unused1] ",
    }
    expected = {**lengths, "query_expansion": True, "attend_to_expansion": False, "skiplist_words": list(string.punctuation)}
    assert {name: value for name, value in settings.items() if name != "modules"} == expected


def test_its_settings_are_read(folder):
    settings = read_retriever_folder(folder(attend_to_mask_tokens=True, mask_punctuation=False)).settings
    assert (settings["attend_to_expansion"], settings["skiplist_words"]) == (True, [])


def test_its_encoder_is_loaded_without_the_projection(folder):
    assert from_pretrained(folder()).load_report.unused == ["linear.weight"]


REFUSED = {
    "width": ({"dim": 9}, r"linear.weight with 9 rows, the dim in artifact.metadata; got \(8, 16\)"),
    "measure": ({"similarity": "dot"}, "must have similarity cosine or l2; got 'dot'"),
    "another interaction": ({"interaction": "flipr"}, "must have interaction colbert; got 'flipr'"),
    "length": ({"doc_maxlen": "long"}, "must have a whole number as doc_maxlen; got 'long'"),
    "marker": ({"query_token_id": 1}, "must have a text as query_token_id; got 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_must_not_have_is_refused(folder, name):
    changes, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        load_task(folder(**changes))


def test_a_folder_without_the_projection_is_refused(folder):
    file = folder() / "model.safetensors"
    save_file({name: array for name, array in load_file(file).items() if name != "linear.weight"}, file)
    with pytest.raises(ValueError, match=r"must have weights named linear\.weight, the projection of ColBERT"):
        load_task(folder())
