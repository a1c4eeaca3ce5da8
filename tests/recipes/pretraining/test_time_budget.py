"""A run in minutes ends on time, however long its steps, evaluations and interruptions take; the clock is set by hand."""

import random

import numpy as np
import pytest
from helpers.optimizer_reference import value

from keras_bert_rebuild.recipes.pretraining.step_spans import TimeBudget
from keras_bert_rebuild.training.optimizers.rate_schedules import ProgressSchedule


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
