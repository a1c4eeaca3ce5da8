"""Folders that search: which kind they are, and the settings of sparse, late-interaction and reranking tasks."""

import inspect
import json
import string

import numpy as np
import pytest
from helpers.hostile_inputs import fault_of, mutations
from safetensors.numpy import save_file

from keras_bert_rebuild.files.reading import check_values
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
from keras_bert_rebuild.tasks.registry import task_class

FIRST = "sentence_transformers.base.modules.transformer.Transformer"
SPLADE = "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling"
MASK = "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask"
UNIT = "sentence_transformers.base.modules.normalize.Normalize"
TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}


def folder(path, kinds=None, files=None, **settings):
    """A folder with these modules, files and settings of config_sentence_transformers.json."""
    if kinds is not None:
        modules = [{"path": "" if i == 0 else f"{i}_{kind.rsplit('.', 1)[-1]}", "type": kind} for i, kind in enumerate(kinds)]
        (path / "modules.json").write_text(json.dumps(modules))
    for name, values in {"config_sentence_transformers.json": settings, **(files or {})}.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(json.dumps(values))
    return path


SPARSE = {"sentence_bert_config.json": {"transformer_task": "fill-mask", "max_seq_length": 99}}
POOLED = {**SPARSE, "1_SpladePooling/config.json": {"pooling_strategy": "sum", "activation_function": "log1p_relu"}}


def test_a_sparse_encoder_has_its_pooling_activation_and_prompts(tmp_path):
    folder(tmp_path, [FIRST, SPLADE], POOLED, prompts={"query": "q: "}, max_active_dims=64)
    found = read_retriever_folder(tmp_path)
    assert found.kind == "sparse_embedding"
    told = {"pooling": "sum", "activation": "log1p_log1p_relu", "prompts": {"query": "q: "}}
    assert found.settings == {**told, "max_active": 64, "truncate": True, "max_len": 99}


CLASSIFIER = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}


