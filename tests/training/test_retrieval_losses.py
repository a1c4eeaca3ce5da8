"""The losses over scores against plain NumPy, for groups, pairs and labelled texts, with MaxSim, too; the FLOPS regulariser."""

import keras
import numpy as np
import pytest
from helpers.reference import softmax
from keras import ops

from keras_bert_rebuild.data.max_sim import max_sim
from keras_bert_rebuild.training.pair_losses import ContrastiveLoss, CoSentLoss, CosineLoss, TripletLoss
from keras_bert_rebuild.training.retrieval_losses import (
    DistillationLoss,
    FlopsRegularizer,
    GroupedLoss,
    InBatchNegativesLoss,
    MarginLoss,
    flops,
)
from keras_bert_rebuild.training.score_loss import SIMILARITIES, Similarity, similarity_of

GROUPS, TEXTS, WIDTH = 4, 4, 6


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def numbered(ids=None, teacher=None, guide=None):
    """The targets of groups whose texts are all distinct, unless `ids` says otherwise."""
    ids = np.arange(GROUPS * TEXTS).reshape(GROUPS, TEXTS) if ids is None else ids
    teacher = np.zeros(ids.shape) if teacher is None else np.concatenate([np.zeros((GROUPS, 1)), teacher], axis=1)
    columns = [ids[..., None], teacher[..., None]] + ([] if guide is None else [guide])
    return np.concatenate(columns, axis=-1).astype("float32")


def plain_in_batch(vectors, scale, ids=None, left_out=lambda i, score, right: False, symmetric=False):
    """The loss, candidate by candidate."""
    queries, texts = unit(vectors[:, 0]), unit(vectors[:, 1:])
    ids = np.arange(vectors.shape[0] * vectors.shape[1]).reshape(vectors.shape[:2]) if ids is None else ids
    losses = []
    for i, query in enumerate(queries):
        right = query @ texts[i, 0]
        total = np.exp(scale * right)
        for j in range(len(queries)):
            for t in range(texts.shape[1]):
                number, score = ids[j, 1 + t], query @ texts[j, t]
                answers = number in (ids[i, 0], ids[i, 1]) or (t == 0 and ids[j, 0] == ids[i, 0])
                if (i, 0) != (j, t) and not answers and number >= 0 and not left_out((i, j, t), score, right):
                    total += np.exp(scale * score)
        loss = np.log(total) - scale * right
        if symmetric:
            back = [scale * (other @ texts[i, 0]) for other in queries]
            loss = 0.5 * (loss + np.log(np.sum(np.exp(back))) - scale * right)
        losses.append(loss)
    return np.mean(losses)


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(GROUPS, TEXTS, WIDTH)).astype("float32")


def number(value):
    return float(keras.ops.convert_to_numpy(value))


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_positive_is_found_among_the_texts_of_all_groups(vectors, symmetric):
    got = InBatchNegativesLoss(7.0, symmetric=symmetric)(numbered(), vectors)
    assert number(got) == pytest.approx(plain_in_batch(vectors, 7.0, symmetric=symmetric), rel=1e-5)


def test_pairs_are_matched_within_the_batch_in_both_directions(vectors):
    pairs = vectors[:, :2]
    got = InBatchNegativesLoss(7.0)(np.zeros(2 * GROUPS), pairs.reshape(-1, WIDTH))
    assert number(got) == pytest.approx(plain_in_batch(pairs, 7.0, symmetric=True), rel=1e-5)


def test_texts_that_are_known_to_answer_or_are_missing_are_no_negatives(vectors):
    ids = np.arange(GROUPS * TEXTS).reshape(GROUPS, TEXTS)
    ids[1, 1] = ids[0, 1]  # two queries with the same positive
    ids[2, 3] = ids[0, 1]  # which is a negative of a third
    ids[3, 2] = ids[1, 0]  # a query as a negative
    ids[2, 0] = ids[3, 0]  # two positives of one query
    ids[0, 3] = -1
    loss = InBatchNegativesLoss(7.0, symmetric=False)
    got = number(loss(numbered(ids), vectors))
    assert got == pytest.approx(plain_in_batch(vectors, 7.0, ids), rel=1e-5)
    assert got != pytest.approx(number(loss(numbered(), vectors)), rel=1e-3)
    changed = vectors.copy()
    changed[0, 3] = 9.0
    assert number(loss(numbered(ids), changed)) == pytest.approx(got, rel=1e-6)


