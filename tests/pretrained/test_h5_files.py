""".h5 files that keras_bert and the TensorFlow classes of transformers wrote: tests/parity/make_golden_h5.py makes them."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.run_model import answers

from keras_bert_rebuild import BertConfig, from_pretrained

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize(("file", "config"), [("model.h5", None), ("weights.h5", CONFIG)])
def test_a_model_of_keras_bert_answers_as_it_did(file, config):
    golden = np.load(GOLDEN / "keras_bert" / "golden_h5.npz")
    model = from_pretrained(GOLDEN / "keras_bert" / file, config=config)
    mlm, nsp = model.predict([golden["ids"], golden["seg"], golden["msk"]], verbose=0)
    np.testing.assert_allclose(mlm, golden["mlm"], atol=1e-6)
    np.testing.assert_allclose(nsp, golden["nsp"], atol=1e-6)
    assert model.load_report.missing == model.load_report.unused == []


def test_weights_of_keras_bert_alone_want_a_config():
    with pytest.raises(ValueError, match=r"expected bert_config.json next to .*weights.h5; none exists, and no config was given"):
        from_pretrained(GOLDEN / "keras_bert" / "weights.h5")


def test_the_pretraining_model_of_tensorflow_answers_as_it_did():
    golden = np.load(GOLDEN / "tf_pretraining" / "golden_h5.npz")
    model = from_pretrained(GOLDEN / "tf_pretraining")
    mlm, nsp = answers(model, golden["ids"], golden["ids"] * 0)
    np.testing.assert_allclose(mlm, softmax(golden["prediction_logits"]), atol=1e-6)
    np.testing.assert_allclose(nsp, softmax(golden["seq_relationship_logits"]), atol=1e-6)


def test_the_classifier_of_tensorflow_answers_as_it_did():
    golden = np.load(GOLDEN / "tf_classification" / "golden_h5.npz")
    (logits,) = answers(from_pretrained(GOLDEN / "tf_classification"), golden["ids"], golden["ids"] * 0)
    np.testing.assert_allclose(logits, golden["logits"], atol=1e-6)


def test_a_truncated_file_is_one_sentence(tmp_path):
    content = (GOLDEN / "keras_bert" / "model.h5").read_bytes()
    (tmp_path / "model.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is not an HDF5 file or is damaged"):
        from_pretrained(tmp_path)


def test_a_tied_table_that_is_there_twice_must_be_the_same(tmp_path):
    shutil.copytree(GOLDEN / "tf_pretraining", tmp_path / "model")
    with h5py.File(tmp_path / "model" / "tf_model.h5", "a") as file:
        file["mlm___cls/bert/embeddings/word_embeddings/weight:0"][0, 0] += 1
    with pytest.raises(ValueError, match=r"bert.embeddings.word_embeddings.weight twice, with different values"):
        from_pretrained(tmp_path / "model")


def test_a_whole_model_without_pretraining_heads_comes_back_from_an_h5_file(tmp_path):
    from helpers.small_tasks import small_encoder

    model = small_encoder()
    model.save(tmp_path / "model.h5")
    loaded = from_pretrained(tmp_path / "model.h5")
    for mine, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
