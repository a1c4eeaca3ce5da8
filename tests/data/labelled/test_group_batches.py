"""Batches of groups of texts in packed rows: composition, layout, shapes."""

import numpy as np
import pytest

from keras_bert_rebuild.data.labelled.group_batches import PackedGroups
from keras_bert_rebuild.data.packing import packed_places

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


def test_one_batch_of_each_shape_is_told(rng):
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
