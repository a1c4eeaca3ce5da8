"""Predicted scaling."""

import pytest

from keras_bert_rebuild.recipes.planning.plan_scaling import predicted_scaling


def test_rows_go_from_1_to_256_chips_and_efficiency_is_relative_to_one_chip():
    rows = predicted_scaling("base", batch_per_chip=64, dtype="mixed_bfloat16")
    assert [row.chips for row in rows] == [1, 4, 8, 16, 32, 64, 128, 256]
    assert rows[0].efficiency == 1
    for row in rows:
        assert row.plan.batch_size == 64 * row.chips
        assert row.efficiency == pytest.approx(row.plan.tokens_per_second / (row.chips * rows[0].plan.tokens_per_second))
        assert row.sent_bytes == pytest.approx(2 * (row.chips - 1) / row.chips * row.plan.all_reduce_bytes)


def test_without_a_single_chip_slice_the_smallest_slice_is_the_baseline():
    first, second, *_ = predicted_scaling("base", "v5p", batch_per_chip=64)
    assert (first.chips, first.efficiency) == (4, 1)
    assert second.efficiency == pytest.approx(second.plan.tokens_per_second / second.chips / (first.plan.tokens_per_second / 4))


def test_a_fixed_batch_is_split_as_far_as_possible():
    rows = predicted_scaling("base", batch_size=32)
    assert [row.chips for row in rows] == [1, 4, 8, 16, 32]
    assert {row.plan.batch_size for row in rows} == {32}
    efficiencies = [row.efficiency for row in rows]
    assert efficiencies == sorted(efficiencies, reverse=True)
