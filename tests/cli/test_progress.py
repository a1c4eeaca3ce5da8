"""What is shown while a verb works: counts, the first line, and a bar that fits a terminal and a log file."""

import io
import re
import sys

import pytest
from rich.console import Console

from keras_bert_rebuild.cli import progress
from keras_bert_rebuild.cli.progress import Bar, FitBar, TrainingBar, begin, counted


@pytest.fixture
def shows_rates(monkeypatch):
    """Rates are shown at once."""
    monkeypatch.setattr(progress, "SHORTEST", 0)


def shown_by(console):
    """What a terminal was sent, without codes of control."""
    return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


ROW = {
    "step": 1200,
    "mlm_loss": 5.1234,
    "mlm_perplexity": 167.9,
    "mlm_accuracy": 0.213,
    "pair_accuracy": 0.744,
    "tokens_per_second": 4321.0,
    "flop_utilisation": 0.47,
}


def test_two_lines_of_a_narrow_terminal_hold_the_bar_and_the_numbers(shows_rates):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=20)
    with TrainingBar(console, "pretraining", 3000) as bar:
        bar({"step": 900})
        bar(ROW)
        bar({"step": 1300, "held_out_mlm_loss": 5.25})
    shown = shown_by(console)
    *_, bar_line, numbers = filter(str.strip, shown.splitlines())
    assert "1300/3000 steps" in bar_line
    assert len(bar_line) <= 80
    expected = "MLM 5.123  ppl 167.9  acc 21.3%  pair 74%  held out 5.250  4,321 tok/s  MFU 47%"
    assert numbers.startswith(expected)


def test_a_log_file_gets_a_line_at_intervals(shows_rates, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_SECONDS", -1)
    console = Console(file=io.StringIO(), width=40)
    with TrainingBar(console, "pretraining", 3000) as bar:
        bar({"step": 0})
        bar(ROW)
    expected = "step 1,200 of 3,000  MLM 5.123  ppl 167.9  acc 21.3%  pair 74%  4,321 tok/s  MFU 47%"
    assert expected in console.file.getvalue().splitlines()


def test_the_bar_of_a_fine_tuning_shows_scores_and_the_remaining_time(shows_rates):
    console = Console(file=io.StringIO(), force_terminal=True, width=90, height=20)
    with TrainingBar(console, "fine-tuning") as bar:
        bar({"step": 0, "steps": 250})
        bar({"step": 100, "epoch": 1.0, "loss": 0.25, "examples_per_second": 31.0})
        bar({"step": 100, "evaluated": 0.5})
        bar({"step": 110, "epoch": 1.1, "loss": 0.2, "dev_accuracy": 0.9})
    shown = shown_by(console)
    *_, bar_line, numbers = filter(str.strip, shown.splitlines())
    assert "110/250 steps" in bar_line
    assert numbers.startswith("epoch 1.1  loss 0.2000  accuracy 0.9000  31 ex/s")


def test_until_the_first_step_has_ended_the_bar_says_that_it_compiles():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar = FitBar(console, "training", 2)
    bar.on_train_begin()
    bar.bar.refresh()
    assert "compiling" in console.file.getvalue()
    assert "0/2" not in console.file.getvalue()
    bar.on_train_batch_end(0, {"loss": 2.5})
    bar.on_train_batch_end(1, {"loss": 1.5})
    bar.bar.refresh()
    bar.on_train_end()
    assert "2/2" in console.file.getvalue()
    assert "1.50" in console.file.getvalue()


def test_a_log_file_gets_lines_of_the_training(monkeypatch):
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0)
    console = Console(file=io.StringIO(), width=100)
    bar = FitBar(console, "training", 3000)
    bar.on_train_begin()
    bar.on_train_batch_end(0, {"MLM_loss": 9.0, "NSP_loss": 0.7})
    bar.on_train_end()
    assert "training: 1 of 3,000 steps  MLM 9.00  NSP 0.70" in console.file.getvalue()


def test_every_stage_has_a_row_with_its_rate_and_the_time_left():
    clock = iter(range(0, 1000, 2))
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar = Bar(console, "texts")
    bar.get_time = lambda: float(next(clock))
    with bar:
        assert console.file.getvalue() == ""  # there may be only an error
        for _ in range(3):
            bar("reading", 10)
        for _ in range(3):
            bar("indexing", 10, 60)
        bar.refresh()
    first, second = [line for line in shown_by(console).splitlines() if line.strip()][-2:]
    assert "30/30 texts" in first
    assert re.search(r"indexing .* 30/60 texts [\d.]+ texts/s \d+:\d\d:\d\d", second)


def test_what_advances_faster_than_anyone_sees_is_shown_together_and_whole():
    console, updates = Console(file=io.StringIO(), width=100), []
    bar = Bar(console, "texts")
    bar.get_time = lambda: 7.0
    update = bar.update
    bar.update = lambda *args, **options: (updates.append(options.get("completed")), update(*args, **options))
    with bar:
        for _ in range(500):
            bar("reading", 1)
        for _ in range(300):
            bar("embedding", 2, 600)
    assert len(updates) < 8
    assert "500/500 texts" in console.file.getvalue()
    assert "600/600 texts" in console.file.getvalue()


def test_there_is_no_rate_before_a_second_of_work_and_none_of_the_time_before_it():
    now = [0.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar = Bar(console, "texts")
    bar.get_time = lambda: now[0]
    with bar:
        bar("predicting", total=300, done=0)
        now[0] = 20.0  # a model was compiled
        bar("predicting", total=300, done=1)
        now[0] = 20.9
        bar("predicting", total=300, done=5)
        bar.refresh()
        assert "texts/s" not in shown_by(console)
        now[0] = 22.0
        bar("predicting", total=300, done=301)
        bar.refresh()
    assert "301/300 texts 150 texts/s" in shown_by(console)


def test_a_training_of_less_than_a_second_has_no_rates():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with TrainingBar(console, "pretraining", 3000) as bar:
        bar({"step": 0})
        bar(ROW)
    assert "MLM 5.123" in shown_by(console)
    assert not re.search("tok/s|MFU|steps/s", shown_by(console))


@pytest.mark.parametrize(
    ("amount", "seconds", "unit", "words"),
    [
        (5, 0.99, "texts", ""),
        (0, 5, "texts", ""),
        (5, 2, "texts", "2.5 texts/s"),
        (99.96, 1, "steps", "100 steps/s"),
        (68431.6, 2, "texts", "34,216 texts/s"),
        (3_000_000, 2, "bytes", "1.5 MB/s"),
    ],
)
def test_a_rate_has_decimals_below_a_hundred_only(amount, seconds, unit, words):
    assert progress.rate(amount, seconds, unit) == words


def test_bytes_are_megabytes():
    console = Console(file=io.StringIO(), width=100)
    with Bar(console, "bytes") as bar:
        bar("tokenising", 2_000_000, 4_000_000)
    assert "2.0/4.0 MB" in console.file.getvalue()


@pytest.mark.parametrize(
    ("number", "thing", "words"),
    [(1, "file", "1 file"), (0, "shard", "0 shards"), (1200, "array", "1,200 arrays"), (2, "query", "2 queries")],
)
def test_a_count_has_the_form_of_its_number(number, thing, words):
    assert counted(number, thing) == words


def test_what_is_begun_is_said_on_a_terminal_alone(capsys, monkeypatch):
    begin("loading", "model")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    begin("loading", "model")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("loading  model (")
