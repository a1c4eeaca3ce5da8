"""Folders of Stanford's ColBERT: the vectors of the embedder whose weights they hold, and what they must have."""

import json
import shutil
import string

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder
from safetensors.numpy import load_file, save_file

from keras_bert_rebuild import LateInteractionEmbedder, from_pretrained, load_task
from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder

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
