"""Folders with every head and their tokenizers, read by the libraries they are written for, and theirs read here."""

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from helpers import minilm
from helpers.small import answers
from safetensors.numpy import load_file

from keras_bert_rebuild import Tokenizer, build_model, from_pretrained, load_vocabulary, save_pretrained
from keras_bert_rebuild.models.heads import heads_of

TEXTS = ["The harbour was quiet.", "Déjà vu, naïve café!", "unbelievably long-winded words", "博物馆 in London"]


def tokens_here(folder, text):
    return Tokenizer(load_vocabulary(folder / "vocab.txt")).encode(text)[0]


@pytest.mark.parametrize("way", [["huggingface"], ["google", "huggingface"], ["keras", "huggingface"]])
def test_the_tokenizer_is_saved_too(tmp_path, way):
    source = minilm.FOLDER
    for i, format in enumerate(way):
        model = from_pretrained(source)
        source = tmp_path / f"{i}_{format}"
        save_pretrained(model, source, format)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == tokens_here(minilm.FOLDER, text)


def test_a_custom_vocabulary_becomes_a_tokenizer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "all", "work", "and", "no", "play", "##s"]
    model = from_pretrained(cases_folder(tmp_path, "bert_masked_lm"))
    save_pretrained(model, tmp_path / "ours", vocabulary=words)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer("All plays")["input_ids"] == [2, 5, 9, 10, 3]
    assert tokenizer.mask_token_id == 4


def test_a_pipeline_runs_a_written_folder(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(35))]
    model = from_pretrained(cases_folder(tmp_path, "bert_pretraining"))
    save_pretrained(model, tmp_path / "ours", vocabulary=words)
    fill = transformers.pipeline("fill-mask", model=str(tmp_path / "ours"))
    answer = fill("word3 [MASK] word5")[0]
    ids = np.array([[2, 8, 4, 10, 3]])
    mlm = np.asarray(model.predict([ids, ids * 0, ids * 0 + 1], verbose=0)[0])[0, 2]
    assert answer["token"] == mlm.argmax()
    assert answer["score"] == pytest.approx(mlm.max(), abs=1e-5)


def test_a_trained_model_returns_from_google_with_the_same_bytes(tmp_path):
    save_pretrained(from_pretrained(minilm.FOLDER), tmp_path / "google", "google")
    save_pretrained(from_pretrained(tmp_path / "google"), tmp_path / "back")
    before, after = load_file(minilm.FOLDER / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert set(before) - set(after) == {"embeddings.position_ids"}
    for name, array in after.items():
        assert array.tobytes() == before[name].tobytes()
    model, again = (transformers.AutoModel.from_pretrained(folder).eval() for folder in (minilm.FOLDER, tmp_path / "back"))
    ids = torch.tensor(minilm.text_ids()[None, :100])
    with torch.no_grad():
        assert torch.equal(model(ids).last_hidden_state, again(ids).last_hidden_state)


# Every short length, and of the others every ninth and those beside a power of two.
LENGTHS = sorted({*range(1, 66), *range(66, 512, 9), 127, 128, 129, 255, 256, 257, 511, 512})


@pytest.mark.slow(torch=True)
def test_a_trained_model_agrees_at_any_length_without_padding():
    ours = from_pretrained(minilm.FOLDER)
    theirs = transformers.AutoModel.from_pretrained(minilm.FOLDER).eval()
    ids = minilm.text_ids()[None]
    for length in LENGTHS:
        with torch.no_grad():
            expected = theirs(torch.tensor(ids[:, :length])).last_hidden_state.numpy()
        got = ours([ids[:, :length], ids[:, :length] * 0], training=False)[0].detach().numpy()
        np.testing.assert_allclose(got, expected, atol=1e-5)


def cases_folder(tmp_path, case):
    cases.make_model(case).save_pretrained(tmp_path / case)
    return tmp_path / case


# Every family with every head: folders of transformers read here, and our folders read by transformers.


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
