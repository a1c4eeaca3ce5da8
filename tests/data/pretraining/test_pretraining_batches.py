"""Batches are a pure function of corpus, seed, epoch and index, and models train on them."""

import gc
import hashlib
import math
import weakref

import keras
import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, MASK, PAD, SEP, document_of, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import compile_model, get_model
from keras_bert_rebuild.anatomy.heads import DRAW_BITS
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.corpora.documents import encode_documents, unigram_log_probabilities
from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches, pretraining_batches
from keras_bert_rebuild.models.build_model import build_model

SEQ_LEN = 24
KINDS = ["nsp", "sop", None]


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(documents=30, pieces=0.2)


def batches(store, batch_size=8, **settings):
    return pretraining_batches(store, batch_size, SEQ_LEN, 4, **{"seed": 5, **settings})


def arrays(batch):
    return keras.tree.flatten(batch)


def digest(*many):
    joined = hashlib.sha256()
    for batch in many:
        for array in arrays(batch):
            assert array.dtype == np.int32
            joined.update(array.astype("<i4").tobytes())
    return joined.hexdigest()


def go_through(data):
    """The batches of an epoch, requested as Keras does."""
    data.on_epoch_begin()
    asked = [data[i] for i in range(len(data))]
    data.on_epoch_end()
    return asked


def same(a, b):
    return digest(a) == digest(b)


