"""Short rows before long ones: phases of packed rows, each evaluated at its own length, resumed exactly between them."""

import csv

import pytest
from helpers import small_runs

PHASES = [{"steps": 2, "batch_size": 8, "seq_len": 8}, {"steps": 2, "batch_size": 4, "seq_len": 16}]
SETTINGS = {
    **{name: value for name, value in small_runs.FOUR_STEPS.items() if name not in ("steps", "batch_size", "seq_len")},
    "packing": True,
    "phases": PHASES,
}

pytestmark = pytest.mark.compiles_long


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)


def test_the_phases_follow_one_another_with_about_as_many_tokens(whole):
    folder, rows, _ = whole
    with (folder / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(int(row["step"]), int(row["phase"])) for row in table] == [(2, 0), (4, 1)]
    assert all(float(row["held_out_mlm_loss"]) > 0 for row in table)
    places = 2 * 8 * 8
    assert [0.8 * places <= int(row["tokens"]) <= places for row in table] == [True, True]
    assert rows[-1]["step"] == 4


@pytest.mark.slow
def test_a_run_stopped_between_two_phases_ends_with_the_same_bits(whole, corpus, tmp_path):
    small_runs.check_resumption(whole, corpus, tmp_path / "run", SETTINGS)
