"""Steps are measured in separate processes, and their memory is extrapolated to the batch of a plan."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning import measured_memory
from keras_bert_rebuild.recipes.planning.measured_memory import MeasuredMemory, measure_memory, sizes_to_measure
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

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
