"""The curve on disk continues where the run resumes, and the picture shows its numbers."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from keras_bert_rebuild.recipes.metrics_table import (
    MetricsTable,
    _ticks,
    draw_curves,
    read_curves,
)

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


TABLE = """step,phase,learning_rate,loss,held_out_loss,tokens_per_second
10,1,0.001,8.5,,1000
20,1,0.0005,6.5,6.75,nan
30,1,0.0001,6,,1200
40,1,0.00"""


def test_points_are_read_without_those_that_were_not_measured(tmp_path):
    (tmp_path / "metrics.csv").write_text(TABLE, encoding="utf-8")
    curves = read_curves(tmp_path)
    assert curves["loss"] == [(10, 8.5), (20, 6.5), (30, 6)]
    assert curves["held_out_loss"] == [(20, 6.75)]
    assert curves["tokens_per_second"] == [(10, 1000), (30, 1200)]


def test_lines_go_through_the_points(tmp_path):
    (tmp_path / "metrics.csv").write_text(TABLE, encoding="utf-8")
    svg = draw_curves(read_curves(tmp_path), "a <run>")
    tree = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in tree.iter(f"{space}text") if text.get("class") == "title"] == [
        "a <run>",
        "Loss",
        "Learning rate",
        "Tokens per second",
    ]
    (line,) = [path.get("d") for path in tree.iter(f"{space}path") if path.get("class") == "a"]
    (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
    assert (x2 - x1) == pytest.approx(x1 - x0, abs=0.2)
    assert (y1 - y0) / (y2 - y0) == pytest.approx(2 / 2.5, abs=0.01)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (6, 8.5), (1e-5, 1e-3), (3, 3), (0, 0), (-2, 7), (999, 1001)])
def test_ticks_are_round_numbers_around_the_values(low, high):
    ticks = _ticks(low, high)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    assert 2 <= len(ticks) <= 7


def test_a_folder_without_a_run_is_reported(tmp_path):
    with pytest.raises(ValueError, match=r"expected the metrics\.csv of a run; .*metrics\.csv does not exist"):
        read_curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="it has the columns a, b"):
        read_curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("step,loss\n1,two\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: loss must be a number; got 'two'"):
        read_curves(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'step,loss\n1,"2\n', "line 2 is not: unexpected end of data"),
        (b"step,loss\n1,\xff\n", "line 2 is not, at byte 12 of the file"),
        (b"step,loss\n,2\n", "line 2: step must be a whole number; got ''"),
        (b"step,loss\n1,2\nx,2\n", "line 3: step must be a number; got 'x'"),
        (b"step,loss\n1e400,2\n", "line 2: step must be a whole number; got '1e400'"),
        (b"step,loss\n1.5,2\n", "line 2: step must be a whole number; got '1.5'"),
    ],
)
def test_an_error_in_the_table_has_the_file_and_the_line(tmp_path, content, said):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    for read in (lambda: read_curves(path), lambda: MetricsTable(path, ("step", "loss"), 9)):
        with pytest.raises(ValueError, match=rf"{re.escape(str(path))}, {re.escape(said)}"):
            read()


def test_numbers_that_no_run_can_have_are_not_drawn(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,loss\n1,1e308\n2,-1e308\n3,2\n4,5e-324\n", encoding="utf-8")
    curves = read_curves(tmp_path)
    assert curves["loss"] == [(3, 2), (4, 5e-324)]
    for points in (curves["loss"], [(1, 3e38), (2, -3e38)], [(1, 5e-324), (2, 5e-324)], [(1, 1.0), (2, 1.0 + 1e-15)]):
        picture = draw_curves({"loss": points})
        assert "nan" not in picture
        assert "inf" not in picture
