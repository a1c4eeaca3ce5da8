"""Plans of a training on devices that are not at hand, from the figures of devices and slices."""

import json

import numpy as np
import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS, SLICES, TPU_CHIPS, gpus, this_processor, tpu_slice
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import step_memory

BF16 = {"dtype": "mixed_bfloat16"}


def test_a_plan_for_a_slice_equals_a_computation_by_hand():
    made = plan("base", tpu="v5e:4x4", batch_size=1024, seq_len=128, max_predictions=20, tokens=3.3e9, utilisation=0.5, **BF16)
    width, inner, words, length = 768, 3072, 30522, 128
    block = length * 2 * (4 * width * width + 2 * width * inner) + 4 * width * length * length
    head = 2 * 20 * (width * width + width * words) + 2 * (width * width + 2 * width)
    assert made.flops == 3 * 1024 * (12 * block + head)
    assert made.compute_seconds == pytest.approx(made.flops / (16 * 197e12 * 0.5))
    assert made.num_parameters == BertConfig().num_params(["mlm", "nsp"])
    gradients = 2 * made.num_parameters + 4 * words * width
    assert made.all_reduce_seconds == pytest.approx(2 * 15 / 16 * gradients / 100e9)
    assert made.update_seconds == pytest.approx((2 * 12 * made.num_parameters + gradients) / 819e9)
    assert made.step_seconds == made.compute_seconds + made.all_reduce_seconds + made.update_seconds
    assert made.tokens_per_second == pytest.approx(1024 * 128 / made.step_seconds)
    assert made.steps == 25178  # 3.3e9 / 131,072, the last one not full
    assert made.hours == pytest.approx(25178 * made.step_seconds / 3600)
    assert made.device_hours == pytest.approx(16 * made.hours)


def test_memory_is_that_of_one_device():
    made = plan("base", gpus=8, gpu="h100", batch_size=512, seq_len=128, **BF16)
    settings = PretrainSettings(batch_size=512, seq_len=128, **BF16)
    assert made.batch_per_device == 64
    assert made.memory == step_memory(BertConfig(), settings, "gpu", 64)
    assert (made.available, made.fits) == (80e9, True)


def test_the_largest_batch_fits_and_the_next_that_can_be_split_does_not():
    def of(batch):
        return plan("large", tpu="v5e:2x2", batch_size=batch, seq_len=512, gradient_accumulation_steps=2, **BF16)

    largest = of(8).largest_batch
    assert largest % 8 == 0
    assert of(largest).fits
    assert not of(largest + 8).fits
    assert of(largest + 8).largest_batch == largest


def test_micro_batches_need_less_memory_and_a_sum_of_gradients_each():
    whole, parts = (plan("base", gpus=2, gpu="l4", batch_size=256, gradient_accumulation_steps=n, **BF16) for n in (1, 4))
    assert (whole.batch_per_device, parts.batch_per_device) == (128, 32)
    assert parts.memory.activations * 4 == whole.memory.activations
    assert parts.all_reduce_seconds == pytest.approx(4 * whole.all_reduce_seconds)


def test_a_config_may_be_an_object_fields_or_a_file(tmp_path):
    config = BertConfig(vocab_size=1000, num_hidden_layers=2, hidden_size=64, num_attention_heads=2, intermediate_size=128)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_act": "gelu", **config.to_dict()}))
    plans = [plan(model, gpu="t4") for model in (config, config.to_dict(), tmp_path / "config.json")]
    assert plans[0] == plans[1] == plans[2]
    assert plans[0].num_parameters == config.num_params(["mlm", "nsp"])
    assert plan(config, gpu="t4", vocab_size=2000).num_parameters - plans[0].num_parameters == 1000 * 65