@pytest.mark.parametrize("masking", ["token", "whole_word", "ngram"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_alone_is_the_batch_in_sequence(corpus, kind, masking):
    in_sequence = batches(corpus, next_sentence=kind, masking=masking)
    kept = []
    for _ in range(3):
        kept.append(go_through(in_sequence))
    for epoch, index in ((2, 7), (0, 3), (1, 0)):
        assert same(batches(corpus, next_sentence=kind, masking=masking).batch(epoch, index), kept[epoch][index])


GOLDENS = {
    "nsp": "08a729be32b516d98ed4e571cf9483ded0b37f869064511c23e24146f1878e18",
    "sop": "2650b7ce431053f91fc43d84ad094f904e0f9ffa13facb8880f19527d982303c",
    None: "961f1c410f05ab5c57d8c5ef9e5f06702db702b0b15f634a38ff9cd0973bbc53",
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_the_same_bytes_everywhere(kind):
    store = small_corpus(documents=6, pieces=0.2, seed=3)
    data = [batches(store, next_sentence=kind, masking=masking) for masking in ("token", "whole_word", "ngram")]
    assert digest(*(each.batch(epoch, 1) for each in data for epoch in (0, 5))) == GOLDENS[kind]


def test_seeds_and_epochs_give_other_batches(corpus):
    data, other = batches(corpus), batches(corpus, seed=6)
    assert len({digest(batch) for batch in (data.batch(0, 0), data.batch(0, 1), data.batch(1, 0), other.batch(0, 0))}) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 4])
def test_processes_share_a_batch(corpus, kind, count):
    whole = batches(corpus, next_sentence=kind).batch(1, 2)
    parts = [batches(corpus, next_sentence=kind, process_index=i, process_count=count).batch(1, 2) for i in range(count)]
    joined = [np.concatenate(slices) for slices in zip(*map(arrays, parts), strict=True)]
    for a, b in zip(joined, arrays(whole), strict=True):
        assert len(b) == 8
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_of_single_segments_has_every_token_once(corpus, epoch):
    data = batches(corpus, batch_size=1, next_sentence=None, short_seq_prob=0)
    labels = np.concatenate([data.batch(epoch, i)[1].ravel() for i in range(len(data))])
    assert sorted(labels[labels >= FIRST]) == list(range(FIRST, FIRST + corpus.num_tokens))


def test_examples_have_the_form_of_bert(corpus):
    data = batches(corpus)
    for index in range(20):
        (ids, segments, chosen), (labels, is_random) = data.batch(0, index)
        labels = labels[..., 0]
        for row in range(8):
            length = int((labels[row] != PAD).sum())
            ends = np.flatnonzero(labels[row] == SEP)
            assert labels[row, 0] == CLS
            assert len(ends) == 2
            assert ends[1] == length - 1
            assert segments[row].tolist() == [0] * (ends[0] + 1) + [1] * (length - ends[0] - 1) + [0] * (SEQ_LEN - length)
            first, second = labels[row, 1 : ends[0]], labels[row, ends[0] + 1 : ends[1]]
            assert (np.diff(first) == 1).all()
            assert (np.diff(second) == 1).all()
            of_first, of_second = set(document_of(corpus, first)), set(document_of(corpus, second))
            assert len(of_first) == len(of_second) == 1
            assert is_random[row, 0] == (second[0] != first[-1] + 1)
            assert (of_first != of_second) == is_random[row, 0]
            assert not chosen[row][np.isin(labels[row], (PAD, CLS, SEP))].any()
            assert 1 <= chosen[row].sum() <= 4
            np.testing.assert_array_equal(ids[row][chosen[row] == 0], labels[row][chosen[row] == 0])


def test_swapped_parts_are_from_one_document(corpus):
    data = batches(corpus, next_sentence="sop", short_seq_prob=0)
    for index in range(10):
        _, (labels, swapped) = data.batch(0, index)
        for row, label in zip(labels[..., 0], swapped[:, 0], strict=True):
            text = row[row >= FIRST]
            assert len(set(document_of(corpus, text))) == 1
            assert (np.sort(text) == np.arange(text.min(), text.min() + len(text))).all()
            assert label == (text[0] != text.min())


@given(
    st.integers(2, 6),
    st.integers(1, 30),
    st.sampled_from(KINDS),
    st.sampled_from(["token", "whole_word", "ngram"]),
    st.integers(5, 40),
    st.integers(0, 2**64 - 1),
)
def test_any_corpus_makes_batches(documents, longest, kind, masking, seq_len, seed):
    store = small_corpus(documents, passages=3, longest=longest + 1, pieces=0.3, seed=longest)
    data = PretrainingBatches(
        store, 4, seq_len, 3, seed, next_sentence=kind, masking=masking, short_seq_prob=0.5, steps_per_epoch=2
    )
    (ids, segments, chosen), y = data[1]
    labels = (y if kind is None else y[0])[..., 0]
    assert ids.shape == segments.shape == chosen.shape == labels.shape == (4, seq_len)
    assert chosen.sum(axis=1).max() <= 3
    assert (labels == SEP).sum(axis=1).tolist() == [1 if kind is None else 2] * 4
    assert (labels[:, 0] == CLS).all()
    assert labels.max() < FIRST + store.num_tokens
    assert not (labels == MASK).any()
    assert (chosen[labels < FIRST] == 0).all()


def test_epochs_with_a_number_of_steps_continue_through_the_corpus(corpus):
    data = batches(corpus, batch_size=1, next_sentence=None, short_seq_prob=0)
    count = len(data)
    longer = batches(corpus, batch_size=1, next_sentence=None, short_seq_prob=0, steps_per_epoch=count + 3)
    assert len(longer) == count + 3
    assert same(longer.batch(0, count + 1), data.batch(1, 1))
    assert same(longer.batch(2, 0), data.batch(2, 6))
    # A corpus smaller than a batch.
    assert batches(small_corpus(documents=2, passages=2), batch_size=64, steps_per_epoch=1)[0][0][0].shape == (64, SEQ_LEN)


def test_a_dataset_continues_or_repeats(corpus):
    data = batches(corpus)
    first = data[0]
    data.on_epoch_end()
    assert same(data[0], first)  # only a part of the epoch was requested
    go_through(data)
    assert same(data[0], data.batch(1, 0))
    assert same(batches(corpus, start_epoch=1)[0], data[0])
    repeating = batches(corpus, repeat=True)
    go_through(repeating)
    assert same(repeating[0], first)
    assert isinstance(data, keras.utils.PyDataset)


class Recorded(PretrainingBatches):
    """Batches that record which were requested."""

    def batch(self, epoch, index):
        self.__dict__.setdefault("asked", []).append((epoch, index))
        return super().batch(epoch, index)


@pytest.mark.parametrize(("kind", "heads"), [("nsp", None), ("sop", ("mlm", "sop")), (None, ("mlm",))])
def test_a_model_trains_on_them(corpus, kind, heads):
    vocab = len(corpus.vocabulary)
    small = {"num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1}
    if heads is None:
        model = get_model(vocab, SEQ_LEN, SEQ_LEN, embed_dim=8, transformer_num=1, head_num=1, feed_forward_dim=8)
    else:
        model = build_model(BertConfig(vocab_size=vocab, max_position_embeddings=SEQ_LEN, **small), heads, seq_len=SEQ_LEN)
    compile_model(model, max_predictions=4, optimizer="sgd")
    data = Recorded(corpus, 8, SEQ_LEN, 4, next_sentence=kind, steps_per_epoch=2)
    history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    # Keras reads the first batch before it trains, and TensorFlow reads ahead.
    seen = dict.fromkeys(data.asked)
    assert list(seen)[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert data.epoch == 2


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(("kind", "workers"), [*zip(KINDS, (0, 1, 4), strict=True)])
def test_a_tensorflow_dataset_has_the_same_numbers(corpus, kind, workers):
    from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_pretraining_batches

    data = batches(corpus, next_sentence=kind, start_epoch=2, steps_per_epoch=3, workers=workers)
    got = list(tf_pretraining_batches(data, epochs=2).as_numpy_iterator())
    assert [digest(batch) for batch in got] == [digest(data.batch(epoch, i)) for epoch in (2, 3) for i in range(3)]
    endless = tf_pretraining_batches(data, epochs=None)
    assert same(next(endless.skip(10).as_numpy_iterator()), data.batch(5, 1))
    assert [tuple(spec.shape) for spec in keras.tree.flatten(endless.element_spec)] == [a.shape for a in arrays(data[0])]


@pytest.mark.slow
@pytest.mark.backend("tensorflow")
def test_a_model_trains_on_a_tensorflow_dataset(corpus):
    from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_pretraining_batches

    model = get_model(len(corpus.vocabulary), SEQ_LEN, SEQ_LEN, embed_dim=8, transformer_num=1, head_num=1, feed_forward_dim=8)
    compile_model(model, max_predictions=4, optimizer="sgd")
    data = tf_pretraining_batches(batches(corpus, steps_per_epoch=2), epochs=2)
    assert np.isfinite(model.fit(data, epochs=2, steps_per_epoch=2, verbose=0).history["loss"]).all()


@pytest.mark.backend("tensorflow")
def test_the_batches_of_a_tensorflow_dataset_are_freed_with_it(corpus):
    from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_pretraining_batches

    data = batches(corpus, steps_per_epoch=2)
    read = iter(tf_pretraining_batches(data))
    next(read)
    reference = weakref.ref(data)
    del data
    gc.collect()
    next(read)
    del read
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"next_sentence": "both"}, "next_sentence must be one of 'nsp', 'sop', None; got 'both'"),
        ({"masking": "word"}, "masking must be one of 'token', 'whole_word', 'ngram', 'span'; got 'word'"),
        ({"mask_rate": 1.5}, r"mask_rate must be in \[0, 1\]; got 1.5"),
        ({"mask_mask_rate": 0.95}, r"mask_mask_rate \+ mask_random_rate must be in \[0, 1\]; got 1.05"),
        ({"batch_size": 6, "process_count": 4}, "summed over all processes, must be a multiple of 4; got 6"),
        ({"process_index": 2, "process_count": 2}, r"in \[0, 2\), one of the processes; got 2"),
        ({"batch_size": 10000}, "at least one batch of 10000 examples; a pass has [0-9]+ examples"),
        ({"steps_per_epoch": 0}, "at least one batch of 8 examples; steps_per_epoch is 0"),
    ],
)
def test_unsupported_combinations_are_an_error(corpus, change, match):
    with pytest.raises(ValueError, match=match):
        batches(corpus, **change)


