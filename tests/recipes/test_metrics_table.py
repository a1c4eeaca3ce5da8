"""The curve on disk continues where the run resumes."""

import pytest

from keras_bert_rebuild.recipes.metrics_table import MetricsTable

COLUMNS = ("step", "loss", "accuracy")


def test_rows_are_on_disk_at_once_and_missing_numbers_stay_empty(tmp_path):
    table = MetricsTable(tmp_path / "m.csv", COLUMNS)
    table.write({"step": 5, "loss": 1 / 3})
    assert (tmp_path / "m.csv").read_text() == "step,loss,accuracy\n5,0.333333,\n"


def test_a_resumed_run_drops_rows_after_its_step_and_half_a_row(tmp_path):
    table = MetricsTable(tmp_path / "m.csv", COLUMNS)
    for step in (2, 4, 6):
        table.write({"step": step, "loss": 1.0, "accuracy": 0.5})
    with (tmp_path / "m.csv").open("a") as file:
        file.write("8,0.")
    MetricsTable(tmp_path / "m.csv", COLUMNS, step=4).write({"step": 5})
    assert (tmp_path / "m.csv").read_text() == "step,loss,accuracy\n2,1,0.5\n4,1,0.5\n5,,\n"


def test_a_table_with_other_columns_is_an_error(tmp_path):
    (tmp_path / "m.csv").write_text("step,f1\n1,2\n")
    with pytest.raises(ValueError, match=r"expected the columns step, loss, accuracy; .*m\.csv has step, f1\."):
        MetricsTable(tmp_path / "m.csv", COLUMNS)