def test_the_processor_is_planned_with_its_measured_rate(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: 2e11)
    monkeypatch.setattr("keras_bert_rebuild.recipes.planning.plan_devices.available_bytes", lambda: 16e9)
    made = plan("tiny", cpu=True, batch_size=32, utilisation=1)
    assert made.step_seconds == made.compute_seconds == made.flops / 2e11
    assert (made.device_count, made.all_reduce_bytes, made.source) == (1, 0, "measured")
    assert "a lower bound" in made.notes[0]


def test_tokens_per_second_are_real_tokens():
    filled, half, packed = (
        plan("base", gpu="h100", next_sentence="none", **given)
        for given in ({}, {"real_tokens": 0.5}, {"real_tokens": 0.5, "packing": True})
    )
    assert half.step_seconds == filled.step_seconds == packed.step_seconds
    assert half.tokens_per_second * 2 == filled.tokens_per_second == packed.tokens_per_second
    assert (half.real_tokens, packed.real_tokens, packed.packing) == (0.5, 1, True)
    assert half.steps == pytest.approx(2 * filled.steps, abs=1)


def test_a_plan_has_notes():
    assert "no units for bfloat16" in plan("base", gpu="v100", **BF16).notes[0]
    assert plan("base", gpu="v100").notes == ()
    assert "Hosts of eight" in plan("base", gpus=16, gpu="a100-80").notes[0]


def test_a_plan_is_plain_values():
    made = plan("base", tpu="v6e:2x2")
    values = json.loads(json.dumps(made.to_dict()))
    assert values["memory"]["total"] == made.memory.total
    assert values["compiled"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, r"one of tpu \(such as v5e:4x4\), gpu \(such as h100\) and cpu to plan for; got none"),
        ({"tpu": "v5e:2x2", "cpu": True}, "got tpu and cpu"),
        ({"gpus": 2}, "gpu must be one of .*got None"),
        ({"tpu": "v5e:2x2", "seq_len": 1024}, "seq_len must be at most 512, the rows of the position table; got 1024"),
        ({"tpu": "v5e:2x2", "batch_size": 30}, "batch_size must be a multiple of the 4 devices; got 30"),
        (
            {"tpu": "v5e:2x2", "batch_size": 36, "gradient_accumulation_steps": 2},
            "a multiple of the 4 devices times gradient_accumulation_steps=2; got 36",
        ),
        ({"gpu": "l4", "batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"gpu": "l4", "dtype": "float64"}, "dtype must be one of 'float32', 'mixed_bfloat16'; got 'float64'"),
        ({"gpu": "l4", "utilisation": 0}, "utilisation must be a number above 0 and at most 1; got 0"),
        ({"gpu": "l4", "utilisation": 40}, "utilisation must be a number above 0 and at most 1; got 40"),
        ({"gpu": "l4", "real_tokens": 1.5}, "real_tokens must be a number above 0 and at most 1; got 1.5"),
        ({"gpu": "l4", "packing": "yes"}, "packing must be one of True, False; got 'yes'"),
        ({"gpu": "l4", "tokens": -5}, "tokens must be a number of at least 1; got -5"),
        ({"gpu": "l4", "tokens": float("nan")}, "tokens must be a number of at least 1; got nan"),
        ({"gpu": "l4", "steps": 5}, "a plan accepts the settings batch_size, .*distribute; got steps"),
        ({"gpu": "l4", "compile": True}, "compile must be for a slice of v5e, v5p, v6e, .*got NVIDIA L4"),
        ({"tpu": "v4:2x2x1", "compile": True}, "compile must be for a slice of v5e, v5p, v6e, .*got TPU v4"),
        ({"gpu": "l4", "model": "huge"}, "one of the sizes tiny, mini, small, medium, base, large"),
        ({"gpu": "l4", "model": {"hidden": 5}}, "the model must have fields of a BertConfig; got hidden"),
    ],
)
def test_impossible_settings_are_one_sentence(arguments, said):
    with pytest.raises(ValueError, match=said):
        plan(**arguments)


# Figures of devices and slices, and the time of an all-reduce over them.


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