def test_candidates_above_the_positive_by_a_margin_are_left_out(vectors):
    got = InBatchNegativesLoss(7.0, symmetric=False, margin=0.1)(numbered(), vectors)
    expected = plain_in_batch(vectors, 7.0, left_out=lambda at, score, right: score > right + 0.1)
    assert number(got) == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(plain_in_batch(vectors, 7.0), rel=1e-3)


def test_a_guide_leaves_out_what_it_finds_nearer_than_the_positive(rng, vectors):
    guide = rng.normal(size=(GROUPS, TEXTS, 3)).astype("float32")
    cosines = np.einsum("iw,jtw->ijt", unit(guide)[:, 0], unit(guide)[:, 1:])
    got = InBatchNegativesLoss(7.0, symmetric=False, guided=True)(numbered(guide=guide), vectors)
    expected = plain_in_batch(vectors, 7.0, left_out=lambda at, score, right: cosines[at] > cosines[at[0], at[0], 0])
    assert number(got) == pytest.approx(expected, rel=1e-5)


def test_prefixes_of_vectors_are_normalised_again_and_their_losses_added(vectors):
    got = InBatchNegativesLoss(7.0, symmetric=False, dims=[WIDTH, 2], dim_weights=[1.0, 0.5])(numbered(), vectors)
    expected = plain_in_batch(vectors, 7.0) + 0.5 * plain_in_batch(vectors[..., :2], 7.0)
    assert number(got) == pytest.approx(expected, rel=1e-5)


def test_margins_and_distributions_are_compared_with_those_of_a_teacher(rng, vectors):
    teacher = rng.normal(size=(GROUPS, TEXTS - 1)).astype("float32")
    ids = np.arange(GROUPS * TEXTS).reshape(GROUPS, TEXTS)
    ids[1, 3] = -1
    targets, present = numbered(ids, teacher), ids[:, 1:] >= 0
    scores = np.einsum("iw,itw->it", vectors[:, 0], vectors[:, 1:])
    errors = ((scores[:, :1] - scores[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])) ** 2
    assert number(MarginLoss(similarity="dot")(targets, vectors)) == pytest.approx(errors[present[:, 1:]].mean(), rel=1e-5)
    divergences = []
    for row, wanted, there in zip(scores, teacher, present, strict=True):
        p, q = softmax(wanted[there]), softmax(row[there])
        divergences.append(np.sum(p * np.log(p / q)))
    got = DistillationLoss(1.0, similarity="dot")(targets, vectors)
    assert number(got) == pytest.approx(np.mean(divergences), rel=1e-4)


def test_a_teacher_needs_negatives(vectors):
    for loss in (MarginLoss(), DistillationLoss()):
        with pytest.raises(ValueError, match="at least one negative"):
            loss(numbered()[:, :2], vectors[:, :2])


def test_cosines_must_match_scores(rng):
    vectors, scores = rng.normal(size=(4, 2, 5)), np.array([0.1, 0.9, 0.5, 0.0])
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in vectors]
    expected = np.mean((cosines - scores) ** 2)
    assert number(CosineLoss()(np.repeat(scores, 2), vectors.reshape(8, 5))) == pytest.approx(expected, rel=1e-5)
    assert number(CosineLoss()(scores, vectors)) == pytest.approx(expected, rel=1e-5)


def test_pairs_in_the_wrong_order_cost(rng):
    vectors, scores = rng.normal(size=(5, 2, 4)), np.array([1.0, 3.0, 2.0, 3.0, 0.0])
    cosines = np.sum(unit(vectors[:, 0]) * unit(vectors[:, 1]), axis=1)
    total = 1 + sum(np.exp(9 * (cosines[j] - cosines[i])) for i in range(5) for j in range(5) if scores[i] > scores[j])
    assert number(CoSentLoss(9.0)(np.repeat(scores, 2), vectors.reshape(10, 4))) == pytest.approx(np.log(total), rel=1e-5)
    assert number(CoSentLoss(9.0)(np.ones(10), vectors.reshape(10, 4))) == pytest.approx(0, abs=1e-6)


