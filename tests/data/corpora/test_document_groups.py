"""A large corpus is read in groups of documents: each token once in a pass, from all over the corpus, in constant memory."""

import hashlib
import itertools
import tracemalloc

import numpy as np
import pytest
from helpers.small_corpus import FIRST, SPECIAL, document_of, small_corpus

from keras_bert_rebuild.data.corpora import document_groups, held_out, token_store
from keras_bert_rebuild.data.corpora.document_groups import GroupedExamples, documents_of, examples_of_documents
from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.store_files import FORMAT, VERSION, sha256_of, write_json, write_shard
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.pretraining.examples import Examples
from keras_bert_rebuild.data.pretraining.packed_rows import PackedRows
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

LENGTH, GROUP, RUN = 16, 64, 4


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(document_groups, "GROUP", GROUP)
    monkeypatch.setattr(document_groups, "RUN", RUN)


@pytest.fixture(scope="module")
def corpus():
    """150 runs, the last of two documents, in ten groups."""
    return small_corpus(documents=598, passages=3, longest=9)


def spans_of(corpus, seed=0):
    return examples_of_documents(corpus, lambda documents, of_group: Examples(documents, LENGTH, of_group), seed)


def a_pass(examples, number=0):
    return examples.at(np.arange(len(examples)) + number * len(examples))


def tokens_of(starts, lengths):
    return np.concatenate([np.arange(start, start + length) for start, length in zip(starts.flat, lengths.flat, strict=True)])


@pytest.mark.parametrize("number", [0, 2])
def test_a_pass_has_every_token_once(corpus, number):
    spans = a_pass(spans_of(corpus), number)
    assert np.sort(tokens_of(spans.starts, spans.ends - spans.starts)).tolist() == list(range(corpus.num_tokens))
    assert (document_of(corpus, spans.starts + FIRST) == spans.documents).all()
    assert (corpus.document_starts[spans.documents] == spans.document_starts).all()
    assert (corpus.document_starts[spans.documents + 1] == spans.document_ends).all()
    rows = examples_of_documents(corpus, lambda documents, seed: PackedRows(documents, LENGTH, seed), 0)
    pieces = a_pass(rows, number)
    assert np.sort(tokens_of(pieces.starts, pieces.lengths)).tolist() == list(range(corpus.num_tokens))


def test_an_example_is_a_function_of_its_position_alone(corpus, rng):
    in_order = spans_of(corpus)
    count = len(in_order)
    whole = [a_pass(in_order, number) for number in range(3)]
    for _ in range(5):
        positions = rng.integers(0, 3 * count, 40)
        found = spans_of(corpus).at(positions)  # which has counted no group yet
        for name in ("keys", "starts", "ends", "documents", "passes"):
            expected = np.concatenate([getattr(each, name) for each in whole])[positions]
            np.testing.assert_array_equal(getattr(found, name), expected)


def test_the_first_batch_reads_one_group_and_not_the_corpus(corpus):
    read = []

    def make(documents, seed):
        read.append(len(documents.starts))
        return Examples(documents, LENGTH, seed)

    examples = examples_of_documents(corpus, make, 0)
    assert isinstance(examples, GroupedExamples)
    assert not read
    examples.at(np.arange(40))
    assert len(read) == 1
    assert read[0] <= GROUP