def test_invalid_lengths_are_errors(corpus):
    with pytest.raises(ValueError, match="seq_len must be at least 5, for 3 special tokens and 2 more; got 4"):
        pretraining_batches(corpus, 8, 4, 1)
    with pytest.raises(ValueError, match="max_predictions must be at least 1; got 0"):
        pretraining_batches(corpus, 8, 24, 0)


def test_pairs_need_two_documents():
    store = small_corpus(documents=1)
    with pytest.raises(ValueError, match="'nsp' needs a corpus of at least 2 documents; got 1"):
        batches(store, batch_size=1)
    assert len(batches(store, batch_size=1, next_sentence="sop")) > 1


def test_documents_are_flattened():
    store = encode_documents([["ab", ""], [""], ["c", "def"]], lambda passage: [ord(c) for c in passage], ["x"] * 128, cased=True)
    assert store.passage_starts.tolist() == [0, 2, 3, 6]  # an empty passage is dropped
    assert store.document_starts.tolist() == [0, 2, 6]
    assert (store.num_tokens, store.cased, len(store.vocabulary)) == (6, True, 128)
    assert store.ids_at(np.array([[0, 1], [5, 2]])).tolist() == [[97, 98], [102, 99]]
    assert store.ids.dtype == np.int32
    assert encode_documents([], list, []).document_starts.tolist() == [0]


def test_unigram_probabilities_count_with_one_added():
    np.testing.assert_allclose(np.exp(unigram_log_probabilities(np.array([1, 1, 2]), 4)), [1 / 7, 3 / 7, 2 / 7, 1 / 7])


def test_the_samples_of_a_generator_do_not_follow_from_the_masks():
    batches = pretraining_batches(small_corpus(documents=200), 64, 32, 6, next_sentence=None, draws=True)
    drawn = []
    for index in range(len(batches)):
        (_, _, draws, chosen), _ = batches.batch(0, index)
        drawn.append(draws[chosen == 1] / 2.0**DRAW_BITS)
    drawn = np.concatenate(drawn)
    expected = len(drawn) / 10
    counts = np.histogram(drawn, bins=10, range=(0, 1))[0]
    assert abs(((counts - expected) ** 2 / expected).sum() - 9) < 5 * math.sqrt(2 * 9)