def test_labelled_texts_are_near_their_own_and_far_from_others(rng):
    vectors, labels = rng.normal(size=(6, 4)), np.array([0, 1, 0, 2, 1, 0])
    distances = np.linalg.norm(vectors[:, None] - vectors, axis=-1)
    alike = labels[:, None] == labels
    hard = [
        max(distances[i, j] for j in range(6) if alike[i, j]) - min(distances[i, j] for j in range(6) if not alike[i, j])
        for i in range(6)
    ]
    got = TripletLoss(similarity="dot")(labels, vectors)
    assert number(got) == pytest.approx(np.mean(np.log1p(np.exp(hard))), rel=1e-5)
    scores = 5.0 * unit(vectors) @ unit(vectors).T
    losses = []
    for i in (0, 1, 2, 4, 5):
        others = [j for j in range(6) if j != i]
        total = np.log(sum(np.exp(scores[i, j]) for j in others))
        losses.append(np.mean([total - scores[i, j] for j in others if alike[i, j]]))
    assert number(ContrastiveLoss(5.0)(labels, vectors)) == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_similarity_of_ones_own_takes_texts_of_any_shape(rng):
    tokens = rng.normal(size=(3, 2, 5, WIDTH)).astype("float32")
    ops = keras.ops

    def every(queries, texts):
        return ops.sum(ops.max(ops.einsum("qaw,tbw->qtab", queries, texts), axis=-1), axis=-1)

    def own(queries, texts):
        return ops.sum(ops.max(ops.einsum("qaw,qtbw->qtab", queries, texts), axis=-1), axis=-1)

    SIMILARITIES["nearest tokens"] = Similarity(every, own)
    try:
        loss = InBatchNegativesLoss(1.0, symmetric=False, similarity="nearest tokens")
        got = number(loss(numbered()[:3, :2], tokens))
    finally:
        del SIMILARITIES["nearest tokens"]
    scores = np.array([[sum((a @ text.T).max() for a in query) for text in tokens[:, 1]] for query in tokens[:, 0]])
    assert got == pytest.approx(-np.log(np.diag(softmax(scores))).mean(), rel=1e-4)


@pytest.mark.parametrize(
    "loss",
    [
        InBatchNegativesLoss(7.0, symmetric=False, same_side=True, guided=True, margin=0.1, dims=[4, 2], dim_weights=[1.0, 2.0]),
        MarginLoss(),
        DistillationLoss(similarity="dot"),
        CosineLoss(),
        CoSentLoss(),
        TripletLoss(),
        ContrastiveLoss(),
    ],
)
def test_a_loss_round_trips_through_its_config(loss):
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()


def test_bad_settings_are_one_sentence(vectors):
    with pytest.raises(ValueError, match=r"similarity must be one of cosine, dot, max_sim; got 'x'"):
        InBatchNegativesLoss(similarity="x")
    with pytest.raises(ValueError, match="each at least 1; got"):
        InBatchNegativesLoss(dims=[0])
    with pytest.raises(ValueError, match="a weight for each of dims; got 1"):
        InBatchNegativesLoss(dims=[4, 2], dim_weights=[1.0])
    with pytest.raises(ValueError, match="at most 6, the width of a vector; got 8"):
        InBatchNegativesLoss(dims=[8])(numbered(), vectors)


def test_the_price_is_the_square_of_the_mean_weight_of_every_word(rng):
    vectors = np.maximum(rng.normal(size=(5, 7)), 0).astype("float32")
    assert float(flops(ops.convert_to_tensor(vectors))) == pytest.approx(
        sum(np.mean(column) ** 2 for column in vectors.T), rel=1e-5
    )