def test_groups_are_from_all_over_the_corpus_and_every_document_is_in_one(corpus):
    groups = document_groups.count_groups(corpus)
    starts = [documents_of(corpus, group, groups).starts for group in range(groups)]
    assert np.sort(np.concatenate(starts)).tolist() == corpus.document_starts[:-1].tolist()
    for of_group in starts:
        assert 48 <= len(of_group) <= GROUP
        tenths = np.bincount(of_group * 10 // corpus.num_tokens, minlength=10)
        assert tenths.min() >= 3


def test_passes_have_other_orders_and_a_document_comes_equally_often_in_every_part_of_a_pass(corpus):
    examples, parts = spans_of(corpus, seed=3), 5
    passes, counts = [], np.zeros((598, parts))
    for number in range(80):
        documents = a_pass(examples, number).documents
        passes.append(documents)
        np.add.at(counts, (documents, np.arange(len(documents)) * parts // len(documents)), 1 / np.bincount(documents)[documents])
    for one, other in itertools.combinations(passes[:3], 2):
        assert (one[:500] == other[:500]).mean() < 0.05
    # Documents of a group come in the same part of a pass: the groups are what is independent, 10 times 80 draws.
    of_groups = np.stack([counts[np.arange(598) // RUN % 10 == group].mean(axis=0) for group in range(10)])
    expected = 80 / parts
    assert ((of_groups - expected) ** 2 / expected).sum() / (10 * (parts - 1)) < 2
    within = passes[0][: len(passes[0]) // 10]
    assert abs(np.corrcoef(within, np.arange(len(within)))[0, 1]) < 0.35


def test_random_second_segments_are_from_another_document(corpus):
    batches = pretraining_batches(corpus, 64, 24, 4, seed=1, steps_per_epoch=10, mask_mask_rate=0.0, mask_random_rate=0.0)
    labels = []
    for index in range(10):
        (ids, segments, _), (_, is_random) = batches.batch(0, index)
        for row, second, random in zip(ids, segments == 1, is_random[:, 0], strict=True):
            first, last = (set(document_of(corpus, row[side & (row >= FIRST)])) for side in (~second, second))
            assert (first != last) == random
            labels.append(random)
    assert 0.4 < np.mean(labels) < 0.6


def test_corpora_of_groups_can_be_mixed(corpus):
    parts = [held_out.SomeDocuments(corpus, np.arange(*ends)) for ends in ((0, 100), (100, 598))]
    mixed = MixedCorpus(parts, [1, 3])
    for packed in (False, True):
        settings = {"next_sentence": None, "packed": packed, "mask_mask_rate": 0.0, "mask_random_rate": 0.0}
        batches = pretraining_batches(mixed, 1024, 24, 4, short_seq_prob=0.0, steps_per_epoch=9, **settings)
        ids = batches.batch(0, 0)[0][0]
        firsts = ids[:, 1] - FIRST
        assert (firsts < parts[0].num_tokens).mean() == pytest.approx(0.25, abs=0.001)
        assert (np.diff(ids[(firsts >= 0) & (ids[:, 2] >= FIRST)][:, 1:3]) == 1).all()


def test_batches_of_groups_are_the_same_bytes_everywhere(corpus):
    digest = hashlib.sha256()
    for settings in ({}, {"next_sentence": None, "packed": True}):
        batches = pretraining_batches(corpus, 8, 24, 4, seed=5, **settings)
        for epoch, index in ((0, 3), (2, 1)):
            digest.update(batches.batch(epoch, index)[0][0].astype("<i4").tobytes())
    assert digest.hexdigest() == "dc34fb18af391fb0c2012a47a08f47be3b22305be84df4a714580f275715f34d"


def store_of(folder, passages, shards):
    """A store of passages of two or three tokens, two in a document."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *(f"w{i}" for i in range(1000))]) + "\n")
    records = []
    for number in range(shards):
        rng = np.random.default_rng(number)
        starts = np.concatenate([[0], np.cumsum(rng.integers(2, 4, passages // shards))])
        arrays = {"ids": rng.integers(5, 1005, starts[-1]).astype("uint16"), "passages": starts, "documents": starts[::2]}
        records.append(write_shard(folder, number, arrays, 1))
    settings = {"cased": False, "dtype": "uint16", "vocabulary": {"sha256": sha256_of(folder / "vocab.txt")}}
    index = {"format": FORMAT, "version": VERSION, "settings": settings, "blocks": shards, "part": [0, 1], "shards": records}
    write_json(folder / "index.json", index)
    return folder


def started(folder):
    """The peak of the memory of a start, in bytes: verified, split, compared, first batches of every kind."""
    tracemalloc.start()
    store = TokenStore(folder)
    store.verify()
    train, left_out = held_out.split_documents(store, 0.01)
    for settings in ({}, {"next_sentence": None}, {"next_sentence": None, "packed": True}):
        for corpus in (train, left_out):
            pretraining_batches(corpus, 32, 16, 3, steps_per_epoch=10**6, **settings).batch(0, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_the_memory_of_a_start_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(document_groups, "GROUP", 1 << 13)
    monkeypatch.setattr(document_groups, "RUN", 1 << 6)
    monkeypatch.setattr(token_store, "_JOINED", 1 << 13)
    monkeypatch.setattr(held_out, "MOST_HELD_OUT", 1 << 9)
    small, large = (started(store_of(tmp_path / str(n), n, shards)) for n, shards in ((10**5, 10), (10**6, 100)))
    assert large < 1.2 * small


def test_a_corpus_of_one_group_is_read_as_a_whole():
    one = small_corpus(documents=GROUP)
    assert isinstance(spans_of(one), Examples)
    starts = np.array([0, 2, 2, 3])
    with pytest.raises(ValueError, match="document 1 has none"):
        spans_of(TokenCorpus(np.zeros(3, "int32"), starts, starts, SPECIAL))
