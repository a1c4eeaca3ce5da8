"""The documents of a corpus are the same in every format, folder and object that has them."""

import csv
import gzip
import json
import lzma
import sys
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data import document_rows, tables_of_objects
from keras_bert_rebuild.data.document_rows import names_by_part
from keras_bert_rebuild.data.retrieval import Document, documents_in, read_queries
from keras_bert_rebuild.data.tables import write_table

PLAIN = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"))
WORDS = st.text("ab\xe4\U0001f600 ,;<&\"'", max_size=6) | st.text(PLAIN, max_size=6)
VALUES = {"year": st.integers(-9, 2030), "language": WORDS.filter(bool), "tags": st.lists(WORDS, min_size=1, max_size=2)}


@st.composite
def corpora(draw):
    """Rows with id, title and text, and metadata of some."""
    count = draw(st.integers(1, 5))
    names = draw(st.lists(st.text("ab7-", min_size=1, max_size=4), min_size=count, max_size=count, unique=True))
    some = [{name: draw(values) for name, values in VALUES.items() if draw(st.booleans())} for _ in names]
    return [
        {"id": name, "title": draw(WORDS).strip(), "text": draw(WORDS), **metadata}
        for name, metadata in zip(names, some, strict=True)
    ]


def documents_of(rows):
    return [
        Document(row["id"], row["title"], row["text"], {n: row[n] for n in row if n not in ("id", "title", "text")}) for row in rows
    ]


def write_lines(rows, path):
    with {"gz": gzip.open, "xz": lzma.open}.get(path.suffix[1:], open)(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_cells(rows, path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        write_table(file, rows, "\t" if path.suffix == ".tsv" else ",")


def write_semicolons(rows, path):
    names = list(dict.fromkeys(name for row in rows for name in row))
    coded = [name for name in names if name not in ("id", "title", "text")]
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([f"{name}:json" if name in coded else name for name in names])
        writer.writerows([json.dumps(row.get(name)) if name in coded else row[name] for name in names] for row in rows)


def columns_of(rows):
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def as_beir(row):
    inner = {name: value for name, value in row.items() if name not in ("id", "title", "text")}
    return {"_id": row["id"], "title": row["title"], "text": row["text"], "metadata": inner}


def as_pyserini(row):
    return {"contents" if name == "text" else name: value for name, value in row.items()}


FILES = {
    "docs.jsonl": write_lines,
    "docs.ndjson.gz": write_lines,
    "beir.jsonl.xz": lambda rows, path: write_lines(map(as_beir, rows), path),
    "pyserini.jsonl": lambda rows, path: write_lines(map(as_pyserini, rows), path),
    "docs.json": lambda rows, path: path.write_text(json.dumps(rows)),
    "columns.json": lambda rows, path: path.write_text(json.dumps(columns_of(rows))),
    "docs.csv": write_cells,
    "docs.tsv": write_cells,
    "semicolons.csv": write_semicolons,
}
OBJECTS = {
    "list": list,
    "generator": lambda rows: (row for row in rows),
    "documents": documents_of,
    "columns": columns_of,
    "beir": lambda rows: map(as_beir, rows),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpora(), st.integers(1, 3))
def test_every_format_has_the_same_documents(tmp_path, monkeypatch, rows, part):
    for module in (document_rows, tables_of_objects):
        monkeypatch.setattr(module, "PART", part)
    expected = documents_of(rows)
    for name, write in FILES.items():
        write(rows, tmp_path / name)
        texts = [{**row, "year": str(row["year"])} if "year" in row else row for row in rows]  # as in a table of texts
        assert list(documents_in(tmp_path / name)) == (documents_of(texts) if write is write_cells else expected), name
    for name, make in OBJECTS.items():
        assert list(documents_in(make(rows))) == expected, name


def test_tables_of_pandas_and_arrow_and_parquet_have_the_same_documents(tmp_path, monkeypatch):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    rows = [{"id": f"d{i}", "title": "", "text": f"t{i}", **({"year": 1900 + i} if i % 3 else {})} for i in range(7)]
    expected = documents_of(rows)
    frame = pandas.DataFrame(columns_of(rows)).astype({"year": "Int64"})[lambda frame: frame.text != "none"]
    frame.iloc[::-1].iloc[::-1].to_parquet(tmp_path / "frame.parquet")
    table = pyarrow.Table.from_pylist([{**row, "year": row.get("year")} for row in rows])
    pyarrow.parquet.write_table(table, tmp_path / "docs.parquet", row_group_size=4)
    shown = frame.set_index([[5, 3, 9, 1, 0, 2, 4]])
    shown.to_parquet(tmp_path / "index.parquet")

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for part in (1, 3, 1000):
        for module in (document_rows, tables_of_objects):
            monkeypatch.setattr(module, "PART", part)
        sources = (
            frame,
            shown,
            table,
            *table.to_batches(),
            table.to_reader(),
            Stream(),
            *map(str, sorted(tmp_path.glob("*.parquet"))),
        )
        for source in sources:
            assert list(documents_in(source)) == expected, source


def test_a_row_of_parquet_is_named_by_its_number(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr(document_rows, "PART", 2)
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"id": [1, 2, 3, 4], "text": ["a", "b", "c", None]}), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"expected a string as text; got None in .*d\.parquet\[3\]\."):
        list(documents_in(tmp_path / "d.parquet"))


