"""Late interaction: vectors of tokens, markers, masks, training, folders."""

import numpy as np
import pytest
from helpers import reference
from helpers.small import spread
from helpers.small_tasks import BLOCKS, HEADS, TOKENIZER, VOCABULARY, WORDS, sentence, small_encoder, trained

from keras_bert_rebuild import LateInteractionEmbedder, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.tasks.retrieval_rows import MarkedRows

MASK = VOCABULARY.index("[MASK]")
GROUPS = [
    TextGroup("where sat the cat ?", "the cat sat on the mat .", ("the dog sat on the mat",)),
    TextGroup("who likes paris ?", "anna likes paris", ("ben likes london",)),
    TextGroup("a red dog", "the dog sat in red and blue", ("the cat sat in red and blue",)),
]


def small_embedder(seed=5, **settings):
    """An embedder on the small encoder with random modules."""
    defaults = {"token_width": 8, "query_len": 12, "document_len": 16}
    task = LateInteractionEmbedder.from_encoder(small_encoder(()), TOKENIZER, **{**defaults, **settings})
    spread(task.model, np.random.default_rng(seed))
    return task


def plain_vectors(task, ids, attended):
    """The vectors of the tokens of one row, in plain NumPy, `(length, width)`."""
    ids, mask = np.array([ids]), np.array([attended], bool)
    weights = reference.weights_of(task.encoder)
    states = reference.encode(weights, ids, np.zeros_like(ids), HEADS, BLOCKS, mask=mask)[-1][0]
    vectors = states @ np.asarray(reference.weights_of(task.model)["Sentence-Dense-1/kernel"])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("attend", [False, True])
def test_queries_are_filled_up_with_masks_whose_vectors_count(rng, attend):
    task = small_embedder(attend_to_expansion=attend)
    texts = ["the cat", sentence(rng, 30)]
    for text, vectors in zip(texts, task.queries(texts), strict=True):
        ids = TOKENIZER.encode_batch([text], max_len=12).ids[0].tolist()
        more = 12 - len(ids)
        attended = [1] * len(ids) + [int(attend)] * more
        np.testing.assert_allclose(vectors, plain_vectors(task, ids + [MASK] * more, attended), atol=2e-5)
    (plain,) = small_embedder(query_expansion=False).queries(texts[:1])
    assert plain.shape == (4, 8)


def test_documents_leave_out_the_listed_words(rng):
    task = small_embedder(skiplist_words=(".", "?", "and", "not in the vocabulary"))
    text = "the cat . and a dog ? sat"
    (vectors,) = task.documents([text])
    ids = TOKENIZER.encode_batch([text]).ids[0].tolist()
    kept = [i for i, token in enumerate(ids) if VOCABULARY[token] not in (".", "?", "and")]
    np.testing.assert_allclose(vectors, plain_vectors(task, ids, [1] * len(ids))[kept], atol=2e-5)
    (query,) = task.queries([". ?"])
    assert query.shape == (12, 8)


def test_a_marker_is_a_token_and_another_prefix_is_text():
    rows = MarkedRows(TOKENIZER, 10, "un who likes ")
    (row,) = rows(["the cat"])
    assert [VOCABULARY[i] for i in row.ids] == ["[CLS]", "un", "who", "likes", "the", "cat", "[SEP]"]
    (row,) = MarkedRows(TOKENIZER, 10, "[unused9] ", expanded=True)(["the cat"])
    assert [VOCABULARY[i] for i in row.ids[:3]] == ["[CLS]", "[UNK]", "[UNK]"]
    assert row.ids.tolist()[-1] == MASK
    assert row.attended.tolist() == [1 - int(i == MASK) for i in row.ids]
    (row,) = MarkedRows(TOKENIZER, 5, "un")(["the cat sat on"])
    assert [VOCABULARY[i] for i in row.ids] == ["[CLS]", "un", "the", "cat", "[SEP]"]


def test_a_score_sums_the_best_matches_and_a_stream_has_the_vectors_of_any_order(rng):
    task = small_embedder()
    texts = [sentence(rng, words) for words in rng.integers(1, 14, 20)]
    (query,) = task.queries(["who likes red ?"])
    expected = [sum(max(q @ v for v in vectors) for q in query) for vectors in task.documents(texts)]
    np.testing.assert_allclose(task.scores_of("who likes red ?", texts), expected, atol=1e-4)
    for one, other in zip(task.documents(texts[::-1]), list(task.documents(iter(texts)))[::-1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert task.width == 8


def test_the_training_model_has_the_vectors_of_queries_and_documents(rng):
    task = small_embedder(negatives=1)
    batches = task.batches(task.encode(GROUPS), batch_size=3)
    x, y = batches[0]
    found = np.asarray(task.model.predict_on_batch(x)).reshape(3, 3, -1, 8)
    order = batches.batches(0)[0].indexes
    for row, number in enumerate(order):
        group = GROUPS[number]
        (query,), documents = task.queries([group.query]), task.documents([group.positive, *group.negatives])
        for vectors, given in zip((query, *documents), found[row], strict=True):
            np.testing.assert_allclose(given[np.abs(given).max(axis=1) > 0], vectors, atol=1e-5)
    assert y.shape == (9, 2)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["in_batch_negatives", "margin_mse"])
def test_it_learns_to_find_and_is_loaded_from_its_folder(objective, tmp_path):
    taught = [TextGroup(g.query, g.positive, g.negatives, (2.0, 0.0)) for g in GROUPS]
    task = LateInteractionEmbedder.from_encoder(
        small_encoder(()), TOKENIZER, token_width=8, query_len=12, document_len=16, objective=objective, negatives=1,
        query_prefix="un", document_prefix="of ",
    )  # fmt: skip
    first, last = trained(task, taught, epochs=25, rate=3e-3)
    assert last < first / 2
    answers = task.predict_examples(taught)
    assert all(answer[group.positive] > answer[group.negatives[0]] for group, answer in zip(taught, answers, strict=True))
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.settings() == task.settings()
    assert again.description() == task.description()
    for one, other in zip(again.documents(WORDS), task.documents(WORDS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_input_is_one_sentence():
    for settings, message in (
        ({"query_len": 2}, "query_len and document_len must be at least 4 tokens; got 2 and 16"),
        ({"objective": "mse"}, "objective must be one of in_batch_negatives"),
    ):
        with pytest.raises(ValueError, match=message):
            small_embedder(**settings)
    with pytest.raises(ValueError, match="must have a BertModel without heads"):
        LateInteractionEmbedder(small_encoder(("mlm",)), TOKENIZER)
    with pytest.raises(ValueError, match="margin_mse learns the scores of a teacher; example 0 has none"):
        small_embedder(objective="margin_mse", negatives=1).encode(GROUPS)
