"""Splitting a corpus by document shares nothing, and loses only what would be shared."""

import itertools

import numpy as np
import pytest
from helpers.small_corpus import FIRST, document_of, small_corpus
from helpers.small_recipe import write_text
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.documents import encode_documents
from keras_bert_rebuild.data.corpora.held_out import SomeDocuments, count_training_words, split_documents, unseen
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.read_corpus import WordCounts
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary

# Few ids, 0 among them, and short passages: many are equal, and many others differ only in order or at the end.
DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=6), min_size=1, max_size=12)


def documents(corpus):
    """The documents as lists of passages of ids."""
    starts, passages = np.asarray(corpus.document_starts), np.asarray(corpus.passage_starts)
    cut = [corpus.ids_at(np.arange(a, b)).tolist() for a, b in itertools.pairwise(passages)]
    first = np.searchsorted(passages, starts)
    return [cut[a:b] for a, b in itertools.pairwise(first)]


def test_some_documents_are_those_documents():
    corpus = small_corpus()
    whole = documents(corpus)
    chosen = [0, 3, 4, 19]
    assert documents(SomeDocuments(corpus, chosen)) == [whole[i] for i in chosen]


def test_both_parts_together_are_the_corpus():
    corpus = small_corpus(documents=40)
    train, held_out = split_documents(corpus, 0.2, seed=3)
    parts = documents(train) + documents(held_out)
    assert sorted(parts) == sorted(documents(corpus))
    assert len(documents(held_out)) == 8
    assert train.num_tokens + held_out.num_tokens == corpus.num_tokens


def test_the_split_is_a_function_of_the_seed():
    corpus = small_corpus()
    chosen = [documents(split_documents(corpus, 0.25, seed)[1]) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_the_parts_share_no_batches():
    corpus = small_corpus(documents=30)
    seen = []
    for part in split_documents(corpus, 0.3):
        batches = pretraining_batches(part, 4, 24, 3, masking="token", mask_rate=0.15, mask_mask_rate=0.0, mask_random_rate=0.0)
        ids = np.concatenate([batches[i][0][0].ravel() for i in range(len(batches))])
        seen.append(set(document_of(corpus, ids[ids >= 5])))
    assert seen[0]
    assert seen[1]
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(("count", "share"), [(5, 0.5), (20, 0.0), (20, 1.0), (20, 0.99)])
def test_a_corpus_too_small_to_split_is_an_error(count, share):
    with pytest.raises(ValueError, match=r"hold out"):
        split_documents(small_corpus(documents=count), share)


def test_a_position_outside_is_an_error():
    _, held_out = split_documents(small_corpus(), 0.25)
    with pytest.raises(IndexError, match="positions must be in"):
        held_out.ids_at([held_out.num_tokens])


def corpus_of(documents):
    return encode_documents(documents, lambda ids: ids, [])


@given(DOCUMENTS, DOCUMENTS)
def test_passages_of_the_training_part_are_left_out_and_documents_are_cut_there(held_out, train):
    seen = {tuple(passage) for document in train for passage in document}
    expected, texts = [], []
    for number, document in enumerate(held_out):
        for is_seen, passages in itertools.groupby(document, lambda passage: tuple(passage) in seen):
            if not is_seen:
                expected.append(list(passages))
                texts.append(number)
    if len(set(texts)) < 2:
        with pytest.raises(ValueError, match=rf"{len(set(texts))} of {len(held_out)} ha(s|ve) any: hold out more"):
            unseen(corpus_of(held_out), corpus_of(train))
        return
    left = unseen(corpus_of(held_out), corpus_of(train))
    assert documents(left) == expected
    assert left.texts.tolist() == texts


@pytest.mark.slow(torch=True)
@given(st.lists(DOCUMENTS.map(lambda documents: documents[0]), min_size=8, max_size=30), st.integers(0, 9))
def test_no_passage_that_is_held_out_is_trained_on(given, seed):
    try:
        train, held_out = split_documents(corpus_of(given), 0.4, seed)
    except ValueError as error:
        assert "passages that are not in training" in str(error)  # noqa: PT017
        return
    seen, tested = ({tuple(passage) for document in documents(part) for passage in document} for part in (train, held_out))
    assert not seen & tested
    assert seen | tested == {tuple(passage) for document in given for passage in document}


def test_blocks_of_any_size_find_the_same_passages(monkeypatch):
    rng = np.random.default_rng(0)
    given = [[rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(20)] for _ in range(30)]
    found = []
    for size in (1, 7, 10**6):
        monkeypatch.setattr("keras_bert_rebuild.data.corpora.held_out._BLOCK", size)
        found.append(documents(split_documents(corpus_of(given), 0.1)[1]))
    assert found[0] == found[1] == found[2]
    assert 0 < sum(map(len, found[0])) < 60


def test_pairs_cross_no_gap_and_random_ones_are_from_another_text():
    corpus = small_corpus(documents=3, passages=60, longest=12)
    gaps = np.arange(0, 180, 5)
    left = SomeDocuments(corpus, np.arange(3), gaps)
    assert len(left.document_starts) == 36 + 1
    gone = set(np.concatenate([np.arange(*corpus.passage_starts[[gap, gap + 1]]) for gap in gaps]))
    settings = {"short_seq_prob": 0.2, "mask_mask_rate": 0.0, "mask_random_rate": 0.0}
    batches = pretraining_batches(left, 8, 24, 4, seed=5, steps_per_epoch=60, **settings)
    labels = []
    for index in range(60):
        (ids, segments, _), (_, is_random) = batches[index]
        for row, second, random in zip(ids, segments == 1, is_random[:, 0], strict=True):
            places = [row[side & (row >= FIRST)] - FIRST for side in (~second, second)]
            assert not gone & set(np.concatenate(places))
            assert all((np.diff(side) == 1).all() for side in places)
            texts = [set(document_of(corpus, side + FIRST)) for side in places]
            assert [len(text) for text in texts] == [1, 1]
            assert (texts[0] != texts[1]) == random
            if not random:
                assert places[0][-1] < places[1][0]
                assert not gone & set(range(places[0][0], places[1][-1]))
            labels.append(random)
    assert 0.4 < np.mean(labels) < 0.6


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