def test_times_of_pandas_are_those_of_python():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2], "text": ["a", "b"], "day": pandas.to_datetime(["2020-01-02", None])})
    first, second = documents_in(frame)
    assert (type(first.metadata["day"]).__module__, first.metadata["day"].year) == ("datetime", 2020)
    assert second == Document(2, "", "b")


def test_ids_are_texts_in_files_and_stay_whole_numbers_in_objects(tmp_path):
    (tmp_path / "docs.jsonl").write_text('{"id": 7, "text": "x"}\n')
    assert [document.id for document in documents_in(tmp_path / "docs.jsonl")] == ["7"]
    assert [document.id for document in documents_in([{"id": 7, "text": "x"}])] == [7]
    assert [document.id for document in documents_in([Document(7, "", "x")])] == [7]


def test_numbers_in_a_table_are_texts_and_an_empty_cell_is_no_value(tmp_path):
    (tmp_path / "docs.csv").write_text("id,text,year,size:json,note\na,x,1900,3,\nb,y,,null,new\n")
    assert list(documents_in(tmp_path / "docs.csv")) == [
        Document("a", "", "x", {"year": "1900", "size": 3}),
        Document("b", "", "y", {"note": "new"}),
    ]


def test_a_text_in_a_csv_file_may_have_many_lines(tmp_path):
    (tmp_path / "docs.csv").write_text('id,text\na,"one\n\ntwo, ""three"""\nb,"x\n', newline="")
    documents = documents_in(tmp_path / "docs.csv")
    assert next(documents) == Document("a", "", 'one\n\ntwo, "three"')
    with pytest.raises(ValueError, match=r"expected cells quoted as in csv; .*docs\.csv, line 5 is not"):
        next(documents)


TREC = """<DOC>
<DOCNO> FT911-1 </DOCNO>
<HEADLINE>
FT  14 MAY 91 / Tin &amp; zinc
</HEADLINE>
<TEXT>
Prices <F P=105>rose</F>
in May.
</TEXT>
<TEXT>More.</TEXT>
</DOC>

<doc><docno>FT911-2</docno><text></text></doc>
"""
OF_TREC = [Document("FT911-1", "FT 14 MAY 91 / Tin & zinc", "Prices rose in May. More."), Document("FT911-2", "", "")]


@pytest.mark.parametrize("name", ["ft911_1", "ft911.gz", "docs.trec", "docs.txt", "docs.txt.xz"])
def test_documents_in_the_format_of_trec_are_known_by_how_the_file_begins(tmp_path, name):
    with {"gz": gzip.open, "xz": lzma.open}.get(name.rpartition(".")[2], open)(tmp_path / name, "wt", encoding="utf-8") as file:
        file.write("\n" + TREC)
    assert list(documents_in(tmp_path / name)) == OF_TREC


