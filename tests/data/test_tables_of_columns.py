"""Lists, frames, datasets and files become the same tables; answers return in their form, and what is written reads back equal."""

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, ScoredPair, TaggedWords, TextGroup
from keras_bert_rebuild.data.labelled.read_labelled import read_examples, read_labelled
from keras_bert_rebuild.data.tables import column_names, decoded_rows, read_cells, write_table
from keras_bert_rebuild.data.tables_of_objects import in_form_of, splits_of

ROWS = [{"id": 7, "sentence": "a b", "label": "x", "n": None}, {"id": 9, "sentence": "c", "label": "y", "n": 2.0}]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
EXAMPLES = [ClassifiedText("a b", label="x"), ClassifiedText("c", label="y")]


class Column(list):
    """A column of a frame, as pandas has it."""

    def tolist(self):
        return list(self)


class Frame:
    """What a frame has that is needed here: names, columns, and one with others added."""

    def __init__(self, columns, index=None):
        self.data, self.columns, self.index = columns, list(columns), index

    def __getitem__(self, name):
        return Frame({one: self.data[one] for one in name}, self.index) if isinstance(name, list) else Column(self.data[name])

    def assign(self, **columns):
        return Frame({**self.data, **columns}, self.index)


class Dataset:
    """What a `datasets.Dataset` has: names, columns as a dictionary, and the names of its labels."""

    def __init__(self, columns, features=None):
        self.data, self.column_names, self.features = columns, list(columns), features

    def to_dict(self):
        return self.data

    @classmethod
    def from_dict(cls, columns):
        return cls(columns)


class Names:
    def __init__(self, names=None, feature=None):
        self.names, self.feature = names, feature


class Arrow(Dataset):
    """What an Arrow table has."""

    to_pydict = Dataset.to_dict

    @classmethod
    def from_pydict(cls, columns):
        return cls(columns)


