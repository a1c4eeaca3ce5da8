"""Folders of sentence-transformers with every module: `keras-bert embed` gives the vectors of the library, or refuses."""

import json

import cases
import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from keras_bert_rebuild import SentenceEmbedder, load_task
from keras_bert_rebuild.cli.main import main

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{chr(97 + i)}" for i in range(26)), *(f"##{c}" for c in "abcdefg")]
TEXTS = ["worda wordb", "WORDC", "wordd " * 40, "worde wordf wordg wordh", "wordi wordzz"]


@pytest.fixture
def encoder(tmp_path):
    """A folder of a tiny BERT of transformers with its tokenizer."""
    folder = tmp_path / "encoder"
    cases.random_model("Bert", "Model", cases.BERT).save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    return folder


def saved(encoder, *behind, pooling="mean", include_prompt=True, limit=None, prompts=None, default=None, **settings):
    """The library's model with these modules, and its folder."""
    torch.manual_seed(3)
    first = st.Transformer(str(encoder), **({} if limit is None else {"max_seq_length": limit}))
    pool = st.Pooling(12, pooling_mode=pooling, include_prompt=include_prompt)
    modules = [first, pool, *behind]
    model = SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name=default, device="cpu", **settings)
    folder = encoder.parent / "sentences"
    model.save(str(folder))
    return SentenceTransformer(str(folder), device="cpu"), folder


def embedded(folder, *options):
    """The output of the command, or its exit code."""
    (folder.parent / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    output = folder.parent / "vectors.npy"
    code = main(["embed", str(folder.parent / "texts.txt"), "--model", str(folder), "--output", str(output), *options])
    return np.load(output) if code == 0 else code


LEFT_OUT = {"prompts": {"query": "worda wordb, "}, "default": "query", "include_prompt": False}
torch.manual_seed(5)  # of the modules below, whichever module was imported before: a vector of zeros has no direction
EXACT = {
    "mean": ((), {}),
    "cls": ((), {"pooling": "cls"}),
    "max": ((), {"pooling": "max"}),
    "in the order of the file": ((), {"pooling": ("mean", "cls")}),
    "three": ((), {"pooling": ("max", "mean", "cls")}),
    "normalised": ((st.Normalize(),), {}),
    "a limit": ((), {"limit": 7}),
    "a limit beyond the tokenizer's": ((), {"limit": 20}),
    "dense": ((st.Dense(12, 5),), {}),
    "dense without bias": ((st.Dense(12, 5, bias=False, activation_function=torch.nn.Identity()),), {}),
    "dense with gelu": ((st.Dense(12, 9, activation_function=torch.nn.GELU()), st.Normalize()), {}),
    "two dense": ((st.Dense(24, 7), st.Dense(7, 4, activation_function=torch.nn.ReLU())), {"pooling": ("mean", "cls")}),
    "unit and dense": ((st.Normalize(), st.Dense(12, 3), st.Normalize()), {}),
    "norm": ((st.LayerNorm(12),), {}),
    "a connection around dense": ((st.Dense(12, 12, use_residual=True),), {}),
    "connections around dense": ((st.Dense(12, 7, use_residual=True), st.Dense(7, 5, bias=False, use_residual=True)), {}),
    "dropout": ((st.Dropout(0.5), st.Normalize()), {}),
    "a default prompt": ((), {"prompts": {"query": "wordb: "}, "default": "query"}),
    "a prompt that is no default": ((), {"prompts": {"query": "wordb: "}}),
    "a prompt left out of the pooling, never used": ((), {"prompts": {"title": "wordb: "}, "include_prompt": False}),
    **{f"{name} without its prompt": ((), {"pooling": name, **LEFT_OUT}) for name in st.Pooling.POOLING_MODES},
    "prompts of queries and documents": ((st.Normalize(),), {"prompts": {"query": "wordb: ", "document": "worda wordc "}}),
    "weighted mean": ((), {"pooling": "weightedmean"}),
    "last token": ((), {"pooling": ("mean", "lasttoken")}),
    "square root": ((), {"pooling": "mean_sqrt_len_tokens"}),
    "all poolings": ((st.Dense(72, 8),), {"pooling": st.Pooling.POOLING_MODES}),
    "all poolings the other way": ((), {"pooling": st.Pooling.POOLING_MODES[::-1]}),
    "fewer numbers": ((st.Normalize(),), {"truncate_dim": 5}),
    "compared by their product": ((), {"similarity_fn_name": "dot"}),
}


@pytest.mark.parametrize("name", EXACT)
def test_vectors_agree_both_ways(encoder, name):
    behind, options = EXACT[name]
    model, folder = saved(encoder, *behind, **options)
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(embedded(folder), expected, atol=1e-5)
    task = load_task(folder)
    np.testing.assert_allclose(task(TEXTS), expected, atol=1e-5)
    task.save(encoder.parent / "ours")
    again = SentenceTransformer(str(encoder.parent / "ours"), device="cpu")
    assert (again.max_seq_length, again.similarity_fn_name) == (model.max_seq_length, model.similarity_fn_name)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)
    for ours, theirs in ((task.queries, model.encode_query), (task.documents, model.encode_document)):
        vectors = theirs(TEXTS)
        np.testing.assert_allclose(again.encode_query(TEXTS), model.encode_query(TEXTS), atol=1e-5)
        if model.similarity_fn_name == "cosine":
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(list(ours(TEXTS)), vectors, atol=1e-5)
    ours = load_task(encoder.parent / "ours")  # with its task.json
    assert ours.description() == task.description()
    np.testing.assert_array_equal(ours(TEXTS), task(TEXTS))