def test_a_collection_is_read_in_the_order_of_its_names(tmp_path):
    for name in ("b/2.jsonl", "a.jsonl", "b/1.jsonl.gz", ".hidden/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_lines([{"id": name, "contents": "x"}], tmp_path / name)
    (tmp_path / "README.md").write_text("About it")
    (tmp_path / "LICENSE").write_text("Free")
    assert [document.id for document in documents_in(tmp_path)] == ["a.jsonl", "b/1.jsonl.gz", "b/2.jsonl"]
    (tmp_path / "queries.tsv").write_text("q1\twho?\n")
    with pytest.raises(ValueError, match=r"files of one format that have ids; .* has .*\(\.jsonl\), queries\.tsv \(\.tsv\)\."):
        list(documents_in(tmp_path))
    assert read_queries(tmp_path) == {"q1": "who?"}


def test_a_collection_of_trec_is_read(tmp_path):
    for name in ("ft911_1", "ft911_2"):
        (tmp_path / name).write_text(TREC)
    assert list(documents_in(tmp_path)) == OF_TREC * 2


WRONG_FILES = {
    "an id": ("d.jsonl", '{"text": "x"}', r"expected an id and a text, such as _id and text; .*d\.jsonl, line 1 has text\."),
    "a text": ("d.csv", "id,text,n\na,x,1\nb,y\n", r"expected 3 columns, as in the first row; .*d\.csv, line 3 has 2 columns\."),
    "unnamed": ("d.csv", "a,x,y,z\n", r"expected id, text and optionally title, or a first row of names; .*line 1 has 4 columns\."),
    "twice": (
        "d.jsonl",
        '{"id": 1, "text": "x", "n": 1, "metadata": {"n": 2}}',
        "expected a name of metadata once; .*line 1 has n in",
    ),
    "list": ("d.json", '[{"id": 1, "text": "x"}, 3]', r"expected a list of JSON objects; .*d\.json has something else at 1\."),
    "row": ("d.json", '[{"id": 1, "text": "x"}, {"id": 2}]', r"expected an id and a text, .*; .*d\.json\[1\] has id\."),
    "lengths": ("d.json", '{"id": [1, 2], "text": ["x"]}', r"expected columns of equal length; .*d\.json has 2 values of id and 1"),
    "parquet": ("d.parquet", "PAR1", r"expected a Parquet file; .*d\.parquet is not one"),
    "open": (
        "d.trec",
        "<DOC>\n<DOCNO>a</DOCNO>\n<DOC>\n",
        r"expected </DOC> at the end of a document; .*d\.trec, line 1 has none\.",
    ),
    "number": (
        "d.trec",
        "\n<DOC>\n<TEXT>a</TEXT>\n</DOC>",
        r"expected an id, a word without white space; .*d\.trec, line 2 has ''",
    ),
    "suffix": ("d.doc", "a", r"expected a file whose name ends in \.jsonl, .*, or one that begins with <DOC>; got .*d\.doc\."),
}


@pytest.mark.parametrize("wrong", WRONG_FILES)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, wrong):
    name, content, message = WRONG_FILES[wrong]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        list(documents_in(tmp_path / name))
    assert "\n" not in str(error.value)


GOOD = [{"id": i, "text": "x"} for i in range(4)]
WRONG_OBJECTS = [
    ([*GOOD, {"text": "x"}], r"expected an id and a text, such as _id and text; documents\[4\] has text\."),
    ([*GOOD, {"id": True, "text": "x"}], r"expected an id, a word without white space; documents\[4\] has True\."),
    ([*GOOD, {"id": 1.0, "text": "x"}], r"expected an id, a word .*; documents\[4\] has 1\.0\."),
    ([*GOOD, {"id": 1 << 63, "text": "x"}], r"expected an id, a word .*; documents\[4\] has 9223372036854775808\."),
    ([*GOOD, {"id": "a", "text": float("nan")}], r"expected a string as text; got None in documents\[4\]\."),
    ([*GOOD, Document("a b", "", "x")], r"expected an id, a word .*; documents\[4\] has 'a b'\."),
    ([*GOOD, Document("a", "", 3)], r"expected a string as text; got 3 in documents\[4\]\."),
    ([*GOOD, GOOD[0], ("a", "x")], r"expected dictionaries, .* or Documents, all of one kind; documents\[5\] is \('a', 'x'\)\."),
    (["a text"], r"expected dictionaries with an id and a text, or Documents; documents has 1 columns without known names\."),
    ({"id": "a", "text": "x"}, r"expected a list of values as column id of documents; got 'a'\."),
    (7, "expected a file, a list, a dictionary of columns, a DataFrame or a dataset; documents is 7"),
]


