"""A step of training for retrieval has the loss and the gradients of sentence-transformers, on texts of very unlike lengths."""

import keras
import numpy as np
import pytest
import torch
from helpers.minilm import FOLDER
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

from keras_bert_rebuild import SentenceEmbedder
from keras_bert_rebuild.data.labelled.labelled_examples import ScoredPair, TextGroup
from keras_bert_rebuild.tasks.objectives import VectorTraining

pytestmark = pytest.mark.skipif(FOLDER is None, reason="the weights are in a package")

GROUPS = [
    TextGroup("who wrote the book", "Anna wrote the book, and then another one. " * 6, ("Ben reads.",)),
    TextGroup("where is Ben", "In Paris.", ("Anna lives in London, which is a large city on a river. " * 4,)),
    TextGroup("what is red", "The mat of the cat is red.", ("The cat sat on the mat.",)),
]
# Our kernel or table, and the name of the peer's.
WEIGHTS = {
    "Embedding-Token/embeddings": "embeddings.word_embeddings.weight",
    "Encoder-1-MultiHeadSelfAttention/query/kernel": "encoder.layer.0.attention.self.query.weight",
    "Encoder-6-FeedForward/output/kernel": "encoder.layer.5.output.dense.weight",
}


RATES = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PAIRS = [ScoredPair(group.query, group.positive, score) for group, score in zip(GROUPS, (0.9, 0.2, 0.6), strict=True)]
LOSSES = {"cosine": losses.CosineSimilarityLoss, "cosent": losses.CoSENTLoss}


def of_theirs(loss_class, columns, labels):
    """The loss of sentence-transformers for columns of texts, and its gradients."""
    model = SentenceTransformer(str(FOLDER), device="cpu")
    model.max_seq_length = 64
    model.eval()  # no dropout
    loss = loss_class(model)([model.preprocess(list(column)) for column in columns], labels)
    loss.backward()
    named = {name.partition("auto_model.")[2] or name: weight for name, weight in model.named_parameters()}
    return loss.item(), {name: next(w for n, w in named.items() if n.endswith(name)).grad.numpy() for name in WEIGHTS.values()}


def assert_same_step(task, examples, theirs):
    """That a step on packed rows has their loss and gradients."""
    task.compile(keras.optimizers.SGD(1.0))
    (x, y) = task.batches(task.encode(examples), len(examples))[0]
    assert len(x[0]) < len(x[-1].ravel())
    before = {variable.path: keras.ops.convert_to_numpy(variable).copy() for variable in task.training_model.trainable_variables}
    loss = float(np.ravel(task.training_model.train_on_batch(x, y))[0])
    assert loss == pytest.approx(theirs[0], rel=1e-5)
    after = {variable.path: keras.ops.convert_to_numpy(variable) for variable in task.training_model.trainable_variables}
    for path, name in WEIGHTS.items():
        gradient = before[path] - after[path]
        expected = theirs[1][name] if path.startswith("Embedding") else theirs[1][name].T
        np.testing.assert_allclose(gradient, expected, atol=2e-5)


@pytest.mark.parametrize("chunk", [None, 1])
def test_a_packed_step_has_the_loss_and_the_gradients_of_padded_columns(chunk):
    columns = zip(*((group.query, group.positive, *group.negatives) for group in GROUPS), strict=True)
    theirs = of_theirs(losses.MultipleNegativesRankingLoss, columns, None)
    settings = {"example_kind": "retrieval", "max_len": 64, "rates": RATES, "training": VectorTraining(chunk=chunk)}
    assert_same_step(SentenceEmbedder.from_encoder(FOLDER, **settings), GROUPS, theirs)


@pytest.mark.parametrize("objective", LOSSES)
def test_a_packed_step_on_pairs_with_scores_has_them_too(objective):
    columns = zip(*((pair.first, pair.second) for pair in PAIRS), strict=True)
    theirs = of_theirs(LOSSES[objective], columns, torch.tensor([pair.score for pair in PAIRS]))
    task = SentenceEmbedder.from_encoder(FOLDER, objective=objective, max_len=64, truncate=True, rates=RATES)
    assert_same_step(task, PAIRS, theirs)
