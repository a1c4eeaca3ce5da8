"""What is written into a table reads back equal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.labelled.tables import column_names, decoded_rows, read_cells, write_table

TEXTS = st.text(max_size=8) | st.text(" \t\n\r\",\\:[]{}'=+-@#\xa0\u2028\ufeff\ud800ab", max_size=6)
LISTS = st.lists(TEXTS, max_size=3)
ANY = TEXTS | st.none() | st.booleans() | st.integers() | LISTS | st.dictionaries(TEXTS, TEXTS, max_size=2)
NAMES = TEXTS | st.sampled_from(["text", "a:json", ":json", '"'])


@st.composite
def tables(draw):
    count = draw(st.integers(1, 4))
    columns = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        values = draw(st.sampled_from([TEXTS, TEXTS | st.none(), LISTS, ANY]))
        columns[name] = draw(st.lists(values, min_size=count, max_size=count))
    return columns


def read_back(columns, delimiter, path):
    text = io.StringIO(newline="")
    write_table(text, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], delimiter)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    (_, first), *rows = read_cells(path, delimiter)
    rows = [cells for _, cells in decoded_rows(first, rows, path)]
    return dict(zip(column_names(first), map(list, zip(*rows, strict=True)), strict=True))


def is_number(value):
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_any_column_reads_back_equal(tmp_path_factory, delimiter):
    path = tmp_path_factory.mktemp("tables") / "table"

    @given(tables())
    def check(columns):
        columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        if not columns:
            return
        found = read_back(columns, delimiter, path)
        assert list(found) == list(columns)
        for name, values in columns.items():
            if all(map(is_number, values)):  # numbers are cells like texts
                assert [str("" if value is None else value) for value in found[name]] == [
                    str("" if v is None else v) for v in values
                ]
            else:
                assert found[name] == values

    check()


def test_a_plain_table_looks_as_other_programs_write_it(tmp_path):
    columns = {"text": ["=1", 'a "b", c'], "score": [-0.5, 1e-07], "pair": ["", "x"]}
    read_back(columns, ",", tmp_path / "a")
    assert (tmp_path / "a").read_text() == 'text,score,pair\n=1,-0.5,\n"a ""b"", c",1e-07,x\n'
    read_back(columns, "\t", tmp_path / "a")
    assert (tmp_path / "a").read_text() == 'text\tscore\tpair\n=1\t-0.5\t\na "b", c\t1e-07\tx\n'


def test_a_cell_that_is_not_json_is_an_error_with_its_line(tmp_path):
    (tmp_path / "a").write_text('text:json\n"a"\n{\n')
    rows = read_cells(tmp_path / "a", "\t")
    with pytest.raises(ValueError, match="a, line 3 must be JSON"):
        decoded_rows(rows[0][1], rows[1:], tmp_path / "a")
