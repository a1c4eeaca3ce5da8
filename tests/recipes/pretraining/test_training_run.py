"""A run that a signal ends has a checkpoint of the step in its message, whenever the signal came."""

import os
import signal

import pytest

from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError, StoppedError, TrainingRun
from keras_bert_rebuild.training.distributed.distribution import Distribution
from keras_bert_rebuild.training.state.callbacks import StopOnSignal
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import CheckpointWriter, SpoiledStateError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")

SETTINGS = PretrainSettings(steps=6, log_steps=1, evaluate_steps=2, save_steps=3, gradient_accumulation_steps=2)


class Noted(TrainingRun):
    """A run whose training, evaluations and checkpoints are only recorded; each calls `moment(name, batch)`."""

    def __init__(self, folder, moment=lambda name, batch: None):
        self.settings, self.folder, self.where, self.moment = SETTINGS, folder, Distribution("none"), moment
        self.accumulation, self.ends, self.saved, self.probes = 2, [12], [0], None
        self.writer = CheckpointWriter(CheckpointFolder(folder))

    def report(self, row):
        self.moment("report", 2 * row["step"])

    def _restore(self):
        return self.saved[-1]

    def _compile(self, phase):
        pass

    def _train(self, span, signals, ceiling):
        self.moment("begin", span.start)
        step = span.start + 1 if signals.received is not None else span.stop  # the batch that is under way is finished
        self.moment("train", span.stop)
        return {"step": step // 2}, step

    def _evaluate(self, phase, goes_on):
        self.moment("evaluate", self.saved[-1])
        return {"held_out_loss": 1.0}

    def _save(self, step, row):
        self.moment("save", step)
        self.saved.append(step)


@pytest.fixture(autouse=True)
def _no_ceiling(monkeypatch):
    monkeypatch.setattr(training_run, "matrix_ceiling", lambda dtype: 1.0)


def check_stopped(run, stopped):
    step = run.saved[-1]
    assert str(stopped.value) == f"Stopped after step {step // 2} of 6, which is in a checkpoint."
    assert stopped.value.signal == signal.SIGTERM


MOMENTS = [(name, batch) for name in ("train", "write", "report") for batch in (2, 6, 8, 12)] + [("save", 6), ("save", 12)]


@pytest.mark.parametrize(("name", "batch"), MOMENTS)
def test_a_signal_at_any_moment_ends_the_run_at_a_checkpoint(monkeypatch, tmp_path, name, batch):
    def moment(*reached):
        if reached == (name, batch):
            os.kill(os.getpid(), signal.SIGTERM)

    run = Noted(tmp_path, moment)
    monkeypatch.setattr(training_run.MetricsTable, "write", lambda table, row: moment("write", 2 * row["step"]))
    with pytest.raises(StoppedError) as stopped:
        run.finish()
    check_stopped(run, stopped)
    assert run.saved[-1] in (batch, batch + 1)  # one more if the batches before were being saved


@pytest.mark.parametrize("batch", [0, 2, 6, 10])
def test_a_signal_within_an_accumulated_step_leaves_one_row_for_every_step(tmp_path, batch):
    reported = []

    def moment(name, reached):
        reported.extend([reached // 2] * (name == "report"))
        if (name, reached) == ("begin", batch) and not run.saved[1:].count(batch + 1):
            os.kill(os.getpid(), signal.SIGTERM)

    run = Noted(tmp_path, moment)
    with pytest.raises(StoppedError):
        run.finish()
    assert run.saved[-1] == batch + 1
    run.finish()
    assert run.saved[-1] == 12
    steps = [int(line.partition(",")[0]) for line in (tmp_path / "metrics.csv").read_text().splitlines()[1:]]
    assert steps == list(range(1, 7))
    assert [step for step in reported if step] == sorted([*range(1, 7), *([batch // 2] if batch else [])])  # where it resumes, too


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_signal_during_an_evaluation_ends_the_run_at_a_checkpoint(tmp_path, times):
    seen = []

    def moment(name, batch):
        seen.extend([name] * (name == "evaluate"))
        if name == "evaluate" and len(seen) == times:
            os.kill(os.getpid(), signal.SIGTERM)

    run = Noted(tmp_path, moment)
    with pytest.raises(StoppedError) as stopped:
        run.finish()
    check_stopped(run, stopped)
    assert run.saved[-1] == 4 * times


class FailingWriter(CheckpointWriter):
    """A writer whose first checkpoint turns out to be spoiled after the next row."""

    rows = 0

    def check(self):
        self.rows += 1
        if self.rows == 4:
            spoiled = SpoiledStateError("weights/kernel contains NaN or infinity")
            spoiled.step = 6
            raise spoiled


def test_an_error_of_a_checkpoint_in_the_background_ends_the_run_at_its_next_row(tmp_path):
    run = Noted(tmp_path)
    run.writer = FailingWriter(CheckpointFolder(tmp_path), background=True)
    with pytest.raises(NonFiniteLossError) as error:
        run.finish()
    assert str(error.value) == "After step 3 weights/kernel contains NaN or infinity; no checkpoint of it was written."
    assert run.saved == [0, 6]


class After(StopOnSignal):
    """Gets a signal right after the check with a given number."""

    number, asked, value = 0, 0, None

    @property
    def received(self):
        value = self.value
        After.asked += 1
        if After.asked == After.number:
            os.kill(os.getpid(), signal.SIGTERM)
        return value

    @received.setter
    def received(self, value):
        self.value = value


def test_a_signal_between_any_two_checks_ends_the_run_at_a_checkpoint(monkeypatch, tmp_path):
    monkeypatch.setattr(training_run, "StopOnSignal", After)
    stops = 0
    for number in range(1, 100):
        run, After.number, After.asked = Noted(tmp_path / str(number)), number, 0
        run.folder.mkdir()
        said = None
        try:
            run.finish()
        except StoppedError as error:
            said = str(error)
        assert said in (None, f"Stopped after step {run.saved[-1] // 2} of 6, which is in a checkpoint.")
        assert said is not None or run.saved[-1] == 12
        stops += said is not None
        if After.asked < number:
            break
    assert 12 < stops < 99