def test_a_cross_encoder_is_recognised_by_its_modules_or_by_marks_in_its_config(tmp_path):
    folder(tmp_path, files={"config.json": CLASSIFIER})
    assert read_retriever_folder(tmp_path) is None
    marked = {**CLASSIFIER, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
    found = read_retriever_folder(folder(tmp_path, files={"config.json": marked}))
    assert (found.kind, found.settings) == ("reranking", {"activation": "linear", "truncate": True})
    files = {"config.json": CLASSIFIER, "sentence_bert_config.json": {"transformer_task": "sequence-classification"}}
    found = read_retriever_folder(folder(tmp_path, [FIRST], files))
    assert (found.kind, found.settings) == ("reranking", {"activation": "sigmoid", "truncate": True})
    several = {**CLASSIFIER, "id2label": {"0": "no", "1": "yes"}}
    assert read_retriever_folder(folder(tmp_path, [FIRST], {**files, "config.json": several})) is None


EXPANSION = {"strategy": "fixed", "attend": True, "token": None, "length": 24}
LATE = {
    "sentence_bert_config.json": {"query_expansion": EXPANSION, "document_length": 200},
    "1_Normalize/config.json": TOKENS,
    "2_MultiVectorMask/config.json": {"skiplist_words": ["."], "skiplist_tasks": ["document"]},
}


def test_a_multi_vector_encoder_has_its_lengths_prefixes_and_words_to_skip(tmp_path):
    folder(tmp_path, [FIRST, UNIT, MASK], LATE, prompts={"query": "[Q] ", "document": "[D] "})
    found = read_retriever_folder(tmp_path)
    assert found.kind == "late_interaction"
    told = found.settings
    assert [type(module).__name__ for module in told.pop("modules")] == ["UnitModule"]
    lengths = {"query_len": 24, "document_len": 200, "query_prefix": "[Q] ", "document_prefix": "[D] "}
    assert told == {**lengths, "query_expansion": True, "attend_to_expansion": True, "skiplist_words": ["."]}


def test_pylate_fills_queries_up_leaves_punctuation_out_and_scales_vectors(tmp_path):
    folder(tmp_path, [FIRST], query_prefix="[Q] ", document_prefix="", document_length=180, model_type="ColBERT")
    told = read_retriever_folder(tmp_path).settings
    assert [type(module).__name__ for module in told["modules"]] == ["UnitModule"]
    assert (told["query_len"], told["query_expansion"], told["attend_to_expansion"]) == (32, True, False)
    assert told["skiplist_words"] == list(string.punctuation)
    folder(tmp_path, [FIRST], do_query_expansion=False, query_length=48, skiplist_words=["?"], model_type="ColBERT")
    told = read_retriever_folder(tmp_path).settings
    assert (told["query_len"], told["query_expansion"], told["skiplist_words"]) == (48, False, ["?"])


REFUSED = {
    "a router": (
        [FIRST, "sentence_transformers.base.modules.router.Router"],
        {},
        {},
        "Transformer and Pooling first; got .*Router",
    ),
    "a static embedding": (["sentence_transformers.models.StaticEmbedding"], {}, {}, "first; got StaticEmbedding"),
    "sparse: an autoencoder": (
        [FIRST, SPLADE, f"{SPLADE}.SparseAutoEncoder"],
        SPARSE,
        {},
        "got .*SpladePooling, SparseAutoEncoder",
    ),
    "sparse: no masked language model": (
        [FIRST, SPLADE],
        {"sentence_bert_config.json": {}},
        {},
        "transformer_task must be 'fill-mask', got None",
    ),
    "sparse: a pooling": (
        [FIRST, SPLADE],
        {**SPARSE, "1_SpladePooling/config.json": {"pooling_strategy": "mean"}},
        {},
        "a pooling_strategy of max or sum .*; got 'mean' and 'relu'",
    ),
    "sparse: a measure": ([FIRST, SPLADE], POOLED, {"similarity_fn_name": "cosine"}, "similarity_fn_name dot; got 'cosine'"),
    "late: pooled tokens": ([FIRST, MASK, "x.HierarchicalTokenPooling"], LATE, {}, "modules of sentence_transformers; got 'x.Hier"),
    "late: a pooling": (
        [FIRST, MASK, "sentence_transformers.models.HierarchicalTokenPooling"],
        LATE,
        {},
        "some of Dense, .*HierarchicalTokenPooling",
    ),
    "late: a strategy": (
        [FIRST, UNIT, MASK],
        {**LATE, "sentence_bert_config.json": {"query_expansion": {"strategy": "min", "length": 8}}},
        {},
        "a query_expansion of the strategy fixed",
    ),
    "late: a token": (
        [FIRST, UNIT, MASK],
        {**LATE, "sentence_bert_config.json": {"query_expansion": {**EXPANSION, "token": "[PAD]"}}},
        {},
        "the mask token of the tokenizer; got '.PAD.'",
    ),
    "late: words of queries": (
        [FIRST, UNIT, MASK],
        {**LATE, "2_MultiVectorMask/config.json": {"skiplist_tasks": ["query"]}},
        {},
        "must only leave words out of documents",
    ),
    "late: a measure": (
        [FIRST, UNIT, MASK],
        LATE,
        {"similarity_fn_name": "meanmaxsim"},
        "similarity_fn_name maxsim; got 'meanmaxsim'",
    ),
    "late: a default prompt": (
        [FIRST, UNIT, MASK],
        LATE,
        {"prompts": {"a": "b"}, "default_prompt_name": "a"},
        "must have no default prompt",
    ),
    "reranker: an activation": (
        [FIRST],
        {"config.json": CLASSIFIER, "sentence_bert_config.json": {"transformer_task": "sequence-classification"}},
        {"activation_fn": "torch.nn.modules.activation.Tanh"},
        "an activation_fn of torch.nn among Sigmoid, Identity; got 'torch.nn.modules.activation.Tanh'",
    ),
    "reranker: a language model": (
        [FIRST],
        {"config.json": CLASSIFIER, "sentence_bert_config.json": {"transformer_task": "text-generation"}},
        {},
        "transformer_task must be 'sequence-classification', got 'text-generation'",
    ),
    "reranker: logits of words": (
        [FIRST, "sentence_transformers.cross_encoder.modules.LogitScore"],
        {"config.json": CLASSIFIER},
        {"model_type": "CrossEncoder"},
        "the module Transformer alone; got Transformer, LogitScore",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_by_name(tmp_path, name):
    kinds, files, settings, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read_retriever_folder(folder(tmp_path, kinds, files, **settings))


DENSE = {
    "sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False},
    "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "include_prompt": True},
    "2_Dense/config.json": {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh", "use_residual": False},
}
POOLING = "sentence_transformers.models.Pooling"
OF_DENSE = {"prompts": {"query": "q: "}, "default_prompt_name": "query", "similarity_fn_name": "cosine", "truncate_dim": 2}
PYLATE = {"query_prefix": "[Q] ", "document_prefix": "", "document_length": 180, "query_length": 32, "skiplist_words": ["?"]}
PYLATE |= {"do_query_expansion": True, "attend_to_expansion_tokens": False, "attend_to_mask_tokens": False, "model_type": "ColBERT"}
MARKED = {**CLASSIFIER, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity", "num_labels": 1}
STANFORD = {"query_maxlen": 12, "doc_maxlen": 16, "dim": 2, "similarity": "l2", "query_token_id": "q", "doc_token_id": "d"}
STANFORD |= {"attend_to_mask_tokens": False, "mask_punctuation": True}
BERT = {"vocab_size": 4, "hidden_size": 2, "num_hidden_layers": 0, "num_attention_heads": 1, "intermediate_size": 2}

# A kind of folder to its modules, files and settings.
GOOD = {
    "dense": ([FIRST, POOLING, "sentence_transformers.models.Dense"], DENSE, OF_DENSE),
    "poolings of version 6": ([FIRST, POOLING], {"1_Pooling/config.json": {"pooling_mode": ["cls", "mean"]}}, {}),
    "sparse": ([FIRST, SPLADE], POOLED, {"prompts": {"query": "q: "}, "max_active_dims": 64, "similarity_fn_name": "dot"}),
    "late": ([FIRST, UNIT, MASK], LATE, {"prompts": {"query": "[Q] "}, "similarity_fn_name": "maxsim"}),
    "PyLate": ([FIRST], {}, PYLATE),
    "reranker": (
        [FIRST],
        {"config.json": CLASSIFIER, "sentence_bert_config.json": {"transformer_task": "sequence-classification"}},
        {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
    ),
    "reranker of version 4": (None, {"config.json": {**MARKED, "sentence_transformers": {"version": "4.0.1"}}}, {}),
    "ColBERT": (None, {"config.json": {**BERT, "architectures": ["HF_ColBERT"]}, "artifact.metadata": STANFORD}, {}),
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_value_of_a_wrong_type_is_a_sentence_that_names_the_folder_or_is_read_as_what_the_task_takes(tmp_path, kind):
    folder(tmp_path, *GOOD[kind][:2], **GOOD[kind][2])
    kernel = {"linear.weight": np.ones((2, 2), "float32"), "linear.bias": np.ones(2, "float32")}
    for name in ("2_Dense/model.safetensors", *(["model.safetensors"] if kind == "ColBERT" else [])):
        if (tmp_path / name).parent.is_dir():
            save_file(kernel, tmp_path / name)

    def read():
        found = read_retriever_folder(tmp_path)
        if found is not None:
            parameters = inspect.signature(task_class(found.kind)).parameters
            check_values(found.settings, {name: parameters[name].annotation for name in found.settings}, "the settings")

    assert fault_of(read, str(tmp_path)) is None
    faults = []
    for file in [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.metadata")]:
        good = file.read_text()
        for where, mutated in mutations(json.loads(good)):
            file.write_text(json.dumps(mutated).replace("Infinity", "1e400"))
            fault = fault_of(read, str(tmp_path))
            faults += [] if fault is None else [f"{file.name}: {where}: {fault}"]
        file.write_text(good)
    assert faults == []


def test_a_thousand_modules_are_one_sentence(tmp_path):
    folder(tmp_path, [FIRST, POOLING, *[UNIT] * 1200], {"1_Pooling/config.json": {}})
    with pytest.raises(ValueError, match=r"modules\.json must have at most 64 modules; got 1,202"):
        read_retriever_folder(tmp_path)


def test_texts_are_cut_at_the_maximum_of_the_model_unless_the_folder_has_lengths(tmp_path):
    told = read_retriever_folder(folder(tmp_path, [FIRST, UNIT, MASK], model_type="MultiVectorEncoder")).settings
    assert min(told["query_len"], told["document_len"]) >= 512
    assert not told["query_expansion"]
    told = read_retriever_folder(folder(tmp_path, [FIRST], model_type="ColBERT", query_prefix="[Q] ")).settings
    assert (told["query_len"], told["query_expansion"]) == (32, True)  # queries are expanded to this length
    assert told["document_len"] >= 512
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "ColBERT"}))
    assert not read_retriever_folder(tmp_path).settings["query_expansion"]  # as in sentence-transformers 6
    sizes = {"config.json": {"max_position_embeddings": 512}, "tokenizer_config.json": {"model_max_length": 300}}
    told = read_retriever_folder(folder(tmp_path, [FIRST, UNIT, MASK], sizes, model_type="MultiVectorEncoder")).settings
    assert (told["query_len"], told["document_len"]) == (300, 300)
