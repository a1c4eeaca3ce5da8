"""Folders of PyLate and of older versions of sentence-transformers, as version 6 reads them; prompts of sparse vectors; MiniLM."""

import itertools
import json
import shutil

import cases
import numpy as np
import pytest
import torch
import transformers
from helpers import minilm
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from test_search_tasks import QUERY, TEXTS, WORDS, folder_of

from keras_bert_rebuild import load_task

OLDER = "sentence_transformers.models.Transformer"


def rewritten(file, **changes):
    """Change values of a JSON file; None removes a key."""
    values = {**(json.loads(file.read_text()) if file.is_file() else {}), **changes}
    file.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


def with_modules(folder, *modules):
    listed = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (kind, path) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))


@pytest.fixture
def pylate(tmp_path):
    """A folder as PyLate 1 saves it, with the prefixes as tokens of their own."""
    folder = tmp_path / "pylate"
    model = cases.random_model("Bert", "Model", {**cases.BERT, "vocab_size": len(WORDS)})
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"), do_lower_case=True)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "1_Dense").mkdir()
    torch.manual_seed(4)
    linear = torch.nn.Linear(12, 6, bias=False)
    torch.save({"linear.weight": linear.weight.detach()}, folder / "1_Dense" / "pytorch_model.bin")
    activation = {"activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "1_Dense" / "config.json").write_text(json.dumps({"in_features": 12, "out_features": 6, "bias": False, **activation}))
    with_modules(folder, (OLDER, ""), ("pylate.models.Dense.Dense", "1_Dense"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False}))
    rewritten(
        folder / "config_sentence_transformers.json",
        model_type="ColBERT",
        prompts={},
        similarity_fn_name="MaxSim",
        query_prefix="[Q] ",
        document_prefix="[D] ",
        query_length=9,
        document_length=14,
        attend_to_expansion_tokens=False,
        skiplist_words=[".", ","],
        do_query_expansion=True,
    )
    return folder


PYLATE = {
    "as saved": {},
    "attended": {"attend_to_expansion_tokens": True},
    "not filled up": {"do_query_expansion": False},
    "no words left out": {"skiplist_words": []},
    "punctuation by default": {"skiplist_words": None},
    "prefixes of the vocabulary": {"query_prefix": "[unused0]", "document_prefix": "[unused1]"},
    "prefixes that are text": {"query_prefix": "worda: ", "document_prefix": "wordb wordc "},
    "no document length": {"document_length": None},
}


def check_vectors(folder):
    """Compare the vectors of a folder, and of the folder that its task saves, with those of sentence-transformers."""
    theirs, task = MultiVectorEncoder(str(folder), device="cpu"), load_task(folder)
    task.save(folder.parent / "ours")
    again = MultiVectorEncoder(str(folder.parent / "ours"), device="cpu")
    expected = [*theirs.encode_query(TEXTS), *theirs.encode_document(TEXTS)]
    for vectors in ((task.queries(TEXTS), task.documents(TEXTS)), (again.encode_query(TEXTS), again.encode_document(TEXTS))):
        for one, other in zip(itertools.chain(*vectors), expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-5)


@pytest.mark.parametrize("name", PYLATE)
def test_a_folder_of_pylate_has_the_vectors_that_version_6_gives_it(pylate, name):
    rewritten(pylate / "config_sentence_transformers.json", **PYLATE[name])
    check_vectors(pylate)


@pytest.fixture
def stanford(tmp_path):
    """A folder as Stanford's ColBERT saves it: `bert.*` and `linear.weight` in one file, and artifact.metadata."""
    folder = folder_of("Model", tmp_path)
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(4)
    linear = torch.nn.Linear(12, 6, bias=False).weight.detach()
    arrays = {f"bert.{name}": value for name, value in weights.items()}
    save_file({**arrays, "linear.weight": linear}, folder / "model.safetensors", metadata={"format": "pt"})
    rewritten(folder / "config.json", architectures=["HF_ColBERT"])
    rewritten(
        folder / "artifact.metadata",
        query_maxlen=9,
        doc_maxlen=14,
        dim=6,
        similarity="cosine",
        interaction="colbert",
        attend_to_mask_tokens=False,
        mask_punctuation=True,
        query_token_id="[unused0]",
        doc_token_id="[unused1]",
    )
    return folder


STANFORD = {
    "as saved": {},
    "masks are attended to": {"attend_to_mask_tokens": True},
    "punctuation stays": {"mask_punctuation": False},
    "other markers": {"query_token_id": "worda", "doc_token_id": "wordb"},
    "no document length": {"doc_maxlen": None},
    "markers by default": {"query_token_id": None, "doc_token_id": None, "mask_punctuation": None},
}


@pytest.mark.parametrize("name", STANFORD)
def test_a_folder_of_stanford_has_the_vectors_that_version_6_gives_it(stanford, name):
    rewritten(stanford / "artifact.metadata", **STANFORD[name])
    check_vectors(stanford)


def test_a_query_of_stanford_is_the_projection_of_every_token_scaled(stanford):
    task, encoder = load_task(stanford), transformers.BertModel.from_pretrained(stanford).eval()
    linear = load_file(stanford / "model.safetensors")["linear.weight"]
    ids = [WORDS.index(word) for word in ("[CLS]", "[unused0]", "worda", "wordb", "[SEP]", *["[MASK]"] * 4)]
    with torch.no_grad():
        tokens = encoder(torch.tensor([ids]), attention_mask=torch.tensor([[1] * 5 + [0] * 4])).last_hidden_state[0]
    expected = torch.nn.functional.normalize(tokens @ linear.T, dim=-1).numpy()
    np.testing.assert_allclose(next(task.queries(["worda wordb"])), expected, atol=1e-5)


