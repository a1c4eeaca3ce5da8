"""Batches by length and of packed groups have every example once an epoch, in an order of the seed."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.batches import padded
from keras_bert_rebuild.data.labelled.group_batches import PackedGroups
from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches, bucket_batches, original_order
from keras_bert_rebuild.data.packing import packed_places

BUCKETS = (8, 16, 32)


@pytest.fixture
def sequences(rng):
    """A hundred sequences of 1 to 32 ids, which identify their sequence."""
    return [[i + 1] * int(rng.integers(1, 33)) for i in range(100)]


@given(
    st.lists(st.integers(1, 32), min_size=1, max_size=80),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(0, 2**64 - 1)),
    st.integers(0, 3),
)
def test_every_example_is_in_one_batch_that_holds_it(lengths, batch_size, seed, epoch):
    batches = bucket_batches(lengths, batch_size, BUCKETS, seed, epoch)
    assert sorted(i for batch in batches for i in batch.indexes) == list(range(len(lengths)))
    for batch in batches:
        assert batch.length in BUCKETS
        assert max(lengths[i] for i in batch.indexes) <= batch.length
    sizes = sorted(len(batch.indexes) for batch in batches)
    assert all(size == batch_size for size in sizes[1:])  # one batch at most is not full
    assert len({(len(batch.indexes), batch.length) for batch in batches}) <= len(BUCKETS) + 1


def test_examples_are_in_the_smallest_bucket_except_those_left_over(rng):
    lengths = rng.integers(1, 33, 1000)
    batches = bucket_batches(lengths, 10, BUCKETS, seed=1)
    least = np.array(BUCKETS)[np.searchsorted(BUCKETS, lengths)]
    given_to = np.zeros(1000, int)
    for batch in batches:
        given_to[batch.indexes] = batch.length
    assert (given_to >= least).all()
    assert (given_to > least).sum() < 10 * (len(BUCKETS) - 1)


@pytest.mark.parametrize("label_padding", [None, -1])
def test_a_smaller_batch_is_filled_up_with_rows_whose_labels_are_ignored(sequences, label_padding):
    labels = [s[0] if label_padding is None else s for s in sequences]
    settings = {"batch_size": 8, "buckets": BUCKETS, "seed": 3, "label_padding": label_padding}
    smaller, filled = (BucketedBatches([sequences], labels, **settings, filling=label) for label in (None, -100))
    assert len(filled) == len(smaller) == 13
    for index in range(13):
        (x, y), (full_x, full_y) = smaller[index], filled[index]
        np.testing.assert_array_equal(full_x[: len(x)], x)
        np.testing.assert_array_equal(full_y[: len(y)], y)
        assert len(full_x) == len(full_y) == 8
        assert set(full_y[len(y) :].ravel()) <= {-100, label_padding}
        assert {row[0] for row in full_x[len(x) :]} <= {row[0] for row in x}
    assert [len(smaller[index][1]) for index in range(13)].count(4) == 1
    alone = BucketedBatches([sequences[:3]], labels[:3], **settings, filling=-100)
    assert len(alone[0][1]) == 3  # no other batch has the shape


@pytest.mark.parametrize("filling", [None, -100])
def test_one_batch_of_each_shape_is_told(sequences, filling):
    labels = list(range(len(sequences)))
    data = BucketedBatches([sequences], labels, batch_size=8, buckets=BUCKETS, seed=3, filling=filling)
    shapes = [x.shape for x, _ in data.one_of_each_shape()]
    assert len(shapes) == len(set(shapes))
    for epoch in (0, 1):
        assert {data.batch(epoch, index)[0].shape for index in range(len(data))} == set(shapes)
    assert any(rows != 8 for rows, _ in shapes) == (filling is None)


def test_the_order_depends_on_seed_and_epoch(rng):
    lengths = rng.integers(1, 33, 200)

    def order(seed, epoch=0):
        return [i for batch in bucket_batches(lengths, 4, BUCKETS, seed, epoch) for i in batch.indexes]

    assert order(3) == order(3)
    assert len({tuple(o) for o in (order(3), order(4), order(3, 1), order(None))}) == 4
    assert order(None) == order(None, 1)
    batch_lengths = [batch.length for batch in bucket_batches(lengths, 4, BUCKETS, 3)]
    assert batch_lengths != sorted(batch_lengths)


def test_a_sequence_longer_than_the_largest_bucket_is_an_error():
    with pytest.raises(ValueError, match="at most 32 tokens, the length of the largest bucket; example 1 has 33"):
        bucket_batches([4, 33], 2, BUCKETS)
    with pytest.raises(ValueError, match="batch_size must be at least 1; got 0"):
        bucket_batches([4], 0, BUCKETS)


def test_sequences_are_padded():
    assert padded([[1, 2], [3]], 3, padding=9).tolist() == [[1, 2, 9], [3, 9, 9]]
    assert padded([np.ones((2, 4)), np.ones((1, 4))], 3).shape == (2, 3, 4)


@pytest.mark.parametrize("as_list", [True, False])
def test_results_come_back_in_the_order_of_the_examples(sequences, as_list):
    data = BucketedBatches([sequences], batch_size=7, buckets=BUCKETS)
    results = [data[i][0][:, 0] for i in range(len(data))]
    restored = data.restore(results if as_list else np.concatenate(results))
    assert np.asarray(restored).tolist() == list(range(1, 101))


def test_results_of_other_lengths_come_back_too(sequences):
    data = BucketedBatches([sequences], batch_size=7, buckets=BUCKETS)
    restored = data.restore([data[i][0] for i in range(len(data))])
    assert all(row[: len(s)].tolist() == s for row, s in zip(restored, sequences, strict=True))


def test_too_few_results_are_an_error(sequences):
    with pytest.raises(ValueError, match="one result for each of 100 examples; got 99"):
        original_order(bucket_batches([3] * 100, 8, BUCKETS), np.zeros(99))
    with pytest.raises(ValueError, match="got seed 4"):
        BucketedBatches([sequences], buckets=BUCKETS, seed=4).restore(np.zeros(100))


def test_inputs_and_labels_go_together(sequences):
    data = BucketedBatches([sequences, [[0] * len(s) for s in sequences]], list(range(1, 101)), 7, BUCKETS, seed=0, padding=(0, 1))
    seen = []
    for i in range(len(data)):
        (tokens, segments), labels = data[i]
        assert tokens.dtype == np.int32
        assert (tokens[:, 0] == labels).all()
        assert (segments == (tokens == 0)).all()
        seen += labels.tolist()
    assert sorted(seen) == list(range(1, 101))


def test_labels_of_every_token_are_padded(sequences):
    data = BucketedBatches([sequences], sequences, 7, BUCKETS, label_padding=-1)
    tokens, labels = data[0]
    assert (np.where(tokens == 0, -1, tokens) == labels).all()


def test_different_numbers_of_examples_are_an_error(sequences):
    with pytest.raises(ValueError, match=r"the same number of examples, at least one; got \[100, 3\]"):
        BucketedBatches([sequences], [1, 2, 3])
    with pytest.raises(ValueError, match="at least one"):
        BucketedBatches([[]])


def test_a_model_trains_and_predicts_with_them(sequences):
    inputs = keras.Input((None,), dtype="int32")
    outputs = keras.ops.max(keras.ops.cast(inputs, "float32"), axis=1, keepdims=True)
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones", trainable=True)(outputs))
    predicted = model.predict((data := BucketedBatches([sequences], batch_size=7, buckets=BUCKETS)), verbose=0)
    np.testing.assert_allclose(data.restore(predicted)[:, 0], np.arange(1, 101))
    model.compile("sgd", "mse")
    model.fit(BucketedBatches([sequences], [1.0] * 100, 7, BUCKETS, seed=0), epochs=1, verbose=0)


LENGTH = 32


def texts_of(rng, count=60):
    return [rng.integers(5, 100, size).astype("int32") for size in rng.integers(2, 30, count)]


def batches_of(rng, **settings):
    texts = texts_of(rng)
    groups = np.arange(60).reshape(20, 3)
    groups[::4, 2] = -1
    segments = [text % 3 for text in texts]
    settings = {"batch_size": 8, "lengths": [LENGTH], "pad_id": 1, "segments": segments, **settings}
    return PackedGroups(texts, groups, lambda examples: examples, **settings), texts, groups


def test_every_text_of_a_batch_is_once_in_its_rows(rng):
    batches, texts, groups = batches_of(rng, seed=4)
    seen = []
    for index in range(len(batches)):
        (ids, segments, numbers, begins, order), examples = batches.batch(1, index)
        seen += examples.tolist()
        assert (segments == np.where(numbers > 0, ids % 3, 0)).all()
        assert (ids[numbers == 0] == 1).all()
        for group, of_group in zip(order, groups[examples], strict=True):
            for place, text in zip(group, of_group, strict=True):
                assert (place == -1) == (text == -1)
                if text >= 0:
                    row, slot = divmod(int(place), begins.shape[1])
                    assert ids[row][numbers[row] == begins[row, slot]].tolist() == texts[text].tolist()
                    assert numbers[row].tolist().index(begins[row, slot]) == begins[row, slot] - 1
        assert (numbers > 0).sum() == sum(len(texts[text]) for text in groups[examples].ravel() if text >= 0)
        assert len(ids) < (order >= 0).sum() * 0.7
    assert sorted(seen) == list(range(20))


def test_a_batch_is_a_function_of_seed_epoch_and_index(rng):
    batches = [batches_of(np.random.default_rng(3), seed=seed)[0] for seed in (1, 1, 2)]
    first, again, other = ([batch.batch(epoch, i)[1].tolist() for epoch in (0, 1) for i in range(3)] for batch in batches)
    assert first == again != other
    assert first[:3] != first[3:]


def test_without_a_seed_batches_are_consecutive_examples_and_the_last_may_be_left_out(rng):
    batches, _, _ = batches_of(rng)
    assert [batches[i][1].tolist() for i in range(3)] == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    assert len(batches_of(rng, drop_last=True)[0]) == 2


def test_one_batch_of_groups_of_each_shape_is_told(rng):
    batches, _, _ = batches_of(rng, seed=4, batch_size=3, few_shapes=True)
    told, all_ = (
        [tuple(array.shape for array in (*x, y)) for x, y in some]
        for some in (batches.one_of_each_shape(), [batches[index] for index in range(len(batches))])
    )
    assert 1 < len(told) == len(set(told))
    assert set(told) <= set(all_)


def test_rows_are_a_multiple_and_of_few_numbers(rng):
    batches, _, _ = batches_of(rng, multiple=5, few_shapes=True)
    assert {len(batches[i][0][0]) % 5 for i in range(3)} == {0}
    assert [batches_of(rng, few_shapes=True)[0]._rounded(rows) for rows in (1, 9, 17, 33, 34, 1000)] == [1, 9, 18, 36, 36, 1024]


def test_a_text_in_every_row_is_padded_to_the_least_length_that_holds_the_longest(rng):
    texts = [np.full(size, 7, "int32") for size in (3, 5, 4, 12)]
    batches = PackedGroups(texts, np.arange(4).reshape(2, 2), lambda examples: examples, 1, [6, 12], packed=False)
    assert [batches[i][0][0].shape for i in range(2)] == [(2, 6), (2, 12)]
    assert batches[0][0][2].tolist() == [[1], [1]]


def test_places_do_not_overlap(rng):
    sizes = rng.integers(1, 20, 200)
    rows, columns, slots, count = packed_places(sizes, 20)
    used = np.zeros((count, 20), int)
    for row, column, size in zip(rows, columns, sizes, strict=True):
        used[row, column : column + size] += 1
    assert used.max() == 1
    assert used.sum() == sizes.sum()
    assert len({*zip(rows.tolist(), slots.tolist(), strict=True)}) == 200
    assert count <= 1.05 * sizes.sum() / 20


def test_a_text_without_tokens_is_in_no_row():
    texts = [np.array([], "int32"), np.full(3, 7, "int32")]
    batches = PackedGroups(texts, np.array([[0, 1], [0, 0]]), lambda examples: examples, 1, [8])
    assert [batches[i][0][3].tolist() for i in range(2)] == [[[-1, 0]], [[-1, -1]]]
    assert (batches[0][0][0] == 7).sum() == 3


def test_bad_settings_are_one_sentence(rng):
    with pytest.raises(ValueError, match="batch_size must be at least 1; got 0"):
        batches_of(rng, batch_size=0)
    with pytest.raises(ValueError, match="at most 4 tokens; text"):
        batches_of(rng, lengths=[4])
    with pytest.raises(ValueError, match="at least one batch of 30 groups; got 20 groups"):
        batches_of(rng, batch_size=30, drop_last=True)
