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


def saved(encoder, *behind, pooling="mean", include_prompt=True, limit=None, prompts=None, default=None):
    """The library's model with these modules, and its folder."""
    torch.manual_seed(3)
    first = st.Transformer(str(encoder), **({} if limit is None else {"max_seq_length": limit}))
    pool = st.Pooling(12, pooling_mode=pooling, include_prompt=include_prompt)
    model = SentenceTransformer(modules=[first, pool, *behind], prompts=prompts, default_prompt_name=default, device="cpu")
    folder = encoder.parent / "sentences"
    model.save(str(folder))
    return SentenceTransformer(str(folder), device="cpu"), folder


def embedded(folder, *options):
    """The output of the command, or its exit code."""
    (folder.parent / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    output = folder.parent / "vectors.npy"
    code = main(["embed", str(folder.parent / "texts.txt"), "--model", str(folder), "--output", str(output), *options])
    return np.load(output) if code == 0 else code


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
    "dropout": ((st.Dropout(0.5), st.Normalize()), {}),
    "a default prompt": ((), {"prompts": {"query": "wordb: "}, "default": "query"}),
    "a prompt that is no default": ((), {"prompts": {"query": "wordb: "}}),
    "a prompt left out of the pooling, never used": ((), {"prompts": {"query": "wordb: "}, "include_prompt": False}),
}


@pytest.mark.parametrize("name", EXACT)
def test_vectors_agree(encoder, name):
    behind, options = EXACT[name]
    model, folder = saved(encoder, *behind, **options)
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)


def test_the_limit_without_a_file_is_that_of_the_tokenizer_and_not_of_the_model(encoder):
    values = json.loads((encoder / "tokenizer_config.json").read_text())
    (encoder / "tokenizer_config.json").write_text(json.dumps({**values, "model_max_length": 9}))
    model, folder = saved(encoder)
    assert model.max_seq_length == 9
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("modes", [(), ("cls",), ("mean", "cls"), ("max", "mean", "cls")])
def test_folders_of_older_versions_agree(encoder, modes):
    _, folder = saved(encoder)
    keys = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}
    old = {"word_embedding_dimension": 12, **dict.fromkeys(keys.values(), False), **{keys[mode]: True for mode in modes}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(old))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 11, "do_lower_case": True}))
    model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(embedded(folder), model.encode(TEXTS), atol=1e-5)


REFUSED = {
    "weighted mean": ((), {"pooling": "weightedmean"}, "got weightedmean"),
    "last token": ((), {"pooling": ("mean", "lasttoken")}, "got mean, lasttoken"),
    "square root": ((), {"pooling": "mean_sqrt_len_tokens"}, "got mean_sqrt_len_tokens"),
    "a prompt left out": ((), {"prompts": {"query": "worda "}, "default": "query", "include_prompt": False}, "include_prompt"),
    "residual": ((st.Dense(12, 12, use_residual=True),), {}, "use_residual"),
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


def test_folders_of_a_task_and_of_the_library_are_read_by_each_other(encoder):
    task = SentenceEmbedder.from_encoder(encoder, max_len=16)
    task.save(encoder.parent / "ours")
    texts = [text for text in TEXTS if len(text) < 50]
    model = SentenceTransformer(str(encoder.parent / "ours"), device="cpu")
    assert model.max_seq_length == 16
    np.testing.assert_allclose(task(texts), model.encode(texts), atol=1e-5)
    theirs, folder = saved(encoder, st.Normalize(), limit=11)
    again = load_task(folder)
    assert again.max_len == 11
    np.testing.assert_allclose(again(texts), theirs.encode(texts), atol=1e-5)
    for behind, options in (((st.Dense(12, 5),), {}), ((), {"pooling": "cls"}), ((), {"prompts": {"a": "b "}, "default": "a"})):
        _, folder = saved(encoder, *behind, **options)
        with pytest.raises(ValueError, match="a SentenceEmbedder must have the normalised mean over tokens"):
            load_task(folder)
