"""Sparse vectors: values, windows, training, folders."""

import numpy as np
import pytest
from helpers import reference
from helpers.small_tasks import BLOCKS, HEADS, TOKENIZER, VOCABULARY, sentence, small_encoder, small_task, trained
from keras import ops

from keras_bert_rebuild import SparseEmbedder, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ScoredPair, TextGroup
from keras_bert_rebuild.models.vocabulary_pooling import ACTIVATIONS

GROUPS = [
    TextGroup("where sat the cat ?", "the cat sat on the mat", ("the dog sat on the mat",)),
    TextGroup("who likes paris ?", "anna likes paris", ("ben likes london",)),
    TextGroup("a red dog", "the dog sat in red and blue", ("the cat sat in red and blue",)),
]


def plain_weights(task, ids, times):
    """The weights of the tokens of one row, in plain NumPy: `(length, vocabulary)`."""
    ids = np.array([ids])
    weights = reference.weights_of(task.encoder)
    states = reference.encode(weights, ids, np.zeros_like(ids), HEADS, BLOCKS, mask=np.ones_like(ids, bool))[-1]
    logits = reference.mlm_logits(weights, states)[0]
    found = np.maximum(logits, 0)
    for _ in range(times):
        found = np.log1p(found)
    return found


@pytest.mark.parametrize(("pooling", "activation"), [("max", "log1p_relu"), ("sum", "log1p_log1p_relu")])
def test_a_vector_is_the_pooled_logits_of_all_windows(rng, pooling, activation):
    task = small_task(SparseEmbedder, pooling=pooling, activation=activation, max_len=16, stride=4)
    texts = [sentence(rng, 5), sentence(rng, 40), ""]
    windows = task.windows(texts)
    pool = {"max": np.max, "sum": np.sum}[pooling]
    for number, (ids, weights) in enumerate(task(texts)):
        rows = [windows.ids[i] for i in np.flatnonzero(windows.examples == number)]
        tokens = np.concatenate([plain_weights(task, row, ACTIVATIONS[activation]) for row in rows])
        dense = np.zeros(len(VOCABULARY))
        dense[ids] = weights
        np.testing.assert_allclose(dense, pool(tokens, axis=0), atol=2e-5)
        assert ids.dtype == np.int32
        assert weights.dtype == np.float32
        assert (np.diff(ids) > 0).all()
        assert (weights > 0).all()


def test_prompts_truncation_and_the_strongest_words(rng):
    task = small_task(SparseEmbedder, max_len=16)
    text = sentence(rng, 30)
    asked = SparseEmbedder(task.encoder, TOKENIZER, prompts={"query": "who likes "}, max_active=3, truncate=True, max_len=16)
    (query,), (document,) = asked.queries([text]), asked.documents([text])
    whole = task.tokens_of(task(["who likes " + " ".join(text.split()[:12])])[0])
    assert [token for token, _ in asked.tokens_of(query)] == [token for token, _ in whole[:3]]
    assert len(document[0]) == 3
    assert not np.array_equal(query[1], document[1])
    assert asked(["the cat"], "query")[0][1].tolist() == next(asked.queries(["the cat"]))[1].tolist()


def test_a_stream_gives_the_vectors_of_a_list_and_reads_no_more_than_it_needs(rng):
    task = small_task(SparseEmbedder, max_len=16)
    texts = [sentence(rng, words) for words in rng.integers(1, 30, 40)]
    for (ids, weights), (again, same) in zip(task(texts), task.documents(iter(texts)), strict=True):
        assert ids.tolist() == again.tolist()
        np.testing.assert_allclose(weights, same, atol=1e-5)
    with pytest.raises(ValueError, match="texts must be strings; number 1 is int '3'"):
        list(task.documents(["a", 3]))
    with pytest.raises(ValueError, match="put it into a list"):
        next(task.queries("a text"))


