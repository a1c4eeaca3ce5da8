"""A run is divided where something is due, and the work of its batches is counted."""

import keras
import numpy as np
import pytest
from helpers.small_corpus import small_corpus
from helpers.tiny_training import At
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches
from keras_bert_rebuild.recipes.pretraining.step_spans import SpanOfBatches, step_spans
from keras_bert_rebuild.recipes.pretraining.training_run import _fed
from keras_bert_rebuild.recipes.step_costs import Work

STEPS = st.integers(1, 30)


@given(st.lists(STEPS, min_size=1, max_size=3), STEPS, STEPS, STEPS, st.data())
def test_segments_cover_the_rest_of_the_run_without_gaps_and_end_where_something_is_due(lengths, log, evaluate, save, data):
    ends = np.cumsum(lengths).tolist()
    start = data.draw(st.integers(0, ends[-1]))
    found = step_spans(ends, start, log, evaluate, save)
    assert [n for span in found for n in range(span.start, span.stop)] == list(range(start, ends[-1]))
    due = {n for n in range(start + 1, ends[-1] + 1) if n in ends or 0 in (n % log, n % evaluate, n % save)}
    assert {span.stop for span in found} == due
    for span in found:
        is_last = span.stop == ends[-1]
        assert span.evaluates == (is_last or span.stop % evaluate == 0)
        assert span.saves == (is_last or span.stop % save == 0)
        assert span.stop <= ends[span.phase]
        assert not span.phase or span.start >= ends[span.phase - 1]


def test_the_work_of_a_segment_is_that_of_its_batches():
    corpus = small_corpus()
    data = PretrainingBatches(corpus, batch_size=4, seq_len=16, max_predictions=4, short_seq_prob=0.5)
    span = SpanOfBatches(data, 2, 5)
    assert len(span) == 3
    for i in range(3):
        for mine, theirs in zip(keras.tree.flatten(span[i]), keras.tree.flatten(data.batch(0, 2 + i)), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert span.work_of_first(2) == work_of_tokens(data, (2, 3))


def work_of_tokens(data, numbers):
    inputs = [data.batch(0, i)[0] for i in numbers]
    lengths = np.concatenate([(tokens != 0).sum(axis=1) for tokens, _, _ in inputs])
    predictions = sum(int(chosen.sum()) for _, _, chosen in inputs)
    return Work(int(lengths.sum()), int((lengths**2).sum()), predictions, len(lengths))


@pytest.mark.parametrize("lengths", [None, [8, 12]])
@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_a_run_trains_on_its_batches_in_order_and_counts_their_work(monkeypatch, workers, lengths):
    corpus, seen = small_corpus(), []
    step = BertModel.train_step

    def noting(self, *args):
        seen.append(keras.ops.convert_to_numpy(args[-1][0][0]))
        return step(self, *args)

    monkeypatch.setattr(BertModel, "train_step", noting)
    inputs = [keras.Input((None,)) for _ in range(3)]
    model = BertModel(inputs, keras.layers.Dense(1)(inputs[0][..., None]))
    model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=True)
    data = PretrainingBatches(corpus, 4, 16, 4, next_sentence=None, short_seq_prob=0.5, lengths=lengths)
    stop = At(2, lambda callback: setattr(callback.model, "stop_training", True))
    for first, last, callbacks in ((0, 5, []), (5, 6, []), (6, 15, [stop]), (8, 12, [])):
        span = SpanOfBatches(data, first, last, workers)
        model.fit(_fed(span, lengths), shuffle=False, verbose=0, callbacks=callbacks)
        trained = range(first, 8 if callbacks else last)
        assert span.work_of_first(len(trained)) == work_of_tokens(data, trained)
    assert len(seen) == 12
    for number, tokens in enumerate(seen):
        np.testing.assert_array_equal(tokens, data.batch(0, number)[0][0])
