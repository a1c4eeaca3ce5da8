"""A run is divided where something is due, and a run in minutes ends on time, however long steps and interruptions take."""

import os
import random
import shutil
import signal

import keras
import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.optimizer_reference import value
from helpers.small_corpus import small_corpus
from helpers.tiny_training import At
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches
from keras_bert_rebuild.recipes.pretraining import step_spans as module
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.step_spans import SpanOfBatches, TimeBudget, step_spans
from keras_bert_rebuild.recipes.pretraining.training_run import StoppedError, _fed
from keras_bert_rebuild.recipes.step_costs import Work
from keras_bert_rebuild.training.optimizers.rate_schedules import ProgressSchedule
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

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


class Machine:
    """A machine on which steps, evaluations, checkpoints and a first step take known seconds."""

    def __init__(self, step=0.1, evaluation=0.0, compilation=0.0, save=0.0, noise=0.0):
        self.now, self.step, self.evaluation, self.compilation, self.save = 1000.0, step, evaluation, compilation, save
        self.noise, self.draws = noise, random.Random(7)
        self.rates, self.spans = [], []

    def clock(self):
        return self.now

    def budget(self, minutes, accumulation=1, shares=(1.0,), sizes=(1,), log_steps=50, **others):
        schedule = ProgressSchedule(1.0, 0.1, 0.2, "one_minus_sqrt")
        return TimeBudget(minutes, schedule, shares, sizes, accumulation, log_steps, clock=self.clock, **others)

    def train(self, budget, start=0, kill_after=None):
        """Train to the end or to a signal; return the batches done and, if it was stopped, the facts of the checkpoint."""
        compiled = set()
        for span in budget.spans(start):
            self.spans.append(span)
            for batch in range(span.start, span.stop):
                if batch % budget.accumulation == 0:
                    self.rates.append(float(value(budget.schedule(batch // budget.accumulation))))
                self.now += self.step_of(batch, span.phase) / budget.accumulation
                if span.phase not in compiled:
                    compiled.add(span.phase)
                    self.now += self.compilation
                if kill_after is not None and self.now - 1000 >= kill_after:
                    return batch + 1, budget.facts()
            budget.trained()
            self.now += self.evaluation * span.evaluates + self.save * span.saves
            start = span.stop
        return start, None

    def step_of(self, batch, phase):
        return (self.step[phase] if isinstance(self.step, tuple) else self.step) * (1 + self.noise * (self.draws.random() - 0.5))


MACHINES = {
    "even": {},
    "slow": {"step": 1.7},
    "fast": {"step": 0.02},
    "compiles": {"compilation": 9.0},
    "evaluates": {"evaluation": 1.5, "save": 0.4, "step": 0.15},
    "uneven": {"noise": 1.0, "evaluation": 0.3},
}


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", list(MACHINES))
def test_the_rate_is_zero_when_the_time_is_over(name, accumulation):
    machine = Machine(**MACHINES[name])
    budget = machine.budget(2.0, accumulation)
    machine.train(budget)
    assert abs(machine.now - 1000 - 120) <= 0.02 * 120
    steps = len(machine.rates)
    assert steps == budget.expected_steps
    assert float(value(budget.schedule(steps))) == 0.0
    assert machine.rates[-1] < 0.2
    assert max(machine.rates) == 1.0
    assert max(np.abs(np.diff(machine.rates[: steps // 2])), default=0) < 0.25  # corrections make no jumps
    assert machine.spans[-1].evaluates
    assert machine.spans[-1].saves
    evaluations, seconds = sum(span.evaluates for span in machine.spans), machine.evaluation + machine.save
    assert evaluations <= 10
    assert evaluations in (9, 10) or 120 * 0.1 - seconds < evaluations * seconds <= 120 * 0.1 + seconds


@pytest.mark.parametrize("kill_after", [0.5, 13.0, 60.0, 100.0, 119.0])
def test_a_stopped_run_has_the_rest_of_its_time_and_the_rate_where_it_was(kill_after):
    machine = Machine(step=0.3, evaluation=1.0, compilation=3.0)
    batches, facts = machine.train(machine.budget(2.0, 2), kill_after=kill_after)
    rate = machine.rates[-1]
    pause, used = 5000.0, machine.now - 1000
    assert facts["seconds"] == pytest.approx(used)
    machine.now += pause
    resumed = machine.budget(2.0, 2)
    resumed.restore(facts)
    resumed.schedule.correct(*facts["line"])  # as the checkpoint does
    assert resumed.used() == pytest.approx(used)
    first = len(machine.rates)
    machine.train(resumed, batches)
    assert abs(machine.now - 1000 - pause - 120) <= 0.02 * 120
    assert len(machine.rates) == resumed.expected_steps
    assert abs(machine.rates[min(first, resumed.expected_steps - 1)] - rate) < 0.1
    assert machine.spans[-1].saves


def test_on_an_even_machine_a_stop_changes_no_rate():
    whole, stopped = Machine(step=0.25), Machine(step=0.25)
    whole.train(whole.budget(1.0))
    batches, facts = stopped.train(stopped.budget(1.0), kill_after=31)
    resumed = stopped.budget(1.0)
    resumed.restore(facts)
    resumed.schedule.correct(*facts["line"])
    stopped.train(resumed, batches)
    assert stopped.rates == whole.rates
    assert len(resumed.corrections) == len(facts["corrections"]) == 1


def test_phases_get_their_shares_of_the_time_at_their_own_speed():
    machine = Machine(step=(0.05, 0.4))
    budget = machine.budget(2.0, 2, shares=(0.75, 0.25), sizes=(128, 512))
    machine.train(budget)
    assert abs(machine.now - 1000 - 120) <= 0.02 * 120
    (end,) = budget.ends
    assert end % 2 == 0
    assert 0.05 * end / 2 == pytest.approx(90, rel=0.03)
    assert [span.phase for span in machine.spans] == sorted(span.phase for span in machine.spans)
    assert {span.phase for span in machine.spans if span.start >= end} == {1}


def test_evaluations_and_checkpoints_may_be_due_at_steps():
    machine = Machine()
    machine.train(machine.budget(0.5, 2, evaluate_steps=30, save_steps=70))
    last = machine.spans[-1].stop
    assert {span.stop // 2 for span in machine.spans if span.evaluates} == {*range(30, last // 2, 30), last // 2}
    assert {span.stop // 2 for span in machine.spans if span.saves} == {*range(70, last // 2, 70), last // 2}


def test_a_run_that_is_over_has_no_spans():
    machine = Machine()
    budget = machine.budget(0.1)
    batches, _ = machine.train(budget)
    resumed = machine.budget(0.1)
    resumed.restore(budget.facts())
    assert list(resumed.spans(batches)) == []


# `pretrain` in minutes, with a clock that is set by hand: a whole run, and one that is stopped and resumed.


MINUTES = {name: value for name, value in small_runs.FOUR_STEPS.items() if name not in ("steps", "evaluate_steps")}
MINUTES |= {"minutes": 0.25, "schedule": "trapezoidal", "optimizer": "stable_adamw", "keep_checkpoints": 99}


class Clock:
    """Shows a second more after every batch, and is where it was when a process begins."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock that only training moves: a second for a step of two batches."""
    clock, made = Clock(), training_run.StopOnSignal.on_train_batch_end

    def passing(self, batch, logs=None):
        clock.now += 0.5
        made(self, batch, logs)

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(training_run.StopOnSignal, "on_train_batch_end", passing)
    monkeypatch.setattr("keras_bert_rebuild.recipes.pretraining.pretrain.time", clock)
    return clock


@pytest.mark.slow(torch=True)
def test_the_run_takes_its_time_and_after_a_stop_ends_with_the_same_weights(monkeypatch, clock, corpus, tmp_path):
    rows = []
    model = pretrain(corpus, tmp_path / "whole", MINUTES, report=rows.append)
    assert rows[-1]["step"] == rows[-1]["steps"] == 15
    assert clock.now == 15.0
    assert rows[-1]["learning_rate"] < 0.25 * 1e-2
    assert sum("held_out_loss" in row for row in rows) == 10
    facts = CheckpointFolder(tmp_path / "whole" / "checkpoints").newest().facts["budget"]
    assert facts["seconds"] == 15.0
    assert [correction[3] for correction in facts["corrections"]] == [15]
    settings = yaml.safe_load((tmp_path / "whole" / "settings.yaml").read_text())
    assert settings["minutes"] == 0.25
    assert settings["phases"][0]["share"] == 1.0

    def stopping(row):
        if row["step"] >= 8:
            os.kill(os.getpid(), signal.SIGTERM)

    clock.now = 100.0
    with pytest.raises(StoppedError, match="of 15, which is in a checkpoint"):
        pretrain(corpus, tmp_path / "stopped", MINUTES, report=stopping)
    clock.now = 7777.0
    resumed = pretrain(corpus, tmp_path / "stopped", MINUTES)
    for one, other in zip(resumed.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)
    arrays = [CheckpointFolder(tmp_path / name / "checkpoints").newest().sha256 for name in ("whole", "stopped")]
    assert arrays[0] == arrays[1]


@pytest.mark.slow(torch=True)
def test_phases_are_shares_of_the_time_and_a_kill_between_checkpoints_repeats_what_was_lost(clock, corpus, tmp_path):
    settings = {**MINUTES, "batch_warmup": [2], "minutes": 0.5}
    pretrain(corpus, tmp_path / "whole", settings)
    checkpoints = CheckpointFolder(tmp_path / "whole" / "checkpoints")
    facts = checkpoints.newest().facts["budget"]
    assert facts["seconds"] == 30.0
    assert facts["ends"] == [2 * 6]  # after three steps that measure, a tenth of the others; each has two batches
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole", killed)
    shutil.rmtree(killed / "model")
    for step in checkpoints.steps()[4:]:
        shutil.rmtree(killed / "checkpoints" / f"step-{step:08d}")
    pretrain(corpus, killed, settings)
    assert CheckpointFolder(killed / "checkpoints").newest().sha256 == checkpoints.newest().sha256


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": 5}, "minutes choose the number of steps; got minutes=1 and steps=5"),
        ({"warmup_steps": 5}, "warmup_steps must be left out with minutes, whose steps are not known; got 5"),
        ({"decay_from": "run"}, "decay_from must be left out with minutes"),
        ({"minutes": 0}, "minutes must be a number above 0; got 0"),
        ({"schedule": "trapezoidal", "decay_fraction": 0.95}, "must fit into the run; got 10% and 95% of it"),
    ],
)
def test_settings_that_exclude_each_other_are_errors(settings, said):
    with pytest.raises(ValueError, match=said):
        PretrainSettings(**{"minutes": 1, **settings})