def test_a_dense_layer_of_pylate_may_have_a_connection_around_it(pylate):
    matrix = torch.nn.Linear(12, 6, bias=False).weight.detach()
    weights = torch.load(pylate / "1_Dense" / "pytorch_model.bin")
    torch.save({**weights, "residual.weight": matrix}, pylate / "1_Dense" / "pytorch_model.bin")
    rewritten(pylate / "1_Dense" / "config.json", use_residual=True)
    theirs, task = MultiVectorEncoder(str(pylate), device="cpu"), load_task(pylate)
    task.save(pylate.parent / "ours")
    again = MultiVectorEncoder(str(pylate.parent / "ours"), device="cpu")
    for one, *others in zip(theirs.encode_query(TEXTS), task.queries(TEXTS), again.encode_query(TEXTS), strict=True):
        for other in others:
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), atol=1e-5)


IDENTITY = "torch.nn.modules.linear.Identity"
CROSS = {
    "version 3": ({"sbert_ce_default_activation_function": IDENTITY}, None),
    "version 4": ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.1.0"}}, None),
    "version 4 without its activation": ({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}, None),
    "version 5.4": ({}, {"activation_fn": IDENTITY, "model_type": "CrossEncoder"}),
    "no activation": ({}, {"model_type": "CrossEncoder"}),
}


@pytest.mark.parametrize("name", CROSS)
def test_the_activation_of_a_cross_encoder_is_found_in_every_version(tmp_path, name):
    folder = folder_of("ForSequenceClassification", tmp_path, num_labels=1)
    of_config, of_library = CROSS[name]
    rewritten(folder / "config.json", **of_config)
    if of_library is not None:
        rewritten(folder / "config_sentence_transformers.json", **of_library)
    if name == "version 5.4":
        with_modules(folder, ("sentence_transformers.base.modules.transformer.Transformer", ""))
        rewritten(folder / "sentence_bert_config.json", transformer_task="sequence-classification")
    pairs = [*((QUERY, text) for text in TEXTS), (TEXTS[2], TEXTS[2]), (TEXTS[2], TEXTS[2][6:])]  # both are cut
    task = load_task(folder)
    assert task.kind == "reranking"
    theirs = CrossEncoder(str(folder), device="cpu")
    np.testing.assert_allclose(task.scores_of(pairs), theirs.predict(pairs), atol=1e-5)
    task.save(tmp_path / "ours")
    np.testing.assert_allclose(CrossEncoder(str(tmp_path / "ours"), device="cpu").predict(pairs), theirs.predict(pairs), atol=1e-5)


@pytest.mark.parametrize("old", [False, True])
def test_prompts_and_the_number_of_words_of_sparse_vectors_agree(tmp_path, old):
    folder = folder_of("ForMaskedLM", tmp_path)
    SparseEncoder(str(folder), device="cpu").save(str(tmp_path / "theirs"))
    folder = tmp_path / "theirs"
    settings = {"prompts": {"query": "worda ", "document": "wordb: ", "title": "wordc "}, "default_prompt_name": "title"}
    rewritten(folder / "config_sentence_transformers.json", **settings, max_active_dims=None if old else 7)
    if old:
        names = ("MLMTransformer.MLMTransformer", "SpladePooling.SpladePooling")
        with_modules(
            folder,
            *(
                (f"sentence_transformers.sparse_encoder.models.{name}", path)
                for name, path in zip(names, ("", "1_SpladePooling"), strict=True)
            ),
        )
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 13, "do_lower_case": False}))
    model, task = SparseEncoder(str(folder), device="cpu"), load_task(folder)
    task.save(tmp_path / "ours")
    again = SparseEncoder(str(tmp_path / "ours"), device="cpu")
    for encode, ours in (("encode", task), ("encode_query", task.queries), ("encode_document", task.documents)):
        expected, written = (getattr(each, encode)(TEXTS).to_dense().numpy() for each in (model, again))
        np.testing.assert_allclose(written, expected, atol=1e-5)
        for row, (ids, weights) in zip(expected, ours(TEXTS), strict=True):
            np.testing.assert_array_equal(np.flatnonzero(row > 1e-6), ids[weights > 1e-6])
            np.testing.assert_allclose(row[ids], weights, atol=1e-5)


@pytest.mark.slow(torch=True)
def test_minilm_gives_the_same_vectors_of_long_texts(tmp_path):
    folder = tmp_path / "minilm"
    shutil.copytree(minilm.FOLDER, folder)
    if not (folder / "modules.json").is_file():
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 384, "pooling_mode_mean_tokens": true}')
        kinds = [(OLDER, ""), ("sentence_transformers.models.Pooling", "1_Pooling")]
        with_modules(folder, *kinds, ("sentence_transformers.models.Normalize", "2_Normalize"))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128, "do_lower_case": False}))
    text = minilm.TEXT.read_text(encoding="utf-8")
    texts = [text, *text.split("\n")[:20]]
    model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(load_task(folder)(texts), model.encode(texts), atol=1e-5)