def test_the_rate_grows_with_the_square_of_the_step_and_only_in_training(rng):
    vectors = np.maximum(rng.normal(size=(6, 4)), 0).astype("float32")  # two groups of three
    layer = FlopsRegularizer(3, queries=0.5, documents=0.25, query_l1=0.125, steps=4)
    queries, documents = vectors[[0, 3]], vectors[[1, 2, 4, 5]]
    price = 0.5 * np.sum(queries.mean(axis=0) ** 2) + 0.25 * np.sum(documents.mean(axis=0) ** 2)
    price += 0.125 * queries.sum(axis=1).mean()
    for rate in (0.0, 1 / 16, 4 / 16, 9 / 16, 1.0, 1.0):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(vectors, training=True)), vectors)
        (loss,) = layer.losses
        assert float(loss) == pytest.approx(rate * price, rel=1e-5)
    layer(vectors)
    assert layer.losses == []
    assert int(layer.step) == 6
    assert layer.trainable_weights == []
    assert FlopsRegularizer.from_config(layer.get_config()).get_config() == layer.get_config()


def token_vectors(rng, texts, tokens=6, width=4):
    """Random vectors `(texts, tokens, width)`; a random number of the last tokens is zeros, never all."""
    vectors = rng.normal(size=(texts, tokens, width)).astype("float32")
    for row in vectors:
        row[rng.integers(2, tokens + 1) :] = 0
    return vectors


def by_search(queries, texts):
    """The scores of the form for a search, of the tokens that are not zeros."""
    kept = [text[np.abs(text).max(axis=1) > 0] for text in texts]
    starts = np.cumsum([0, *map(len, kept)])
    return np.stack([max_sim(query[np.abs(query).max(axis=1) > 0], np.concatenate(kept), starts) for query in queries])


def test_scores_are_those_of_a_search_whatever_the_padding(rng):
    queries, texts = token_vectors(rng, 3), token_vectors(rng, 5)
    similarity = similarity_of("max_sim")
    every = ops.convert_to_numpy(similarity.every(ops.convert_to_tensor(queries), ops.convert_to_tensor(texts)))
    np.testing.assert_allclose(every, by_search(queries, texts), atol=1e-5)
    longer = np.concatenate([texts, np.zeros((5, 3, 4), "float32")], axis=1)
    again = ops.convert_to_numpy(similarity.every(ops.convert_to_tensor(queries), ops.convert_to_tensor(longer)))
    np.testing.assert_allclose(every, again, atol=1e-6)
    own = ops.convert_to_numpy(similarity.own(ops.convert_to_tensor(queries), ops.convert_to_tensor(np.stack([texts] * 3))))
    np.testing.assert_allclose(own, every, atol=1e-5)
    short = queries.copy()
    short[:, 2:] = 0
    cut = similarity_of("max_sim@2").every(ops.convert_to_tensor(queries), ops.convert_to_tensor(texts))
    np.testing.assert_allclose(ops.convert_to_numpy(cut), by_search(short, texts), atol=1e-5)
    with pytest.raises(ValueError, match="similarity must be one of"):
        similarity_of("max_sim@x")


@pytest.mark.slow
def test_losses_of_groups_take_the_scores_of_consecutive_rows(rng):
    vectors = token_vectors(rng, 6)  # two groups of a query, a positive and a negative
    labels = np.array([[0, 0], [1, 3.0], [2, 1.0], [3, 0], [4, 2.0], [5, -1.0]], "float32")
    scores = by_search(vectors[[0, 3]], vectors[[1, 2, 4, 5]])
    value = lambda loss: float(GroupedLoss(loss, 3)(ops.convert_to_tensor(labels), ops.convert_to_tensor(vectors)))  # noqa: E731
    margins = np.array([scores[0, 0] - scores[0, 1] - 2.0, scores[1, 2] - scores[1, 3] - 3.0])
    assert value(MarginLoss(similarity="max_sim")) == pytest.approx(np.mean(margins**2), rel=1e-4)
    found = np.log(np.exp(scores).sum(axis=1)) - scores[[0, 1], [0, 2]]
    assert value(InBatchNegativesLoss(1.0, symmetric=False, similarity="max_sim")) == pytest.approx(found.mean(), rel=1e-4)
    again = GroupedLoss.from_config(GroupedLoss(MarginLoss(similarity="max_sim@3"), 3).get_config())
    assert (again.texts, again.loss.similarity) == (3, "max_sim@3")
