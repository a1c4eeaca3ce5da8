"""Losses beside those of sentence-transformers, on vectors and in a step of training, and of a distillation beside torch's."""

import keras
import numpy as np
import pytest
import torch
from helpers.minilm import FOLDER
from helpers.small import spread
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer import losses as peer
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from keras_bert_rebuild import BertConfig, SentenceEmbedder, build_model, compile_model, save_pretrained
from keras_bert_rebuild.data.labelled.labelled_examples import ScoredPair, TextGroup
from keras_bert_rebuild.models.distillation_model import build_distillation_model
from keras_bert_rebuild.models.distillation_objectives import AttentionRelations, HiddenStates, SoftTargets
from keras_bert_rebuild.tasks.objectives import VectorTraining
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


# A step of training for retrieval has the loss and the gradients of sentence-transformers, on texts of very unlike lengths.


TEXT_GROUPS = [
    TextGroup("who wrote the book", "Anna wrote the book, and then another one. " * 6, ("Ben reads.",)),
    TextGroup("where is Ben", "In Paris.", ("Anna lives in London, which is a large city on a river. " * 4,)),
    TextGroup("what is red", "The mat of the cat is red.", ("The cat sat on the mat.",)),
]
# Our kernel or table, and the name of the peer's.
TRAINED = {
    "Embedding-Token/embeddings": "embeddings.word_embeddings.weight",
    "Encoder-1-MultiHeadSelfAttention/query/kernel": "encoder.layer.0.attention.self.query.weight",
    "Encoder-6-FeedForward/output/kernel": "encoder.layer.5.output.dense.weight",
}


RATES = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PAIRS = [ScoredPair(group.query, group.positive, score) for group, score in zip(TEXT_GROUPS, (0.9, 0.2, 0.6), strict=True)]
LOSSES = {"cosine": losses.CosineSimilarityLoss, "cosent": losses.CoSENTLoss}


def of_theirs(loss_class, columns, labels):
    """The loss of sentence-transformers for columns of texts, and its gradients."""
    model = SentenceTransformer(str(FOLDER), device="cpu")
    model.max_seq_length = 64
    model.eval()  # no dropout
    loss = loss_class(model)([model.preprocess(list(column)) for column in columns], labels)
    loss.backward()
    named = {name.partition("auto_model.")[2] or name: weight for name, weight in model.named_parameters()}
    return loss.item(), {name: next(w for n, w in named.items() if n.endswith(name)).grad.numpy() for name in TRAINED.values()}


def assert_same_step(task, examples, theirs):
    """That a step on packed rows has their loss and gradients."""
    task.compile(keras.optimizers.SGD(1.0))
    (x, y) = task.batches(task.encode(examples), len(examples))[0]
    assert len(x[0]) < len(x[-1].ravel())
    before = {variable.path: keras.ops.convert_to_numpy(variable).copy() for variable in task.training_model.trainable_variables}
    loss = float(np.ravel(task.training_model.train_on_batch(x, y))[0])
    assert loss == pytest.approx(theirs[0], rel=1e-5)
    after = {variable.path: keras.ops.convert_to_numpy(variable) for variable in task.training_model.trainable_variables}
    for path, name in TRAINED.items():
        gradient = before[path] - after[path]
        expected = theirs[1][name] if path.startswith("Embedding") else theirs[1][name].T
        np.testing.assert_allclose(gradient, expected, atol=2e-5)


@pytest.mark.skipif(FOLDER is None, reason="the weights are in a package")
@pytest.mark.parametrize("chunk", [None, 1])
def test_a_packed_step_has_the_loss_and_the_gradients_of_padded_columns(chunk):
    columns = zip(*((group.query, group.positive, *group.negatives) for group in TEXT_GROUPS), strict=True)
    theirs = of_theirs(losses.MultipleNegativesRankingLoss, columns, None)
    settings = {"example_kind": "retrieval", "max_len": 64, "rates": RATES, "training": VectorTraining(chunk=chunk)}
    assert_same_step(SentenceEmbedder.from_encoder(FOLDER, **settings), TEXT_GROUPS, theirs)


