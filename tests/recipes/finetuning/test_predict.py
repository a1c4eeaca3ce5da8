"""Predictions become a table with the columns of all rows."""

import pytest

from keras_bert_rebuild.recipes.finetuning.predict import write_rows


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_second_text_that_the_first_example_lacks_has_its_column(tmp_path, name, delimiter):
    write_rows(tmp_path / name, [{"text": "a", "label": "x"}, {"text": "b", "pair": "c", "label": "y"}])
    lines = [["text", "label", "pair"], ["a", "x", ""], ["b", "y", "c"]]
    assert (tmp_path / name).read_text() == "".join(f"{delimiter.join(cells)}\n" for cells in lines)


def test_the_best_spans_of_a_question_are_texts_in_a_cell_and_entities_have_their_label(tmp_path):
    rows = [{"id": "1", "best": [{"text": "a b", "start": 0}, {"text": "c", "start": 4}]}, {"id": "2", "best": []}]
    write_rows(tmp_path / "questions.tsv", rows)
    assert (tmp_path / "questions.tsv").read_text() == "id\tbest\n1\ta b; c\n2\t\n"
    write_rows(tmp_path / "words.tsv", [{"entities": [{"label": "per", "text": "anna"}, {"label": "loc", "text": "paris"}]}])
    assert (tmp_path / "words.tsv").read_text() == "entities\nper: anna; loc: paris\n"
