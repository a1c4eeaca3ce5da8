"""Figures of devices and slices, and the time of an all-reduce over them."""

import numpy as np
import pytest

from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS, SLICES, TPU_CHIPS, gpus, this_processor, tpu_slice

# GB/s of all links of a chip in both directions, and the number of links, from their pages.
PUBLISHED_LINKS = {"v4": (600, 6), "v5e": (400, 4), "v5p": (1200, 6), "v6e": (800, 4)}


def sent_in_a_ring(arrays):
    """Sum arrays over a ring of devices, each sending a part to the next in every round; returns the bytes sent by the first."""
    count = len(arrays)
    parts = [list(np.array_split(array, count)) for array in arrays]
    sent = 0
    for round_ in range(2 * (count - 1)):
        adding = round_ < count - 1
        messages = [((device - round_) % count, device) for device in range(count)]
        values = [parts[device][part].copy() for part, device in messages]
        sent += values[0].nbytes
        for (part, device), value in zip(messages, values, strict=True):
            neighbour = parts[(device + 1) % count]
            neighbour[part] = neighbour[part] + value if adding else value
    for device in range(count):
        np.testing.assert_allclose(np.concatenate(parts[device]), sum(arrays))
    return sent


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_time_of_a_sum_follows_from_what_a_ring_sends(count, rng):
    arrays = [rng.normal(size=840) for _ in range(count)]
    topology = gpus(count, "h100")
    assert topology.all_reduce_seconds(840 * 8) == pytest.approx(sent_in_a_ring(arrays) / 450e9)


@pytest.mark.parametrize(
    ("slice_", "links"),
    [("v5e:1x1", 0), ("v5e:2x2", 2), ("v5e:4x4", 2), ("v5e:8x16", 3), ("v5e:16x16", 4), ("v5p:2x2x1", 2), ("v5p:4x4x4", 6)],
)
def test_a_chip_sends_over_two_links_along_a_closed_axis_and_one_along_an_open_one(slice_, links):
    topology = tpu_slice(slice_)
    assert topology.send_rate == links * topology.device.link


@pytest.mark.parametrize("name", TPU_CHIPS)
def test_the_links_of_a_chip_are_those_of_its_page(name):
    both_directions, links = PUBLISHED_LINKS[name]
    assert TPU_CHIPS[name].link * links * 2 == both_directions * 1e9
    assert tpu_slice(f"{name}:" + "x".join(map(str, SLICES[name][-1]))).send_rate == TPU_CHIPS[name].link * links


def test_one_device_sums_nothing():
    assert tpu_slice("v5e:1x1").all_reduce_seconds(1e9) == gpus(1, "l4").all_reduce_seconds(1e9) == 0


def test_several_hosts_send_an_eighth_of_the_array_by_each_gpu():
    within, between = 2 * 7 / 8 * 8e9 / 450e9, 2 * 3 / 4 * 1e9 / 50e9
    assert gpus(32, "h200").all_reduce_seconds(8e9) == pytest.approx(within + between)


@pytest.mark.parametrize("device", [*TPU_CHIPS.values(), *GPU_CARDS.values()], ids=lambda device: device.name)
def test_figures_have_their_units_and_their_page(device):
    assert device.source.startswith("https://")
    assert 8e12 <= device.float32 <= 1e15
    assert device.bfloat16 is None or device.float32 <= device.bfloat16 <= 1e15
    assert 15e9 < device.memory < 150e9
    assert 3e11 <= device.bandwidth <= 5e12
    assert 1e10 < device.link < device.bandwidth


def test_without_bfloat16_units_products_run_at_the_rate_of_float32():
    assert GPU_CARDS["v100"].flops("mixed_bfloat16") == GPU_CARDS["v100"].flops("float32") == 15.7e12
    assert GPU_CARDS["a100-80"].flops("mixed_bfloat16") == 2 * GPU_CARDS["a100-80"].flops("float32")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: tpu_slice("v9:2x2"), "tpu must be one of v4, v5e, v5p, v6e .*got 'v9:2x2'"),
        (lambda: tpu_slice("v5e"), r"the slice of a v5e must be one of 1x1, 2x2, .*16x16; got ''"),
        (lambda: tpu_slice("v5e:3x3"), r"the slice of a v5e must be one of 1x1, 2x2, .*16x16; got '3x3'"),
        (lambda: gpus(8, "h900"), "gpu must be one of a100-40, .*rtx4090; got 'h900'"),
        (lambda: gpus(0, "h100"), "from 1 to 8, or a multiple of 8 .*got 0"),
        (lambda: gpus(2.5, "h100"), "from 1 to 8, or a multiple of 8 .*got 2.5"),
        (lambda: gpus(12, "h100"), "from 1 to 8, or a multiple of 8 .*got 12"),
        (lambda: gpus(16, "l4"), "at most 8 of l4"),
    ],
)
def test_an_unknown_device_is_reported_with_the_known_ones(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()


def test_the_processor_is_measured(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: {"float32": 2e11}[dtype])
    monkeypatch.setattr("keras_bert_rebuild.recipes.planning.plan_devices.available_bytes", lambda: 8_000_000_000)
    topology = this_processor("float32")
    assert (topology.count, topology.device.flops("float32"), topology.device.memory) == (1, 2e11, 8e9)
    monkeypatch.setattr("keras_bert_rebuild.recipes.planning.plan_devices.available_bytes", lambda: None)
    with pytest.raises(ValueError, match="reports its free memory"):
        this_processor("float32")
