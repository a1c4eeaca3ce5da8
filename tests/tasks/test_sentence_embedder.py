"""Vectors of sentences: pooling, windows, training."""

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, sentence, sequence, small_encoder, small_task, trained

from keras_bert_rebuild import SentenceEmbedder, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ScoredPair
from keras_bert_rebuild.pretrained.sentence_transformers_folder import read_sentence_pooling

SUBJECTS = ("the cat", "anna", "the red dog")


def plain_vector(task, text):
    windows = task.encode([ScoredPair(text, text)]).windows
    rows = np.flatnonzero(windows.examples == 0)
    means = [sequence(task.model, windows.ids[row], windows.segments[row])[1].mean(0) for row in rows]
    vector = np.average(means, axis=0, weights=[len(windows.ids[row]) for row in rows])
    return vector / np.linalg.norm(vector), len(rows)


def test_vectors_are_the_means_of_plain_numpy_in_the_order_of_the_texts(rng):
    task = small_task(SentenceEmbedder, max_len=20, stride=4)
    texts = [sentence(rng, words) for words in (3, 50, 1, 18)]
    vectors = task(texts, batch_size=2)
    for text, vector in zip(texts, vectors, strict=True):
        expected, windows = plain_vector(task, text)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
        assert (windows > 1) == (len(text.split()) == 50)
    np.testing.assert_allclose(task.similarity(texts[:2], texts[2:]), np.sum(vectors[:2] * vectors[2:], axis=1), atol=1e-6)


@pytest.mark.compiles_long
def test_cosines_learn_the_scores_of_pairs_and_are_loaded_from_their_folder(tmp_path):
    pairs = [ScoredPair(f"{one} sat", f"{other} sat", 5.0 * (one == other)) for one in SUBJECTS for other in SUBJECTS]
    task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, score_range=(0, 5), max_len=16)
    first, last = trained(task, pairs, epochs=15, rate=1e-2)
    assert last < first / 3
    answers = task.predict_examples(pairs)
    assert min(a for a, p in zip(answers, pairs, strict=True) if p.score) > max(
        a for a, p in zip(answers, pairs, strict=True) if not p.score
    )
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.settings() == task.settings()
    assert again.predict_examples(pairs) == answers
    task.save(tmp_path / "task")  # a second time into the same folder
    pooling = read_sentence_pooling(tmp_path / "task")
    assert (pooling.poolings, pooling.normalize, pooling.max_len) == (("mean",), True, 16)


def test_in_batch_negatives_need_no_scores_and_take_one_window_of_every_text(rng):
    task = small_task(SentenceEmbedder, objective="in_batch_negatives", max_len=12)
    encoded = task.encode([ScoredPair(sentence(rng, 25), "the cat"), ScoredPair("a", "a")])
    (ids, _), labels = task.batches(encoded, batch_size=8)[0]
    assert [row[row > 0].tolist() for row in ids][1:] == [
        TOKENIZER.encode_batch([text]).ids[0].tolist() for text in ("the cat", "a", "a")
    ]
    assert labels.tolist() == [0.0] * 4
    assert task.loss().get_config()["scale"] == 20


def test_windows_of_a_long_pair_are_separate_pairs(rng):
    task = small_task(SentenceEmbedder, max_len=12, stride=2)
    encoded = task.encode([ScoredPair(sentence(rng, 25), "the cat", 0.5), ScoredPair("a", "a", 1.0)])
    batches = task.batches(encoded, batch_size=8)
    rows = np.bincount(encoded.windows.examples)
    (ids, _), labels = batches[0]
    assert rows.tolist() == [3, 1, 1, 1]
    assert labels.tolist() == [0.5] * 6 + [1.0] * 2
    assert (ids[[1, 3]] == ids[5]).all()


def test_bad_input_is_one_sentence():
    task = small_task(SentenceEmbedder, score_range=(0, 5))
    for example, message in (
        (ScoredPair("a", "b", 6.0), "from 0 to 5, the score_range; example 0 has 6.0"),
        (ScoredPair("a", "b", float("nan")), "has nan"),
        (ScoredPair("a", "b", "x", where="f.tsv, line 2"), "f.tsv, line 2 has 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            task.encode([example])
    with pytest.raises(ValueError, match="must have a score"):
        task.batches(task.encode([ScoredPair("a", "b")]))
    with pytest.raises(ValueError, match="texts must be a list; got str"):
        task("the cat")
    with pytest.raises(ValueError, match="as many second texts as first ones, 1; got 2"):
        task.similarity(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="objective must be cosine or in_batch_negatives"):
        small_task(SentenceEmbedder, objective="x")
    with pytest.raises(ValueError, match="must have a BertModel without heads"):
        SentenceEmbedder(small_encoder(["token_classification"], labels=("a", "b")), TOKENIZER)