def test_the_matrix_of_scipy_has_the_vectors_as_rows():
    pytest.importorskip("scipy")
    task = small_task(SparseEmbedder)
    texts = ["the cat", "a dog sat in london", ""]
    matrix = task.to_scipy(texts)
    assert matrix.shape == (3, len(VOCABULARY))
    for row, (ids, weights) in zip(matrix, task(texts), strict=True):
        assert row.indices.tolist() == ids.tolist()
        np.testing.assert_allclose(row.data, weights, atol=1e-6)


def dense(vector):
    ids, weights = vector
    row = np.zeros(len(VOCABULARY))
    row[ids] = weights
    return row


def test_scores_are_the_products_of_vectors():
    task = small_task(SparseEmbedder)
    answers = task.predict_examples(GROUPS)
    documents = dict.fromkeys(text for group in GROUPS for text in (group.positive, *group.negatives))
    vectors = np.stack([dense(vector) for vector in task(list(documents))])
    for group, answer in zip(GROUPS, answers, strict=True):
        expected = vectors @ dense(*task([group.query]))
        np.testing.assert_allclose([answer[text] for text in documents], expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["in_batch_negatives", "margin_mse"])
def test_it_learns_to_find_and_is_loaded_from_its_folder(objective, tmp_path):
    taught = [TextGroup(g.query, g.positive, g.negatives, (3.0, -1.0)) for g in GROUPS]
    encoder = small_encoder(("mlm",))
    settings = {"objective": objective, "negatives": 1, "flops": (1e-3, 1e-3), "flops_steps": 5}
    task = SparseEmbedder.from_encoder(encoder, TOKENIZER, max_len=24, **settings)
    first, last = trained(task, taught, epochs=30, rate=1e-2)
    assert last < first / 2
    answers = task.predict_examples(taught)
    assert all(answer[group.positive] > answer[group.negatives[0]] for group, answer in zip(taught, answers, strict=True))
    steps = next(weight for weight in task.model.weights if weight.path.endswith("/step"))
    assert int(steps) == 30
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.settings() == task.settings()
    assert again.description() == task.description()
    for loaded, weight in zip(again.model.trainable_weights, task.model.trainable_weights, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(loaded), ops.convert_to_numpy(weight))
    # The threads of TensorFlow's products share them as they find time: the last bit of a sum may differ between two calls.
    for (ids, weights), (same, found) in zip(again(["the cat"]), task(["the cat"]), strict=True):
        assert ids.tolist() == same.tolist()
        np.testing.assert_allclose(weights, found, rtol=1e-6)


def test_the_head_of_an_encoder_without_one_is_new_and_settings_suit_the_examples():
    task = SparseEmbedder.from_encoder(small_encoder(), TOKENIZER)
    assert {path for path, _ in task.encoder.load_report.missing} >= {"MLM-Dense/kernel", "MLM-Norm/gamma", "MLM-Sim/bias"}
    options = {"objective": None, "negatives": None, "flops": None, "steps": None, "epochs": 4, "batch_size": 2}
    suited = SparseEmbedder.settings_for(GROUPS, options)
    assert suited == {"objective": "in_batch_negatives", "negatives": 1, "flops_steps": 2}


def test_bad_input_is_one_sentence():
    for settings, message in (
        ({"pooling": "mean"}, "pooling must be one of max, sum; got 'mean'"),
        ({"activation": "relu"}, "activation must be one of log1p_relu"),
        ({"max_active": 0}, "max_active must be at least 1 word"),
        ({"flops": (1.0, -1.0)}, "flops must be two weights"),
        ({"objective": "cosine"}, "objective must be one of in_batch_negatives"),
        ({"objective": "margin_mse"}, "or 1 to learn the scores of a teacher"),
    ):
        with pytest.raises(ValueError, match=message):
            small_task(SparseEmbedder, **settings)
    with pytest.raises(ValueError, match="must have a BertModel with the head mlm"):
        SparseEmbedder(small_encoder(), TOKENIZER)
    with pytest.raises(ValueError, match="example 0 is a ScoredPair"):
        small_task(SparseEmbedder).encode([ScoredPair("a", "b", 1.0)])
