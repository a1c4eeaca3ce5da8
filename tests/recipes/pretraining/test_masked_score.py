"""The score of an encoder on held-out text, against NumPy on its probabilities."""

import numpy as np
import pytest
from helpers.small_corpus import FIRST, small_corpus

from keras_bert_rebuild import BertConfig, build_model, save_pretrained
from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.recipes.pretraining import masked_score as module
from keras_bert_rebuild.recipes.pretraining.masked_score import masked_score, score_batches, unigram_of

LENGTH = 16


@pytest.fixture(scope="module")
def corpus():
    """Tokens of few kinds, some more frequent."""
    given = small_corpus(documents=12, passages=6, longest=9)
    ids = FIRST + (np.arange(given.num_tokens) ** 2) % 23 // 2
    return TokenCorpus(ids.astype("int32"), given.passage_starts, given.document_starts, given.vocabulary[: FIRST + 12])


@pytest.fixture(scope="module")
def model(corpus):
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    return build_model(BertConfig(**sizes, vocab_size=len(corpus.vocabulary), max_position_embeddings=LENGTH), ["mlm"])


def test_it_is_the_mean_of_the_log_probabilities_of_the_masked_tokens(corpus, model):
    found = masked_score(model, corpus, corpus, LENGTH)
    batches = score_batches(corpus, LENGTH)
    losses, right = [], []
    for index in range(len(batches)):
        x, labels = batches.batch(0, index)
        chosen, truth = x[-1] == 1, labels[..., 0]
        probabilities = np.asarray(model.predict(x, verbose=0), "float64")[chosen]
        truth = truth[chosen]
        losses.append(-np.log(probabilities[np.arange(len(truth)), truth]))
        right.append(probabilities.argmax(axis=1) == truth)
    losses, right = np.concatenate(losses), np.concatenate(right)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-4)
    np.testing.assert_allclose(found.accuracy, right.mean(), rtol=1e-5)
    assert found.positions == len(losses)


def test_the_unigram_is_what_counts_alone_know(corpus, model):
    found = masked_score(model, corpus, corpus, LENGTH)
    counts = np.array([1 + (corpus.ids == token).sum() for token in range(len(corpus.vocabulary))])
    batches = score_batches(corpus, LENGTH)
    truth = np.concatenate([y[..., 0][x[-1] == 1] for x, y in (batches.batch(0, i) for i in range(len(batches)))])
    np.testing.assert_allclose(found.unigram_loss, -np.log(counts / counts.sum())[truth].mean(), rtol=1e-12)
    assert found.unigram_accuracy == (truth == counts.argmax()).mean()


def test_a_folder_has_the_score_of_its_model_and_other_heads_are_not_read(corpus, model, tmp_path):
    save_pretrained(model, tmp_path / "one", vocabulary=corpus.vocabulary)
    assert masked_score(tmp_path / "one", corpus, corpus, LENGTH).loss == pytest.approx(
        masked_score(model, corpus, corpus, LENGTH).loss, rel=1e-6
    )
    both = build_model(model.config, ["mlm", "nsp"])
    save_pretrained(both, tmp_path / "both", vocabulary=corpus.vocabulary)
    assert masked_score(tmp_path / "both", corpus, corpus, LENGTH).positions > 10


def test_all_encoders_are_asked_for_the_same_tokens(corpus):
    one, other = (score_batches(corpus, LENGTH, segments=segments) for segments in (True, False))
    for index in range(len(one)):
        (x, y), (z, w) = one.batch(0, index), other.batch(0, index)
        np.testing.assert_array_equal(x[0], z[0])
        np.testing.assert_array_equal(x[-1], z[-1])
        np.testing.assert_array_equal(y, w)


def test_a_short_text_makes_a_batch_of_what_it_has_and_a_long_one_ends_at_the_limit(corpus, monkeypatch):
    assert len(score_batches(corpus, LENGTH)) * score_batches(corpus, LENGTH).batch_size <= 32 * 12
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    assert len(score_batches(corpus, LENGTH)) > 3
    assert len(score_batches(corpus, LENGTH, max_batches=3)) == 3


def test_of_a_large_corpus_about_the_given_number_of_tokens_is_counted(corpus, monkeypatch):
    whole = unigram_of(corpus)
    monkeypatch.setattr(module, "_LOOK", 10)
    np.testing.assert_allclose(unigram_of(corpus), whole)
    monkeypatch.setattr(module, "COUNTED_TOKENS", corpus.num_tokens // 4)
    some = np.exp(unigram_of(corpus))
    smallest = some.min()  # a token that was not counted has the one that is added
    counted = round(1 / smallest) - len(corpus.vocabulary)
    assert 0.2 * corpus.num_tokens < counted < 0.35 * corpus.num_tokens
