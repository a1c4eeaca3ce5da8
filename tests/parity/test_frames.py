"""DataFrames, datasets and Arrow tables of the real libraries are read, and answered in their own form."""

import numpy as np
import pytest
from helpers.small_tasks import small_task

from keras_bert_rebuild import ClassifiedText, TaggedWords, TextClassifier, predict
from keras_bert_rebuild.data import document_rows, tables_of_objects
from keras_bert_rebuild.data.labelled.read_labelled import read_examples, read_labelled
from keras_bert_rebuild.data.retrieval import Document, documents_in, read_judgements
from keras_bert_rebuild.data.tables_of_objects import splits_of

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
datasets = pytest.importorskip("datasets")

ROWS = [{"id": 7, "sentence": "the cat", "label": "cat", "n": None}, {"id": 9, "sentence": "the dog", "label": "dog", "n": 2.0}]
EXAMPLES = [ClassifiedText("the cat", label="cat"), ClassifiedText("the dog", label="dog")]
FRAME = pandas.DataFrame(ROWS, index=[5, 3]).astype({"label": "category"})
FEATURES = datasets.Features(
    {
        "id": datasets.Value("string"),
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "tokens": datasets.Sequence(datasets.Value("string")),
        "ner_tags": datasets.Sequence(datasets.ClassLabel(names=["O", "B-x"])),
    }
)
COLUMNS = {
    "id": ["a", "b"],
    "text": ["the cat", "the dog"],
    "label": [0, 1],
    "tokens": [["a", "b"], ["c"]],
    "ner_tags": [[0, 1], [0]],
}
NAMED = datasets.Dataset.from_dict(COLUMNS, features=FEATURES)


class Stream:
    """An object with Arrow's stream interface only."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pyarrow.Table.from_pylist(ROWS).__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def classifier():
    return small_task(TextClassifier, labels=("cat", "dog"))


@pytest.mark.parametrize(
    "data",
    [FRAME, datasets.Dataset.from_list(ROWS), NAMED.to_iterable_dataset(), NAMED, NAMED.data.table, pyarrow.table(FRAME), Stream()],
    ids=["frame", "dataset", "iterable", "named", "table of a dataset", "table", "stream"],
)
def test_the_examples_are_equal(data):
    assert read_examples(data, "classification") == EXAMPLES


def test_names_of_tags_and_splits_are_found():
    assert read_examples(NAMED, "tagging") == [TaggedWords(("a", "b"), ("O", "B-x")), TaggedWords(("c",), ("O",))]
    assert list(splits_of(datasets.DatasetDict({"train": NAMED, "test": NAMED}))) == ["train", "test"]


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA, pandas.NaT])
def test_what_is_missing_is_named(missing):
    frame = pandas.DataFrame({"text": ["a", missing], "label": ["x", "y"]})
    with pytest.raises(ValueError, match=r"expected a string as text; got None in train\[1\]"):
        read_labelled(frame, "classification", name="train")


def test_a_frame_keeps_index_types_and_other_columns(classifier):
    answers = predict(classifier, FRAME.assign(when=pandas.Timestamp("2024-05-01")))
    assert list(answers.columns) == ["id", "n", "when", "text", "label", "probability", "probabilities"]
    assert list(answers.index) == [5, 3]
    assert answers["when"].dtype.kind == "M"
    assert list(answers["label"]) == [answer.label for answer in classifier(["the cat", "the dog"])]


def test_a_dataset_is_answered_with_a_dataset_and_a_table_with_a_table(classifier):
    for data in (NAMED, pyarrow.Table.from_pylist(ROWS)):
        answers = predict(classifier, data)
        assert type(answers) is type(data)
        assert list(answers["id"]) == list(data["id"])
        assert answers.column_names[-3:] == ["label", "probability", "probabilities"]


def test_parquet_is_read_with_its_labels_and_written(classifier, tmp_path):
    NAMED.to_parquet(tmp_path / "in.parquet")
    assert read_examples(tmp_path / "in.parquet", "classification") == EXAMPLES
    for overwrite in (False, True):
        predict(classifier, tmp_path / "in.parquet", tmp_path / "out.parquet", overwrite=overwrite)
    answers = pandas.read_parquet(tmp_path / "out.parquet")
    assert list(answers["id"]) == ["a", "b"]
    assert list(answers["text"]) == ["the cat", "the dog"]
    with pytest.raises(ValueError, match=r"in\.parquet"):
        predict(classifier, tmp_path / "out.parquet", tmp_path / "in.parquet", overwrite=True)
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "in.parquet").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"expected a Parquet file; .*broken\.parquet is not one") as raised:
        read_examples(tmp_path / "broken.parquet", "classification")
    assert "\n" not in str(raised.value)


def test_documents_of_datasets_are_equal_in_all_their_forms(tmp_path, monkeypatch):
    for module in (document_rows, tables_of_objects):
        monkeypatch.setattr(module, "PART", 2)
    rows = [{"_id": f"d{i}", "text": f"t{i}", "kind": i % 2, "year": None if i == 3 else i} for i in range(5)]
    kinds = {"kind": datasets.ClassLabel(names=["cat", "dog"]), "year": datasets.Value("int32")}
    features = datasets.Features({"_id": datasets.Value("string"), "text": datasets.Value("string"), **kinds})
    dataset = datasets.Dataset.from_list(rows, features=features)
    dataset.to_parquet(tmp_path / "docs.parquet")
    years = [{} if row["year"] is None else {"year": row["year"]} for row in rows]
    expected = [
        Document(row["_id"], "", row["text"], {"kind": kinds["kind"].names[row["kind"]], **year})
        for row, year in zip(rows, years, strict=True)
    ]
    turned = dataset.select(range(4, -1, -1)).select(range(4, -1, -1))
    for source in (dataset, turned, dataset.to_iterable_dataset(), dataset.data.table, tmp_path / "docs.parquet"):
        assert list(documents_in(source)) == expected
    judged = datasets.Dataset.from_dict({"query-id": [1, 2], "corpus-id": [3, 4], "score": [1, 0]})
    assert read_judgements(judged) == {"1": {"3": 1}, "2": {"4": 0}}
