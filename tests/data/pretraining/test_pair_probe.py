"""Only the text reveals whether a second segment follows: not lengths, edges or boundaries."""

import functools

import numpy as np
import pytest
from helpers.english import SPECIAL, corpus, paragraphs, sentences

from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.data.pretraining.pair_probe import STEPS, edge_columns, examples_of, length_step, probe, probe_of_pairs
from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches

FIRST = len(SPECIAL)
EXAMPLES = 12_000
# Two percentage points, and half of the examples are judged: a standard deviation is 0.6 points.
MARGIN = 0.02


@functools.cache
def halves(form):
    """Two corpora without a document in common: one to train on, one to evaluate."""
    documents = {"paragraphs": paragraphs, "sentences": sentences}[form]()
    return corpus(documents[::2]), corpus(documents[1::2])


def placed(text):
    """The corpus with ids that encode where a token is: its index plus 5."""
    words = [text.vocabulary[i] for i in text.ids]
    ids = np.arange(FIRST, FIRST + text.num_tokens, dtype="int32")
    return TokenCorpus(ids, text.passage_starts, text.document_starts, [*SPECIAL, *words])


def segments(text, kind, seq_len, seed=0):
    """The indices in the corpus where both segments of examples start and end, `(examples, 4)`, and their labels."""
    batch_size = 250
    data = PretrainingBatches(placed(text), batch_size, seq_len, 1, seed, next_sentence=kind, steps_per_epoch=10**6)
    (ids, first, last), labels = examples_of(data, range(EXAMPLES // 2 // batch_size))
    columns = np.stack([np.ones_like(first), first - 1, first + 1, last - 1], axis=1)
    return np.take_along_axis(ids, columns, axis=1) - FIRST + [0, 1, 0, 1], labels


def columns_of(text, places, seq_len):
    """The features of the probe, and more: whether passages or documents start or end there, all pairs, each with each length."""
    at_edges = [text.ids[place] for place in (places - [0, 1, 0, 1]).T]
    facts = [np.isin(place, starts).astype(int) for place in places.T for starts in (text.passage_starts, text.document_starts)]
    first, second = places[:, 1] - places[:, 0], places[:, 3] - places[:, 2]
    steps = [length_step(length, seq_len) for length in (first, second, first + second)]
    pairs = [2 * a + b for i, a in enumerate(facts) for b in facts[:i]]
    within = [STEPS * fact + step for fact in facts for step in steps]
    sizes = [len(text.vocabulary)] * 4 + [STEPS] * 3 + [4] * len(pairs) + [2 * STEPS] * len(within)
    return [*at_edges, *steps, *pairs, *within], sizes


def judged(form, seq_len, segments_of):
    """The accuracy of the probe, trained on the documents of one half and evaluated on those of the other."""
    learn, judge = halves(form)
    (places, labels), (others, right) = segments_of(learn), segments_of(judge)
    # The two halves number their words differently: match them by text.
    numbers = {word: i for i, word in enumerate(dict.fromkeys([*learn.vocabulary, *judge.vocabulary]))}
    parts = []
    for text, place in ((learn, places), (judge, others)):
        columns, sizes = columns_of(text, place, seq_len)
        by_text = np.array([numbers[word] for word in text.vocabulary])
        parts.append(([*(by_text[column] for column in columns[:4]), *columns[4:]], [len(numbers)] * 4 + sizes[4:]))
    return probe(*parts, labels, right)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("form", ["paragraphs", "sentences"])
@pytest.mark.parametrize("seq_len", [32, 64, 128, 512])
@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_edges_boundaries_and_lengths_do_not_reveal_the_label(kind, seq_len, form):
    found = judged(form, seq_len, lambda text: segments(text, kind, seq_len))
    assert found.accuracy <= found.prior + MARGIN


@pytest.mark.parametrize("form", ["paragraphs", "sentences"])
@pytest.mark.parametrize("seq_len", [32, 128, 512])
@pytest.mark.parametrize("kind", ["nsp", "sop"])
def test_every_length_has_the_same_share_of_each_label(kind, seq_len, form):
    places, labels = segments(halves(form)[0], kind, seq_len)
    first, second = places[:, 1] - places[:, 0], places[:, 3] - places[:, 2]
    for length in (first, second, first + second):
        step = length_step(length, seq_len) // 2
        for bucket in np.unique(step):
            here = labels[step == bucket]
            assert abs(here.mean() - labels.mean()) < 5 * 0.5 / np.sqrt(len(here))


def cut_anywhere(text, seq_len=64, examples=EXAMPLES // 2):
    """Swapped pairs cut the naive way: from the start of a passage, divided and ended at any token."""
    rng = np.random.default_rng(0)
    start = rng.choice(text.passage_starts[text.passage_starts < text.num_tokens - seq_len], examples)
    middle, labels = start + rng.integers(1, seq_len - 1, examples), rng.integers(0, 2, examples)
    in_order = np.stack([start, middle, middle, start + seq_len], axis=1)
    return np.where(labels[:, None] == 1, in_order[:, [2, 3, 0, 1]], in_order), labels


def test_the_probe_detects_pairs_that_are_cut_anywhere():
    found = judged("paragraphs", 64, cut_anywhere)
    assert found.accuracy > 0.8
    assert found.prior < 0.52


def test_the_probe_finds_a_difference_of_length():
    def longer(text):
        places, labels = segments(text, "nsp", 64)
        places[:, 3] -= np.minimum(10 * labels, places[:, 3] - places[:, 2] - 1)
        return places, labels

    found = judged("paragraphs", 64, longer)
    assert found.accuracy > found.prior + 0.2


def test_the_probe_reads_the_batches_of_training():
    learn, judge = halves("sentences")
    train, other = (PretrainingBatches(text, 100, 64, 10, next_sentence="nsp", lengths=[32]) for text in (learn, judge))
    found = probe_of_pairs(train, examples=2000)
    assert 0.4 < found.accuracy < 0.6
    assert found.prior < 0.55
    rows, labels = examples_of(train, range(3))
    assert rows[0].shape == (300, rows[0].shape[1])
    assert (np.take_along_axis(rows[0], np.stack(rows[1:], axis=1), axis=1) == SPECIAL.index("[SEP]")).all()
    columns, sizes = edge_columns(rows, 64, len(learn.vocabulary))
    assert all(column.min() >= FIRST for column in columns[:4])
    assert all(column.max() < size for column, size in zip(columns, sizes, strict=True))
    assert probe_of_pairs(train, other, examples=500) == probe_of_pairs(train, other, examples=500)
    assert labels.shape == (300,)
