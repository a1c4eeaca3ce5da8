"""Rerankers, sparse vectors and late interaction beside sentence-transformers: losses, scores and folders, both ways."""

import math
import string

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SparseEncoder
from sentence_transformers.cross_encoder import losses as ce
from sentence_transformers.sparse_encoder.losses import FlopsLoss

from keras_bert_rebuild import LateInteractionEmbedder, Reranker, SparseEmbedder, load_task
from keras_bert_rebuild.training import reranking_losses as ours
from keras_bert_rebuild.training.retrieval_losses import flops

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused0]",
    "[unused1]",
    ".",
    ",",
    *(f"word{chr(97 + i)}" for i in range(26)),
]
TEXTS = ["worda wordb", "WORDC, worda.", "wordd " * 40, "worde wordf wordg wordh", "wordi wordzz wordb"]
QUERY = "wordb wordc"


def folder_of(head, tmp_path, **changes):
    """A folder of a tiny BERT of transformers with its tokenizer."""
    folder = tmp_path / "encoder"
    config = {**cases.BERT, "vocab_size": len(WORDS), **changes}
    cases.random_model("Bert", head, config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    return folder


class Scores(CrossEncoder):
    """A cross-encoder whose logits are given."""

    num_labels, device = 1, torch.device("cpu")

    def __init__(self, scores):
        torch.nn.Module.__init__(self)
        self.scores, self.used = torch.tensor(scores).ravel(), 0

    def preprocess(self, pairs, **kwargs):
        first, self.used = self.used, self.used + len(pairs)
        return {"scores": self.scores[first : self.used]}

    def forward(self, features):
        return features

    __call__ = forward


def test_losses_of_lists_are_those_of_sentence_transformers(rng):
    scores = rng.normal(size=(4, 5)).astype("float32")
    labels = rng.integers(0, 3, (4, 5)).astype("float32")
    labels[:, :2] = (2, 0)
    y_true = np.stack([labels.ravel(), np.ones(20, "float32")], axis=1)
    value = lambda loss: float(loss(y_true, scores.reshape(-1, 1)))  # noqa: E731
    queries, documents = ["q"] * 4, [["d"] * 5] * 4
    theirs = lambda loss: float(loss([queries, documents], list(torch.tensor(labels))))  # noqa: E731
    bits = math.log(2)
    assert value(ours.LambdaLoss(list_size=5)) == pytest.approx(theirs(ce.LambdaLoss(Scores(scores))) * bits, rel=1e-5)
    assert value(ours.PairwiseLoss(5)) == pytest.approx(theirs(ce.RankNetLoss(Scores(scores))) * bits, rel=1e-5)
    listwise = ours.ListwiseLoss(from_scores=True, list_size=5)
    assert value(listwise) == pytest.approx(theirs(ce.ListNetLoss(Scores(scores))), rel=1e-5)
    margin = ce.MarginMSELoss(Scores(scores.T.copy()))([queries, *[["d"] * 4] * 5], torch.tensor(labels))
    assert value(ours.MarginErrorLoss(5)) == pytest.approx(float(margin), rel=1e-5)
    pairs, flat = [["q"] * 20, ["d"] * 20], torch.tensor(labels.ravel()) / 2
    binary = ce.BinaryCrossEntropyLoss(Scores(scores), pos_weight=torch.tensor(3.0))(pairs, flat)
    y_true[:, 0] /= 2
    assert value(ours.PointwiseLoss(positive_weight=3.0)) == pytest.approx(float(binary), rel=1e-5)
    assert value(ours.SquaredErrorLoss()) == pytest.approx(float(ce.MSELoss(Scores(scores))(pairs, flat)), rel=1e-5)


def test_the_price_of_words_is_that_of_sentence_transformers(rng):
    vectors = np.maximum(rng.normal(size=(5, 9)), 0).astype("float32")
    theirs = FlopsLoss.compute_loss_from_embeddings(FlopsLoss(None), torch.tensor(vectors))
    assert float(flops(keras.ops.convert_to_tensor(vectors))) == pytest.approx(float(theirs), rel=1e-6)


@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_a_reranker_has_the_scores_of_a_cross_encoder_both_ways(tmp_path, activation):
    folder = folder_of("ForSequenceClassification", tmp_path, num_labels=1)
    task = load_task(folder, "reranking", activation=activation, truncate=True)
    assert isinstance(task, Reranker)
    pairs = [(QUERY, text) for text in TEXTS]
    of = torch.nn.Sigmoid() if activation == "sigmoid" else torch.nn.Identity()
    theirs = CrossEncoder(str(folder), device="cpu", activation_fn=of)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    expected = theirs.predict(pairs)
    np.testing.assert_allclose(task.scores_of(pairs), expected, atol=1e-5)
    task.save(tmp_path / "ours")
    np.testing.assert_allclose(CrossEncoder(str(tmp_path / "ours"), device="cpu").predict(pairs), expected, atol=1e-5)
    np.testing.assert_allclose(load_task(tmp_path / "theirs").scores_of(pairs), expected, atol=1e-5)
    ranking = theirs.rank(QUERY, TEXTS)
    assert [one["corpus_id"] for one in ranking] == [one.index for one in task.rank(QUERY, TEXTS)]


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("activation", ["log1p_relu", "log1p_log1p_relu"])
def test_sparse_vectors_are_those_of_a_sparse_encoder(tmp_path, pooling, activation):
    folder = folder_of("ForMaskedLM", tmp_path)
    task = load_task(folder, "sparse_embedding", pooling=pooling, activation=activation, truncate=True)
    assert isinstance(task, SparseEmbedder)
    task.save(tmp_path / "ours")
    theirs = SparseEncoder(str(tmp_path / "ours"), device="cpu")
    expected = theirs.encode(TEXTS, convert_to_tensor=True).to_dense().numpy()
    assert (expected > 0).any()
    np.testing.assert_allclose(task.to_scipy(TEXTS).toarray(), expected, atol=1e-5)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    np.testing.assert_allclose(load_task(tmp_path / "theirs").to_scipy(TEXTS).toarray(), expected, atol=1e-5)


@pytest.mark.parametrize("expansion", [None, False, True])
def test_token_vectors_are_those_of_a_multi_vector_encoder(tmp_path, expansion):
    folder = folder_of("Model", tmp_path)
    settings = {
        "query_expansion": expansion is not None,
        "attend_to_expansion": bool(expansion),
        "query_len": 9,
        "document_len": 14,
    }
    task = LateInteractionEmbedder.from_encoder(
        str(folder),
        token_width=5,
        query_prefix="[unused0]",
        document_prefix="[unused1]",
        skiplist_words=tuple(string.punctuation),
        **settings,
    )
    task.save(tmp_path / "ours")
    theirs = MultiVectorEncoder(str(tmp_path / "ours"), device="cpu")
    for found, expected in (
        (task.queries(TEXTS), theirs.encode_query(TEXTS)),
        (task.documents(TEXTS), theirs.encode_document(TEXTS)),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, np.asarray(other), atol=1e-5)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    again = load_task(tmp_path / "theirs")
    for one, other in zip(again.queries(TEXTS), task.queries(TEXTS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
