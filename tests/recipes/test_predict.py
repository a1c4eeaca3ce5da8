"""Answers become a table that leaves out no column."""

import pytest

from keras_bert_rebuild.recipes.predict import write_rows


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_second_text_that_the_first_example_lacks_has_its_column(tmp_path, name, delimiter):
    write_rows(tmp_path / name, [{"text": "a", "label": "x"}, {"text": "b", "pair": "c", "label": "y"}])
    lines = [["text", "label", "pair"], ["a", "x", ""], ["b", "y", "c"]]
    assert (tmp_path / name).read_text() == "".join(f"{delimiter.join(cells)}\n" for cells in lines)
