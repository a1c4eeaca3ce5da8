"""The progress of a training fits a terminal and a log file."""

import io
import re

from rich.console import Console

from keras_bert_rebuild.cli import progress
from keras_bert_rebuild.cli.progress import TrainingBar

ROW = {
    "step": 1200,
    "mlm_loss": 5.1234,
    "mlm_perplexity": 167.9,
    "mlm_accuracy": 0.213,
    "pair_accuracy": 0.744,
    "tokens_per_second": 4321.0,
    "flop_utilisation": 0.47,
}


def test_two_lines_of_a_narrow_terminal_hold_the_bar_and_the_numbers():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=20)
    with TrainingBar(console, 3000) as bar:
        bar({"step": 900})
        bar(ROW)
        bar({"step": 1300, "held_out_mlm_loss": 5.25})
    shown = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    *_, bar_line, numbers = filter(str.strip, shown.splitlines())
    assert "1300/3000 steps" in bar_line
    assert len(bar_line) <= 80
    expected = "MLM 5.123  ppl 167.9  acc 21.3%  pair 74%  held out 5.250  4,321 tok/s  MFU 47%"
    assert numbers.startswith(expected)


def test_a_log_file_gets_a_line_at_intervals(monkeypatch):
    monkeypatch.setattr(progress, "EVERY_SECONDS", -1)
    console = Console(file=io.StringIO(), width=40)
    with TrainingBar(console, 3000) as bar:
        bar({"step": 0})
        bar(ROW)
    expected = "step 1,200 of 3,000  MLM 5.123  ppl 167.9  acc 21.3%  pair 74%  4,321 tok/s  MFU 47%"
    assert expected in console.file.getvalue().splitlines()