def test_a_prompt_of_the_command_is_a_name_or_a_text(encoder):
    model, folder = saved(encoder, prompts={"title": "wordb: "}, default="title", include_prompt=False)
    for prompt in ("title", "worde wordf "):
        options = {"prompt_name": prompt} if prompt == "title" else {"prompt": prompt}
        np.testing.assert_allclose(embedded(folder, "--prompt", prompt, "--overwrite"), model.encode(TEXTS, **options), atol=1e-5)


def test_the_limit_without_a_file_is_that_of_the_tokenizer_and_not_of_the_model(encoder):
    values = json.loads((encoder / "tokenizer_config.json").read_text())
    (encoder / "tokenizer_config.json").write_text(json.dumps({**values, "model_max_length": 9}))
    model, folder = saved(encoder)
    assert model.max_seq_length == 9
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)


KEYS = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
OLDER = "sentence_transformers.models"


@pytest.mark.parametrize("modes", [(), KEYS[:1], KEYS[2:], KEYS[1::2], KEYS])
def test_folders_of_older_versions_agree(encoder, modes):
    _, folder = saved(encoder)
    old = {"word_embedding_dimension": 12, **{f"pooling_mode_{key}": key in modes for key in KEYS}}
    modules = [{"path": "", "type": f"{OLDER}.Transformer"}, {"path": "1_Pooling", "type": f"{OLDER}.Pooling"}]
    modules = [{"idx": index, "name": str(index), **module} for index, module in enumerate(modules)]
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(old))
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 11, "do_lower_case": True}))
    (folder / "config_sentence_transformers.json").unlink()
    model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(load_task(folder)(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_do_lower_case_lower_cases_a_cased_tokenizer(encoder):
    _, folder = saved(encoder, limit=11)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 11, "do_lower_case": True}))
    values = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**values, "do_lower_case": False}))
    pipeline = json.loads((folder / "tokenizer.json").read_text())
    pipeline["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(pipeline))
    model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)
    load_task(folder).save(encoder.parent / "ours")
    np.testing.assert_allclose(SentenceTransformer(str(encoder.parent / "ours")).encode(TEXTS), model.encode(TEXTS), atol=1e-5)


REFUSED = {
    "another output": ((st.Dense(12, 12, module_output_name="other"),), {}, "module_output_name"),
    "another activation": ((st.Dense(12, 12, activation_function=torch.nn.Softsign()),), {}, "Softsign"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_change_the_vectors_are_refused_by_name(encoder, capsys, name):
    behind, options, message = REFUSED[name]
    _, folder = saved(encoder, *behind, **options)
    assert embedded(folder) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "module",
    [st.WordWeights(WORDS, {"worda": 2.0}), st.CNN(12, 4), st.LSTM(12, 6), st.WeightedLayerPooling(12, 2, 1)],
    ids=lambda module: type(module).__name__,
)
def test_modules_before_the_pooling_are_refused_by_name(encoder, capsys, module):
    first = st.Transformer(str(encoder))
    folder = encoder.parent / "sentences"
    SentenceTransformer(modules=[first, module, st.Pooling(12)], device="cpu").save(str(folder))
    assert embedded(folder) == 2
    assert type(module).__name__ in capsys.readouterr().err
    with pytest.raises(ValueError, match=type(module).__name__):
        load_task(folder)


def test_windows_of_long_texts_are_an_offer_of_ours_alone(encoder):
    task = SentenceEmbedder.from_encoder(encoder, max_len=16)
    task.save(encoder.parent / "ours")
    model = SentenceTransformer(str(encoder.parent / "ours"), device="cpu")
    assert model.max_seq_length == 16
    short = [text for text in TEXTS if len(text) < 50]
    np.testing.assert_allclose(task(short), model.encode(short), atol=1e-5)
    assert np.abs(task(TEXTS) - model.encode(TEXTS)).max() > 1e-3
    np.testing.assert_allclose(load_task(encoder.parent / "ours", truncate=True)(TEXTS), model.encode(TEXTS), atol=1e-5)
