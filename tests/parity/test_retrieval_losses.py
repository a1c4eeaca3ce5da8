"""The losses over scores beside those of sentence-transformers: values and gradients, on the same vectors."""

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer import losses as peer

from keras_bert_rebuild.training.pair_losses import CoSentLoss, TripletLoss
from keras_bert_rebuild.training.retrieval_losses import DistillationLoss, InBatchNegativesLoss, MarginLoss

GROUPS, TEXTS, WIDTH = 6, 4, 8
DIMS, WEIGHTS = [8, 4, 2], [1.0, 0.7, 0.3]


class Vectors(torch.nn.Module):
    """Passes vectors through, as a model of sentence-transformers that has computed them."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}

    def get_embedding_dimension(self):
        return WIDTH


def columns(vectors):
    return [vectors[:, i] for i in range(vectors.shape[1])]


def of_peer(loss):
    """A loss of sentence-transformers, as a function of targets and vectors in groups."""
    return lambda labels, vectors: loss.compute_loss_from_embeddings(columns(vectors), labels)


def result(function, labels, vectors):
    """The value, and the gradient of the vectors."""
    leaf = torch.tensor(vectors, requires_grad=True)
    value = function(labels, leaf)
    value.backward()
    return value.item(), leaf.grad.numpy()


def assert_equal(ours, theirs):
    assert ours[0] == pytest.approx(theirs[0], rel=1e-5)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-5)


def numbered(teacher=None, guide=None, texts=TEXTS):
    ids = np.arange(GROUPS * texts, dtype="float32").reshape(GROUPS, texts)
    teacher = np.zeros_like(ids) if teacher is None else np.pad(teacher, [(0, 0), (1, 0)])
    return np.concatenate([ids[..., None], teacher[..., None], *([] if guide is None else [guide])], -1).astype("float32")


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(GROUPS, TEXTS, WIDTH)).astype("float32")


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("texts", [2, TEXTS])
def test_in_batch_negatives(vectors, texts, symmetric):
    settings = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"} if symmetric else {}
    vectors = vectors[:, :texts]
    theirs = result(of_peer(peer.MultipleNegativesRankingLoss(Vectors(), 20.0, **settings)), None, vectors)
    ours = result(InBatchNegativesLoss(20.0, symmetric=symmetric), numbered(texts=texts), vectors)
    assert_equal(ours, theirs)


def test_the_cached_loss_is_that_of_the_whole_batch(vectors):
    loss = peer.CachedMultipleNegativesRankingLoss.__new__(peer.CachedMultipleNegativesRankingLoss)  # whose model must have layers
    torch.nn.Module.__init__(loss)
    loss.loss, loss.mini_batch_size, loss.show_progress_bar = peer.MultipleNegativesRankingLoss(Vectors(), 20.0), 2, False

    def theirs(labels, vectors):
        return loss.calculate_loss([list(column.split(2)) for column in columns(vectors)])

    assert_equal(result(InBatchNegativesLoss(20.0, symmetric=False), numbered(), vectors), result(theirs, None, vectors))


def test_margins_of_a_teacher(rng, vectors):
    teacher = rng.normal(size=(GROUPS, TEXTS - 1)).astype("float32")
    theirs = result(of_peer(peer.MarginMSELoss(Vectors())), torch.tensor(teacher), vectors)
    assert_equal(result(MarginLoss(similarity="dot"), numbered(teacher), vectors), theirs)


def test_distributions_of_a_teacher(rng, vectors):
    teacher = rng.normal(size=(GROUPS, TEXTS - 1)).astype("float32")
    theirs = result(of_peer(peer.DistillKLDivLoss(Vectors())), torch.tensor(teacher), vectors)
    assert_equal(result(DistillationLoss(1.0, similarity="dot"), numbered(teacher), vectors), theirs)


def test_the_order_of_pairs(rng, vectors):
    scores = rng.integers(0, 4, GROUPS).astype("float32")
    theirs = result(of_peer(peer.CoSENTLoss(Vectors())), torch.tensor(scores), vectors[:, :2])
    assert_equal(result(CoSentLoss(), scores, vectors[:, :2]), theirs)


def test_triplets_of_labelled_texts(vectors):
    labels, texts = np.array([0, 1, 0, 2, 1, 0]), vectors[:, 0]
    loss = peer.BatchHardSoftMarginTripletLoss(Vectors())
    theirs = result(lambda y, x: loss.compute_loss_from_embeddings([x], y), torch.tensor(labels), texts)
    assert_equal(result(TripletLoss(similarity="dot"), labels, texts), theirs)


def test_prefixes_of_vectors(vectors):
    model = Vectors()
    loss = peer.MatryoshkaLoss(model, peer.MultipleNegativesRankingLoss(model), DIMS, WEIGHTS)

    def theirs(labels, vectors):
        return loss([{"vectors": column} for column in columns(vectors)], labels)

    ours = InBatchNegativesLoss(symmetric=False, dims=DIMS, dim_weights=WEIGHTS)
    assert_equal(result(ours, numbered(), vectors), result(theirs, None, vectors))


@pytest.mark.parametrize("texts", [2, 3])
def test_false_negatives_of_a_guide(rng, vectors, texts):
    guide = rng.normal(size=(GROUPS, texts, 3)).astype("float32")
    loss = peer.GISTEmbedLoss.__new__(peer.GISTEmbedLoss)  # its constructor needs tokenizers
    torch.nn.Module.__init__(loss)
    loss.model, loss.guide, loss.must_retokenize, loss.gather_across_devices = Vectors(), Guide(), False, False
    loss.temperature, loss.margin, loss.margin_strategy = 0.05, 0.0, "absolute"
    loss.contrast_anchors = loss.contrast_positives = True
    loss.similarity_fct, loss.cross_entropy_loss = torch.nn.CosineSimilarity(dim=-1), torch.nn.CrossEntropyLoss()

    def theirs(labels, vectors):
        named = zip(columns(vectors), columns(torch.tensor(guide)), strict=True)
        return loss([{"vectors": own, "guide": other} for own, other in named], labels)

    ours = InBatchNegativesLoss(20.0, symmetric=False, same_side=True, guided=True)
    vectors = vectors[:, :texts]
    assert_equal(result(ours, numbered(guide=guide, texts=texts), vectors), result(theirs, None, vectors))


class Guide(torch.nn.Module):
    def forward(self, features):
        return {"sentence_embedding": features["guide"]}