FORMS = {
    "rows": ROWS,
    "iterator": None,
    "columns": COLUMNS,
    "tuples": [(row["sentence"], row["label"]) for row in ROWS],
    "examples": EXAMPLES,
    "frame": Frame(COLUMNS),
    "dataset": Dataset(COLUMNS),
    "arrow": Arrow(COLUMNS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_examples(form):
    read = read_labelled(FORMS[form] or iter(ROWS), "classification", name="train")
    assert read.examples == EXAMPLES
    if form not in ("tuples", "examples"):
        assert [example.where for example in read.examples] == ["train[0]", "train[1]"]
        assert read.other_columns == [{"id": 7, "n": None}, {"id": 9, "n": 2.0}]
        assert read.columns == {"text": "sentence", "label": "label"}


def test_no_library_is_imported_for_these_and_a_missing_one_is_one_sentence(monkeypatch, tmp_path):
    for name in ("pandas", "pyarrow", "datasets"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an error
    (tmp_path / "a.csv").write_text("text;label\na b;x\nc;y\n")
    for data in (*filter(None, FORMS.values()), tmp_path / "a.csv"):
        assert read_examples(data, "classification") == EXAMPLES
    with pytest.raises(ValueError, match=r"a\.parquet needs the package pyarrow: pip install pyarrow\.$"):
        read_examples(tmp_path / "a.parquet", "classification")


def test_texts_alone_can_be_predicted():
    assert read_examples(["a", "b"], "classification", labelled=False) == [ClassifiedText("a"), ClassifiedText("b")]


@pytest.mark.parametrize(
    ("columns", "kind", "expected"),
    [
        ({"Text": ["a"], "LABELS": ["x"]}, "classification", ClassifiedText("a", label="x")),
        ({"premise": ["a"], "hypothesis": ["b"], "label": [2]}, "classification", ClassifiedText("a", "b", "2")),
        ({"sentence1": ["a"], "sentence2": ["b"], "label": [2]}, "similarity", ScoredPair("a", "b", 2.0)),
        ({"tokens": [["a", "b"]], "ner_tags": [("O", "B-x")], "pos": [[1, 2]]}, "tagging", TaggedWords(("a", "b"), ("O", "B-x"))),
        ({"anchor": ["a"], "positive": ["b"], "negative_1": ["c"], "negative_2": [""]}, "retrieval", TextGroup("a", "b", ("c",))),
        ({"text": ["a"], "review": ["b"], "label": ["x"]}, "classification", ClassifiedText("a", label="x")),
    ],
)
def test_columns_are_found_by_their_usual_names(columns, kind, expected):
    assert read_examples(columns, kind) == [expected]


def test_labels_with_names_are_their_names_and_minus_one_is_unknown():
    data = {"text": ["a", "b"], "label": [1, -1], "tokens": [["c"], ["d"]], "ner_tags": [[0], [1]]}
    features = {"text": Names(), "label": Names(["no", "yes"]), "ner_tags": Names(feature=Names(["O", "B-x"]))}
    dataset = Dataset(data, features)
    assert [one.label for one in read_examples(dataset, "classification", labelled=False)] == ["yes", None]
    assert [one.tags for one in read_examples(dataset, "tagging")] == [("O",), ("B-x",)]
    with pytest.raises(ValueError, match=r"a label from 0 to 1, for which there are names; got 2 as label of train\[0\]"):
        read_labelled(Dataset({"text": ["a"], "label": [2]}, features), "classification", name="train")


def test_answers_return_in_the_form_of_the_examples():
    answers = [{"id": 7, "text": "a b", "label": "x"}, {"id": 9, "text": "c", "label": "x"}]
    columns = {"id": [7, 9], "text": ["a b", "c"], "label": ["x", "x"]}
    assert in_form_of(COLUMNS, answers) == columns
    frame = in_form_of(Frame({**COLUMNS, "id": ["unchanged"] * 2}, index="ab"), answers, unchanged={"id"})
    assert frame.data == {**columns, "id": ["unchanged"] * 2}
    assert frame.index == "ab"
    for kind in (Dataset, Arrow):
        made = in_form_of(kind(COLUMNS), answers)
        assert type(made) is kind
        assert made.data == columns
    for data in (ROWS, "in.csv"):
        assert in_form_of(data, answers) is answers


def test_a_dictionary_of_tables_has_splits_and_one_of_lists_has_none():
    assert set(splits_of({"train": Dataset(COLUMNS), "test": Dataset(COLUMNS)})) == {"train", "test"}
    assert set(splits_of({"train": Frame(COLUMNS)})) == {"train"}
    assert splits_of(COLUMNS) is splits_of(ROWS) is splits_of({}) is splits_of("train.csv") is None


NAN = float("nan")
WRONG = [
    (
        {"text": ["a"]},
        "expected a column for label (one of label, labels, class, category, intent, or named in columns); train has",
    ),
    ({"text": ["a", "b"], "label": ["x"]}, "expected columns of equal length; train has 2 values of text and 1 of label."),
    ({"text": ["a", None], "label": ["x", "y"]}, "expected a string as text; got None in train[1]."),
    ({"text": ["a", NAN], "label": ["x", "y"]}, "expected a string as text; got None in train[1]."),
    ({"text": ["a", "b"], "label": ["x", NAN]}, "expected a value for label; got none in train[1]."),
    ({"text": ["a"], "label": [0.5]}, "expected a label, a word or a whole number; got 0.5 in train[0]."),
    ({"text": [], "label": []}, "expected at least one example; train has none."),
    ([], "expected at least one example; train has none."),
    ({}, "expected at least one example; train has none."),
    ({"sentence": ["a"], "review": ["b"], "label": ["x"]}, "expected one column for text; train has sentence and review: name one"),
    ({"text": ["a"], "class": ["b"], "intent": ["x"]}, "expected one column for label; train has class and intent: name one"),
    ({"text": "a", "label": "x"}, "expected a list of values as column text of train; got 'a'."),
    ([{"text": "a"}, ("a", "x")], "expected dictionaries, tuples, texts or Examples, all of one kind; train[1] is ('a', 'x')."),
    ([("a", "x"), ("b",)], "expected 2 columns, as in the first row; train[1] has 1."),
    (7, "expected a file, a list, a dictionary of columns, a DataFrame or a dataset; train is 7."),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_wrong_data_are_one_sentence_with_their_index(data, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read_labelled(data, "classification", name="train")
    assert "\n" not in str(raised.value)


def test_two_columns_with_one_name_are_refused():
    frame = Frame(COLUMNS)
    frame.columns = ["text", "text"]
    with pytest.raises(ValueError, match="expected columns with different names; examples has two named text"):
        read_examples(frame, "classification")


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