@pytest.mark.parametrize(("source", "message"), WRONG_OBJECTS)
def test_what_is_wrong_with_an_object_is_one_sentence_with_its_index(monkeypatch, source, message):
    for module in (document_rows, tables_of_objects):
        monkeypatch.setattr(module, "PART", 2)
    with pytest.raises(ValueError, match=message) as error:
        list(documents_in(source))
    assert "\n" not in str(error.value)


def test_what_is_no_corpus_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"expected a file or folder for the corpus; .*no does not exist\."):
        list(documents_in(tmp_path / "no"))
    with pytest.raises(ValueError, match=r"expected a folder with a file corpus, or with files of one format .* has none\."):
        list(documents_in(tmp_path))
    with pytest.raises(ValueError, match=r"expected a folder with a file queries, such as queries\.jsonl; .* has none\."):
        read_queries(tmp_path)
    for suffix in ("jsonl", "csv"):
        (tmp_path / f"corpus.{suffix}").touch()
    with pytest.raises(ValueError, match=r"expected one file corpus in .*; it has corpus\.csv, corpus\.jsonl\."):
        list(documents_in(tmp_path))


def test_queries_come_from_the_same_formats(tmp_path):
    (tmp_path / "q.csv").write_text("qid,query,user\n1,who?,x\n")
    for source in (tmp_path / "q.csv", {1: "who?"}, [{"qid": 1, "query": "who?"}], {"id": [1], "text": ["who?"]}):
        assert read_queries(source) == {"1": "who?"}
    with pytest.raises(ValueError, match="expected unique query ids; queries has '1' again"):
        read_queries([{"id": 1, "text": "x"}, {"id": "1", "text": "y"}])
    with pytest.raises(ValueError, match="expected at least one query; queries has none"):
        read_queries([])


def test_the_first_usual_name_is_that_of_a_part():
    assert names_by_part(("query", "Text", "id", "_id", "title")) == {"id": "_id", "text": "Text", "title": "title"}
    assert names_by_part(("qid", "query", "docid", "rel"), "judgement") == {"query": "qid", "document": "docid", "grade": "rel"}


def test_without_pandas_and_pyarrow_only_their_formats_are_missing(monkeypatch, tmp_path):
    for name in ("pandas", "pyarrow", "datasets"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it is an error
    rows = [{"id": "a", "title": "", "text": "x"}]
    for name, write in FILES.items():
        write(rows, tmp_path / name)
        assert list(documents_in(tmp_path / name)) == documents_of(rows)
    (tmp_path / "docs.parquet").touch()
    with pytest.raises(ValueError, match=r"docs\.parquet needs the package pyarrow: pip install pyarrow\.$"):
        list(documents_in(tmp_path / "docs.parquet"))


def write_trec(rows, path):
    path.write_text("".join(f"<DOC>\n<DOCNO>{row['id']}</DOCNO>\n<TEXT>{row['text']}</TEXT>\n</DOC>\n" for row in rows))


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.csv", "docs.tsv", "docs.trec", "docs.parquet", "generator"])
def test_documents_are_read_in_constant_memory(tmp_path, monkeypatch, name):
    for module in (document_rows, tables_of_objects):
        monkeypatch.setattr(module, "PART", 100)
    rows = ({"id": f"d{i}", "text": f"{i} {'word ' * 1000}", "year": i} for i in range(2000))  # 10 MB
    source = rows if name == "generator" else tmp_path / name
    if name == "docs.parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(list(rows)), source, row_group_size=200)
    elif name != "generator":
        {"docs.jsonl": write_lines, "docs.trec": write_trec}.get(name, lambda rows, path: write_cells(list(rows), path))(
            rows, source
        )
    tracemalloc.start()
    assert sum(1 for _ in documents_in(source)) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