@pytest.mark.skipif(FOLDER is None, reason="the weights are in a package")
@pytest.mark.parametrize("objective", LOSSES)
def test_a_packed_step_on_pairs_with_scores_has_them_too(objective):
    columns = zip(*((pair.first, pair.second) for pair in PAIRS), strict=True)
    theirs = of_theirs(LOSSES[objective], columns, torch.tensor([pair.score for pair in PAIRS]))
    task = SentenceEmbedder.from_encoder(FOLDER, objective=objective, max_len=64, truncate=True, rates=RATES)
    assert_same_step(task, PAIRS, theirs)


# The losses of a distillation against torch's own functions over the same two models in transformers.


LENGTH, HEADS, TEMPERATURE = 12, 8, 2.0
CONFIG = BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=20,
    hidden_act="gelu_erf",
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def seen(folder, tokens, mask, block):
    """Logits, the last hidden state, and queries, keys and values of a block in transformers."""
    model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    vectors = {}
    attention = model.bert.encoder.layer[block - 1].attention.self
    for name in ("query", "key", "value"):
        getattr(attention, name).register_forward_hook(lambda _, __, output, name=name: vectors.__setitem__(name, output))
    with torch.no_grad():
        found = model(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
    return found.logits, found.hidden_states[-1], vectors


def relation_logits(x, mask):
    rows, length, width = x.shape
    x = x.view(rows, length, HEADS, width // HEADS).transpose(1, 2)
    return (x @ x.transpose(-1, -2) / (width // HEADS) ** 0.5).masked_fill(mask[:, None, None, :] == 0, -1e9)


@pytest.mark.parametrize("chunk", [None, 5])
def test_losses_are_those_of_torch_over_the_models_of_transformers(tmp_path, chunk):
    rng = np.random.default_rng(5)
    teacher, student = (spread(build_model(c, ["mlm"]), rng, 0.2) for c in (CONFIG, CONFIG.replace(num_hidden_layers=2)))
    for name, model in (("teacher", teacher), ("student", student)):
        save_pretrained(model, tmp_path / name, vocabulary=[f"t{i}" for i in range(CONFIG.vocab_size)])
    tokens = rng.integers(5, CONFIG.vocab_size, (4, LENGTH)).astype("int32")
    tokens[1:, -4:] = 0
    chosen = np.zeros((4, LENGTH), "int32")
    chosen[:, [1, 3, 6]] = 1
    labels = rng.integers(5, CONFIG.vocab_size, (4, LENGTH, 1)).astype("int32")
    given = [
        SoftTargets(temperature=TEMPERATURE),
        HiddenStates(layers=((3, 2),), measure="cosine"),
        AttentionRelations(layers=((2, 2),), heads=HEADS),
    ]
    model = compile_model(build_distillation_model(student, teacher, given), max_predictions=4, loss_chunk=chunk)
    got = model.evaluate([tokens, np.zeros_like(tokens), chosen], labels, verbose=0, return_dict=True)

    ids, mask = torch.tensor(tokens, dtype=torch.long), torch.tensor(tokens != 0, dtype=torch.long)
    theirs, mine = (seen(tmp_path / name, ids, mask, 2) for name in ("teacher", "student"))
    at, real = torch.tensor(chosen) == 1, mask == 1
    soft = functional.kl_div(
        functional.log_softmax(mine[0][at] / TEMPERATURE, -1),
        functional.softmax(theirs[0][at] / TEMPERATURE, -1),
        reduction="batchmean",
    )
    target = torch.ones(int(real.sum()))
    relation = 0.0
    for name in ("query", "key", "value"):
        one, other = (relation_logits(vectors[2][name], mask) for vectors in (theirs, mine))
        divergence = functional.kl_div(functional.log_softmax(other, -1), functional.softmax(one, -1), reduction="none").sum(-1)
        relation = relation + divergence.mean(1)[real].mean()
    expected = {
        "MLM_loss": functional.cross_entropy(mine[0][at], torch.tensor(labels[..., 0], dtype=torch.long)[at]),
        "Soft_loss": soft * TEMPERATURE**2,
        "Hidden_loss": functional.cosine_embedding_loss(mine[1][real], theirs[1][real], target),
        "Relation_loss": relation,
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
