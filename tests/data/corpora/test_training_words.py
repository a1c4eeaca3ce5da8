"""The words of the training documents, beside the split of the tokens."""

import numpy as np
import pytest
from helpers.small_recipe import write_text

from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.read_corpus import WordCounts
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.corpora.training_words import count_training_words
from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary


@pytest.fixture
def text(tmp_path):
    path = write_text(tmp_path / "text.txt")
    path.write_text("\x01\n\n" + path.read_text() + "\n\x02\n\n\ufffd\n")  # documents without a word, which the store has not
    return path


def whole_words_of(path, text, corpus, share, seed):
    """The words of the training part of a store whose vocabulary has every word."""
    train, _ = split_documents(corpus, share, seed) if share else (corpus, None)
    tokens = np.asarray(corpus.vocabulary)[train.ids_at(np.arange(train.num_tokens))]
    return " ".join(tokens).replace(" ##", "").split()


@pytest.mark.parametrize(("share", "seed"), [(0.2, 0), (0.2, 1), (0.4, 7), (0, 0)])
def test_they_are_those_of_the_documents_that_the_split_trains_on(tmp_path, text, share, seed):
    words = WordCounts()
    count = count_training_words(text, words, share, seed)
    found = words.finish()
    everything = WordCounts()
    count_training_words(text, everything, 0)
    save_vocabulary(train_vocabulary(everything.finish(), 300), tmp_path / "vocab.txt")
    prepare(text, tmp_path / "vocab.txt", tmp_path / "tokens", workers=1)
    store = TokenStore(tmp_path / "tokens")
    assert count == len(store.document_starts) - 1
    expected = whole_words_of(tmp_path, text, store, share, seed)
    assert found.total() == len(expected)
    assert set(found) == set(expected)
    if share:
        assert set(everything.counts) - set(found)


def test_a_corpus_that_is_too_small_to_hold_out_a_part_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holding out 0.2 of 5 documents leaves fewer than 3"):
        count_training_words(write_text(tmp_path / "text.txt", documents=5), WordCounts(), 0.2)


def test_the_progress_ends_at_the_bytes_of_both_passes(tmp_path, text):
    sizes = []
    count_training_words(text, WordCounts(), 0.2, progress=lambda file_bytes, text_bytes: sizes.append(file_bytes))
    assert sum(sizes) == 2 * text.stat().st_size
