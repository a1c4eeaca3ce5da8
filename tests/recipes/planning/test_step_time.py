"""The time of a step derived from measured steps, and its memory measured in separate processes."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning import measured_memory, measured_steps
from keras_bert_rebuild.recipes.planning.measured_memory import MeasuredMemory, measure_memory, sizes_to_measure
from keras_bert_rebuild.recipes.planning.measured_steps import MEASURED, PUBLISHED
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

WITHOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def on_tensorflow(monkeypatch):
    """Plans of steps that leave out padding, as the measured ones did."""
    monkeypatch.setattr("keras_bert_rebuild.kernels.traits.compiles_each_shape", lambda: False)


@pytest.fixture
def planned(monkeypatch, on_tensorflow):
    """A function that plans the step of a row."""

    def run(row):
        monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: row.rate)
        config = row.model if row.dropout else dataclasses.replace(BertConfig(), **WITHOUT)
        device = {"cpu": True} if row.device == "cpu" else {"gpu": row.device}
        sizes = {"batch_size": row.batch_size, "seq_len": row.seq_len, "dtype": row.dtype}
        return plan(config, **device, **sizes, packing=row.packing, real_tokens=row.real_tokens)

    return run


def is_same_step(one, other):
    names = ("device", "model", "batch_size", "seq_len", "dtype", "dropout")
    return all(getattr(one, name) == getattr(other, name) for name in names)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row.device} {row.words}")
def test_a_measured_step_is_predicted_from_the_others_within_15_percent(row, planned, monkeypatch):
    others = tuple(other for other in MEASURED if not is_same_step(other, row))
    assert len(others) < len(MEASURED)
    monkeypatch.setattr(measured_steps, "MEASURED", others)
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.15)
    real = row.batch_size * row.seq_len * row.real_tokens / row.seconds
    assert made.tokens_per_second == pytest.approx(real, rel=0.15)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row.device} {row.words}")
def test_a_measured_step_is_its_own_prediction(row, planned):
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.01)
    assert f"{row.words}, {row.source}" in made.derived_from


# "Without padding" in benchmarks/RESULTS.md: other fillings of 8 x 128, which plans are not derived from.
FILLED = {
    ("float32", 1.0): 3.162,
    ("mixed_bfloat16", 1.0): 1.796,
    ("float32", 0.797): 2.740,
    ("mixed_bfloat16", 0.797): 1.561,
}


@pytest.mark.parametrize(("dtype", "real_tokens"), FILLED)
def test_steps_with_other_fractions_of_padding_are_predicted_within_15_percent(dtype, real_tokens, planned):
    (row,) = (row for row in MEASURED if (row.device, row.dtype, row.seq_len) == ("cpu", dtype, 128))
    made = planned(dataclasses.replace(row, real_tokens=real_tokens))
    assert made.step_seconds == pytest.approx(FILLED[dtype, real_tokens], rel=0.15)


@pytest.mark.parametrize(
    ("settings", "shorter"),
    [
        ({"model": "base"}, True),
        ({"model": "base", "remat": True}, False),
        ({"model": "mini"}, False),
        ({"model": "electra-base", "objective": "electra"}, False),
        ({"model": "xlnet-base"}, False),
    ],
    ids=["wide", "rematerialised", "narrow", "ELECTRA", "relative positions"],
)
def test_padding_takes_no_time_on_a_processor_where_steps_leave_it_out(settings, shorter, monkeypatch, on_tensorflow):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: 2e11)
    half, whole = (plan(**settings, cpu=True, real_tokens=fraction).step_seconds for fraction in (0.5, 1))
    assert (half < 0.7 * whole) == shorter
    assert shorter or half == whole
    assert plan(**settings, cpu=True, batch_size=1, seq_len=8, real_tokens=0.01).step_seconds > 0


def test_padding_takes_time_on_a_backend_that_compiles_each_shape(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: 2e11)
    monkeypatch.setattr("keras_bert_rebuild.kernels.traits.compiles_each_shape", lambda: True)
    half, whole = (plan(cpu=True, real_tokens=fraction) for fraction in (0.5, 1))
    assert half.step_seconds == whole.step_seconds
    assert half.tokens_per_second == whole.tokens_per_second / 2


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.device} {row.words}")
def test_a_published_step_is_predicted_within_a_quarter_and_stands_beside_the_plan(row, planned):
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.25)
    (note,) = made.notes
    assert f"{row.batch_size * row.seq_len / row.seconds:,.0f} tokens per second" in note
    assert note.endswith(f"the same computation as here: {made.tokens_per_second:,.0f}.")


def test_a_device_without_measured_steps_takes_those_of_the_h100_by_its_rates():
    made = plan("base", gpu="l4", batch_size=64, dtype="mixed_bfloat16")
    assert "H100" in made.derived_from
    assert "by the published rates of the NVIDIA L4" in made.derived_from
    slower = GPU_CARDS["h100"].bfloat16 / GPU_CARDS["l4"].bfloat16, GPU_CARDS["h100"].bandwidth / GPU_CARDS["l4"].bandwidth
    times = made.compute_seconds / plan("base", gpu="h100", batch_size=64, dtype="mixed_bfloat16").compute_seconds
    assert min(slower) < times < max(slower)


@pytest.mark.parametrize("device", [{"tpu": "v5e:2x2"}, {"gpu": "v100"}])
def test_where_nothing_is_known_utilisation_is_assumed(device):
    made = plan("base", **device)
    assert made.utilisation == pytest.approx(0.4)
    assert made.derived_from.startswith("40% is assumed")


def test_a_given_utilisation_overrides_what_was_measured():
    made = plan("base", gpu="h100", utilisation=0.5)
    assert made.compute_seconds == pytest.approx(made.flops / (494.5e12 * 0.5))
    assert made.derived_from == "the MFU that was given"


def test_wider_models_are_more_efficient_and_longer_texts_and_dropout_take_longer():
    def planned(model="base", seq_len=128, **options):
        config = {} if model == "base" else {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
        config = BertConfig(**config, **options)
        return plan(config, gpu="h100", batch_size=32768 // seq_len, seq_len=seq_len, dtype="mixed_bfloat16")

    assert planned("large").utilisation > planned().utilisation
    without, hidden_only, everywhere = planned(**WITHOUT), planned(attention_probs_dropout_prob=0.0), planned()
    assert without.utilisation > hidden_only.utilisation > everywhere.utilisation
    seconds = [planned(seq_len=length).compute_seconds for length in (128, 256, 512)]
    assert seconds == sorted(set(seconds))


# Steps are measured in separate processes, and their memory is extrapolated to the batch of a plan.


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the highest resident set")
SETTINGS = PretrainSettings(batch_size=256, seq_len=128)


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Processes whose first peak is 1,000 bytes and 10 an example, and whose later ones are 100 and 30 an example."""
    rows = []

    def run(command, input, **_):
        assert command[1:] == ["-m", "keras_bert_rebuild.recipes.planning.measured_memory"]
        rows.append(json.loads(input)["rows"])
        return subprocess.CompletedProcess(command, 0, f"a note of a library\n[{1000 + 10 * rows[-1]}, {100 + 30 * rows[-1]}]", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(measured_memory, "CLEAR_REFS", tmp_path)
    return rows


def test_a_small_batch_is_measured_as_a_whole_and_a_large_one_is_extended():
    assert sizes_to_measure(32, 128) == (32,)
    assert sizes_to_measure(33, 128) == (16, 32)
    assert sizes_to_measure(1, 8192) == (1,)
    assert sizes_to_measure(64, 8192) == (1, 2)


@pytest.fixture
def no_time(monkeypatch):
    """A limit that no larger batch keeps."""
    monkeypatch.setattr(measured_memory, "MAX_SECONDS", -1.0)


def test_each_peak_has_its_own_line(child, no_time):
    found = measure_memory(BertConfig(), SETTINGS, 256)
    assert child == [16, 32]
    assert found == MeasuredMemory((16, 32), (1160, 1320), 100 + 30 * 256)
    assert measure_memory(BertConfig(), SETTINGS, 40).total == 1000 + 10 * 40


def test_the_whole_batch_is_measured_if_there_is_time_and_memory_for_it(child, monkeypatch):
    monkeypatch.setattr(measured_memory, "available_bytes", lambda: 20_000)
    found = measure_memory(BertConfig(), SETTINGS, 256)
    assert child == [16, 32, 256]
    assert found == MeasuredMemory((16, 32, 256), (1160, 1320, 7780), 7780)
    child.clear()
    monkeypatch.setattr(measured_memory, "available_bytes", lambda: 10_000)  # the line says 7,780, more than seven tenths
    assert measure_memory(BertConfig(), SETTINGS, 256).rows == tuple(child) == (16, 32)
    child.clear()
    measure_memory(BertConfig(), SETTINGS, 32)
    assert child == [32]


def test_the_time_of_the_whole_batch_is_on_a_line_too(child, monkeypatch):
    monkeypatch.setattr(measured_memory, "available_bytes", lambda: 20_000)
    clock = iter([0.0, 10.0, 10.0, 25.0] * 2)  # 10 s for 16 examples, 15 s for 32
    monkeypatch.setattr(measured_memory, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert measure_memory(BertConfig(), SETTINGS, 368).rows == (16, 32, 368)  # 120 s
    assert measure_memory(BertConfig(), SETTINGS, 369).rows == (16, 32)


def test_the_largest_batch_is_the_last_that_fits_on_the_line():
    measured = MeasuredMemory((16, 32), (580, 1060), 0)
    assert measured.largest(100 + 30 * 77) == 77
    assert measured.largest(100 + 30 * 77 - 1) == 76
    assert measured.largest(100) == 0


def test_a_plan_of_this_processor_is_judged_by_what_was_measured(child, no_time):
    planned = plan("tiny", cpu=True, measure=True, batch_size=256)
    assert planned.measured.total == 100 + 30 * 256
    assert planned.fits
    assert planned.largest_batch == planned.measured.largest(planned.available)
    assert planned.to_dict()["measured"]["rows"] == (16, 32)
    assert plan("tiny", cpu=True, batch_size=256).measured is None


def test_devices_that_are_not_here_are_not_measured():
    with pytest.raises(ValueError, match="measure must be for the CPU of this machine, cpu=True; got NVIDIA H100 SXM"):
        plan("tiny", gpu="h100", measure=True)


def test_a_step_that_fails_is_one_sentence(child, monkeypatch):
    for code, errors, reason in (
        (1, "Traceback\nValueError: too long\n", "ValueError: too long"),
        (-9, "", "the system killed it, probably"),
    ):
        monkeypatch.setattr(
            subprocess, "run", lambda command, code=code, errors=errors, **_: subprocess.CompletedProcess(command, code, "", errors)
        )
        with pytest.raises(ValueError, match=f"a step of 16 examples could not be measured: {reason}"):
            measure_memory(BertConfig(), SETTINGS, 256)


def test_other_systems_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(measured_memory, "CLEAR_REFS", tmp_path / "missing")
    with pytest.raises(ValueError, match="measuring memory needs Linux"):
        measure_memory(BertConfig(), SETTINGS, 256)


@ON_LINUX
@pytest.mark.slow(torch=True)
def test_a_step_of_more_examples_takes_more_memory():
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=1024)
    # In processes of their own: one that has run other tests holds free memory, which a step takes without growing.
    few, many = (measure_memory(config, PretrainSettings(seq_len=64), rows).total for rows in (2, 64))
    # The gradients and the values before the activation alone: float32, 2 blocks, 1,024 wide.
    assert many - few > 4 * 2 * 1024 * 64 * 50
