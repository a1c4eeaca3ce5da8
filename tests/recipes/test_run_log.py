"""The rows of a run reach TensorBoard, MLflow and Weights & Biases as numbers at their steps."""

import sys
import types

import pytest

from keras_bert_rebuild.recipes.run_log import RunLog

ROWS = [{"step": 3, "loss": 2.5, "accuracy": None, "phase": "a"}, {"step": 6, "loss": 1.5}]
NUMBERS = [({"loss": 2.5}, 3), ({"loss": 1.5}, 6)]


def log_rows(log_to, folder):
    with RunLog(log_to, folder, {"epochs": 3}) as log:
        for row in ROWS:
            log.write(row)


def test_tensorboard_reads_the_numbers(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log_rows("tensorboard", tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 2.5), (6, 1.5)]


@pytest.mark.parametrize("active", [False, True])
def test_mlflow_gets_the_numbers_in_the_active_run_or_in_one_of_its_own(monkeypatch, tmp_path, active):
    calls, module = [], types.ModuleType("mlflow")
    module.active_run = lambda: "run of the user" if active else None
    module.start_run = lambda run_name: calls.append(("start", run_name))
    module.log_params = lambda settings: calls.append(settings)
    module.log_metrics = lambda values, step: calls.append((values, step))
    module.end_run = lambda: calls.append("end")
    monkeypatch.setitem(sys.modules, "mlflow", module)
    log_rows("mlflow", tmp_path)
    within = [{"epochs": 3}, *NUMBERS]
    assert calls == (within if active else [("start", tmp_path.name), *within, "end"])


def test_weights_and_biases_gets_the_numbers(monkeypatch, tmp_path):
    calls, module = [], types.ModuleType("wandb")
    run = types.SimpleNamespace(log=lambda values, step: calls.append((values, step)), finish=lambda: calls.append("end"))
    module.init = lambda **arguments: calls.append(arguments) or run
    monkeypatch.setitem(sys.modules, "wandb", module)
    log_rows("wandb", tmp_path)
    assert calls == [{"name": tmp_path.name, "dir": str(tmp_path), "config": {"epochs": 3}}, *NUMBERS, "end"]


def test_without_a_log_nothing_is_written(tmp_path):
    log_rows(None, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_package_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^log_to wandb needs the package wandb: pip install wandb\.$"):
        RunLog.check("wandb")
    RunLog.check(None)
