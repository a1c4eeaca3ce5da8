"""Files of examples are read correctly, or refused in a sentence with file and line."""

import gzip
import json
import lzma
import re

import pytest

from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    RankedText,
    ScoredPair,
    TaggedText,
    TaggedWords,
    TextGroup,
)
from keras_bert_rebuild.data.labelled.read_labelled import read_examples


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def squad(answer, **question):
    rows = [{"id": "q1", "question": "who?", "answers": [answer], **question}]
    return json.dumps({"data": [{"paragraphs": [{"context": "a red house", "qas": rows}]}]})


CASES = [
    ("a.tsv", "text\tlabel\nI can't\tno\n", "classification", {}, ClassifiedText("I can't", label="no")),
    ("a.tsv", "\ufefftext\tlabel\r\na\tno\r\n", "classification", {}, ClassifiedText("a", label="no")),
    ("a.tsv", 'a "quote\tno\n\n', "classification", {}, ClassifiedText('a "quote', label="no")),
    ("a.tsv", "a\u2028b\tno", "classification", {}, ClassifiedText("a\u2028b", label="no")),
    ("a.tsv", "a\tb\tno", "classification", {}, ClassifiedText("a", "b", "no")),
    ("a.csv", 'id,label,text\n7,no,"a, ""b""\nc"\n', "classification", {}, ClassifiedText('a, "b"\nc', label="no")),
    ("a.csv", "x,y\na,no\n", "classification", {"columns": {"text": "x", "label": "y"}}, ClassifiedText("a", label="no")),
    ("a.csv", "no,a\n", "classification", {"columns": {"text": 2, "label": "1"}}, ClassifiedText("a", label="no")),
    ("a.csv", "2,a\n", "classification", {"columns": {"text": "2", "label": "1"}}, ClassifiedText("a", label="2")),
    ("a.tsv", "index\tquestion\tsentence\tlabel\n0\ta\tb\tno\n", "classification", {}, ClassifiedText("a", "b", "no")),
    ("a.jsonl", '{"sentence": "b", "question": "a", "label": "no"}', "classification", {}, ClassifiedText("a", "b", "no")),
    ("a.tsv", "sentence\tlabel\na\tno\n", "classification", {}, ClassifiedText("a", label="no")),
    (
        "a.tsv",
        "x\tsentence\tlabel\na\tb\tno\n",
        "classification",
        {"columns": {"text": "sentence"}},
        ClassifiedText("b", label="no"),
    ),
    ("a.csv", "u,v\na,no\n", "classification", {"header": False}, ClassifiedText("u", label="v")),
    ("a.tsv", "a\tx, y\n", "multi_label", {}, ClassifiedText("a", label=("x", "y"))),
    ("a.jsonl", '{"text": "a", "labels": []}', "multi_label", {}, ClassifiedText("a", label=())),
    ("a.tsv", "a\t0.5\n", "regression", {}, ClassifiedText("a", label=0.5)),
    ("a.jsonl", '\n{"text": "a", "intent": 3}', "classification", {}, ClassifiedText("a", label="3")),
    ("a.tsv", "sentence1\tsentence2\tscore\tsource\na\tb\t5\tz\n", "similarity", {}, ScoredPair("a", "b", 5.0)),
    ("a.tsv", "text\tlabel\na\t\n", "classification", {"labelled": False}, ClassifiedText("a")),
    ("a.tsv", "a\tb\n", "similarity", {"labelled": False}, ScoredPair("a", "b")),
    ("a.conll", "-DOCSTART- O\n\na NN B-x\nb NN O\n\nc NN O\n", "tagging", {}, TaggedWords(("a", "b"), ("B-x", "O"))),
    ("a.conll", "#hash\tO\na b\tO\n", "tagging", {}, TaggedWords(("#hash", "a b"), ("O", "O"))),
    ("a.conll", "a\nb\n", "tagging", {"labelled": False}, TaggedWords(("a", "b"))),
    ("a.conll", "10\xa0000  B-x\r\n\u3000 O\n", "tagging", {}, TaggedWords(("10\xa0000", "\u3000"), ("B-x", "O"))),
    ("a.conll", "\u3000\tO\n", "tagging", {}, TaggedWords(("\u3000",), ("O",))),
    ("a.conllu", "1\ta\n2\tb\n", "tagging", {"labelled": False}, TaggedWords(("a", "b"))),
    ("a.conllu", "# text\n1-2\tab\t_\t_\n1\ta\t_\tNOUN\n2\tb\t_\tX\n", "tagging", {}, TaggedWords(("a", "b"), ("NOUN", "X"))),
    (
        "a.jsonl",
        '{"text": "in New York", "entities": [{"start": 3, "end": 11, "label": "city"}]}',
        "tagging",
        {},
        TaggedText("in New York", ((3, 11, "city"),)),
    ),
    ("a.jsonl", '{"tokens": ["a"], "ner_tags": ["O"]}', "tagging", {}, TaggedWords(("a",), ("O",))),
    ("a.txt", "a\tb\n", "tagging", {"labelled": False}, TaggedText("a\tb")),
    ("a.tsv", "in New York\nb\n", "tagging", {"labelled": False}, TaggedText("in New York")),
    ("a.tsv", "text\nin New York\n", "tagging", {"labelled": False}, TaggedText("in New York")),
    (
        "a.json",
        squad({"text": "red", "answer_start": 2}),
        "questions",
        {},
        Question("q1", "who?", "a red house", ((2, "red"),)),
    ),
    ("a.json", squad({}, is_impossible=True), "questions", {}, Question("q1", "who?", "a red house", ())),
    (
        "a.jsonl",
        '{"id": "q1", "question": "who?", "context": "a red", "answers": {"text": ["red"], "answer_start": [2]}}',
        "questions",
        {},
        Question("q1", "who?", "a red", ((2, "red"),)),
    ),
    ("a.csv", "prompt,choice0,choice1,label\na,b,c,1\n", "choices", {}, ChoiceQuestion("a", ("b", "c"), 1)),
    ("a.csv", "prompt,choice0,choice1,choice2,label\na,b,c,,1\n", "choices", {}, ChoiceQuestion("a", ("b", "c"), 1)),
    ("a.csv", "query,positive,negatives\na,b,\n", "retrieval", {}, TextGroup("a", "b")),
    ("a.csv", "query,positive,negative_1,negative_2\na,b,,d\n", "retrieval", {}, TextGroup("a", "b", ("d",))),
    ("a.csv", "query,positive,negative_1,score_0,score_1\na,b,,,\n", "retrieval", {}, TextGroup("a", "b")),
    ("a.tsv", 'words:json\ttags:json\n["a", "b c"]\t["O", "O"]\n', "tagging", {}, TaggedWords(("a", "b c"), ("O", "O"))),
    ("a.csv", "query,text,label\na,b,\n", "ranking", {"labelled": False}, RankedText("a", "b")),
    ("a.csv", "prompt, choice0, choice1, label\na,b,c,1\n", "choices", {}, ChoiceQuestion("a", ("b", "c"), 1)),
    (
        "a.jsonl",
        '{"prompt": "a", "x": "b", "y": "c", "label": 0}',
        "choices",
        {"columns": {"choices": ["x", "y"]}},
        ChoiceQuestion("a", ("b", "c"), 0),
    ),
    ("a.jsonl", '{"prompt": "a", "choices": ["b", "c"], "label": 0}', "choices", {}, ChoiceQuestion("a", ("b", "c"), 0)),
    ("a.jsonl", '{"Text": "a", "label": "no"}\n{"label": "x", "Text": "b"}', "classification", {}, ClassifiedText("a", label="no")),
    ("a.json", '[{"text": "a", "label": "no"}]', "classification", {}, ClassifiedText("a", label="no")),
    ("a.json", '{"text": ["a", "b"], "label": ["no", "yes"]}', "classification", {}, ClassifiedText("a", label="no")),
    ("a.csv", 'text;label\n"a; b";no\n', "classification", {}, ClassifiedText("a; b", label="no")),
    ("a.csv", "a;no\nc;yes\n", "classification", {}, ClassifiedText("a", label="no")),
    ("a.csv", "one; two\nthree\n", "tagging", {"labelled": False}, TaggedText("one; two")),
    ("a.csv", "text,x,x\na,b,c\n", "classification", {"columns": {"label": 3}}, ClassifiedText("a", label="c")),
]


@pytest.mark.parametrize(("name", "content", "kind", "options", "expected"), CASES)
def test_the_first_example_of_a_file(write, name, content, kind, options, expected):
    first = read_examples(write(name, content), kind, **options)[0]
    assert first == expected
    assert name in first.where


@pytest.mark.parametrize(("end", "packed"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_compressed_files_are_read(write, end, packed):
    path = write(f"a.tsv{end}", packed(b"a\tx\nb\ty\n"))
    assert [example.text for example in read_examples(path, "classification")] == ["a", "b"]


def test_an_example_has_its_file_and_line(write):
    path = write("a.csv", 'text,label\n"a\nb",x\n\nc,y\n')
    assert [example.where for example in read_examples(path, "classification")] == [f"{path}, line 2", f"{path}, line 5"]


# Kind to files that are wrong: name, content and what is reported.
WRONG = {
    "classification": [
        ("a.tsv", "", "expected at least one example; FILE is empty."),
        ("a.csv", "\ufeff", "expected at least one example; FILE is empty."),
        ("a.csv", ",\n", "expected at least one example; FILE has none."),
        ("a.tsv", "text\tlabel\n", "FILE has only the names of columns."),
        ("a.tsv", "text\tlabel\na\tx\nb\n", "expected 2 columns, as in line 1; FILE, line 3 has 1."),
        ("a.tsv", "text\tn\na\tx\n", "expected a column for label"),
        ("a.tsv", "a\tb\tc\td\n", "FILE has 4 columns without known names."),
        ("a.tsv", "text\tlabel\na\t\n", "expected a label, a word or a whole number; got '' in FILE, line 2."),
        ("a.tsv", b"a\tx\nb\xe9\ty\n", "expected text in UTF-8; FILE, line 2 is not, at byte 5 of the file."),
        ("a.tsv", "a\tx\n".encode("utf-16"), "at byte 0 of the file; it begins like UTF-16."),
        ("a.tsv.xz", lzma.compress(b"a\tx\n")[:-9], "FILE is damaged"),
        ("a.csv", 'text,label\na,"x\n', "expected cells quoted as in csv; FILE, line 2 is not"),
        ("a.jsonl", '{"text": "a"}\n', "FILE has the columns text."),
        ("a.jsonl", '{"text": "a", "label": null}\n', "expected a value for label; got none in FILE, line 1."),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text"\n', "expected a JSON object; FILE, line 2 is not one"),
        ("a.jsonl", '{"text": 3, "label": "x"}\n', "expected a string as text; got 3 in FILE, line 1."),
        ("a.json", '[{"text": "a"}, 3]', "expected a list of JSON objects; FILE has something else at 1."),
        ("a.json", "[]", "expected at least one example; FILE has none."),
        ("a.json", '{"text": ["a"], "label": 3}', "a list of values as column label of FILE; got 3."),
        ("a.json", '{"data": []}', "expected a file for classification; FILE has the format of questions."),
        ("a.jsonl", '{"text": "a", "class": "x", "intent": "y"}', "one column for label; FILE has class and intent"),
        ("a.txt", "a\n", "expected a file with labels; FILE has only lines of text."),
        ("a.conll", "a O\n", "expected a file for classification; FILE has the format of tagging."),
        ("a.doc", "a\n", "expected a file whose name ends in .tsv"),
    ],
    "regression": [
        ("a.tsv", "a\tmuch\n", "expected a number as score; got 'much' in FILE, line 1."),
        ("a.tsv", "a\tnan\n", "expected a number as score; got 'nan' in FILE, line 1."),
    ],
    "tagging": [
        ("a.jsonl", '{"text": "a", "spans": [[0, 2, "x"]]}', "in a text of length 1; got 0 to 2, x, in FILE, line 1."),
        ("a.jsonl", '{"text": "ab", "spans": [[0, 2, "x"], [1, 2, "y"]]}', "spans that do not overlap; got 0 to 2, x, and 1"),
        ("a.jsonl", '{"text": "ab"}', "expected words with tags or a text with spans; FILE, line 1 has none."),
        ("a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}', "a tag for each of 2 words; got 1 in FILE, line 1."),
        ("a.conll", "a O\nb\n", "expected 2 columns, as in line 1; FILE, line 2 has 1."),
        ("a.conll", "a\n", "words in column 1 and tags in column -1; FILE, line 1 has 1 columns."),
        ("a.conll", "\n \n\n-DOCSTART-\n", "expected at least one sentence; FILE has no words."),
    ],
    "questions": [
        ("a.json", squad({"text": "blue", "answer_start": 2}), "answer 'blue' at character 2 of the context; got 'red ' in FILE"),
        ("a.json", squad({"text": "red", "answer_start": 99}), "got an offset outside it in FILE, data[0].paragraphs[0].qas[0]."),
        ("a.json", '{"data": [{"paragraphs": 3}]}', "a list named paragraphs, as in SQuAD; got 3 in FILE, data[0]."),
        ("a.json", '{"data":\n ]}', "expected JSON; FILE, line 2 is not, at character 2"),
        ("a.json", '{"data": []}', "expected at least one question; FILE has none."),
    ],
    "choices": [
        (
            "a.csv",
            "prompt,choice0,choice1,choice2,label\na,b,,c,1\n",
            "the empty choices after the others; choice 1 is empty in FILE, line 2.",
        ),
        ("a.csv", "prompt,choice0,choice1,label\na,b,c,2\n", "the index of a choice, from 0 to 1; got '2' in FILE, line 2."),
    ],
}

WRONG_OPTIONS = [
    (
        "questions",
        {"columns": {"id": "x"}},
        "a.json",
        '{"data": []}',
        "columns apply only to files with columns; FILE has SQuAD's format.",
    ),
    ("classification", {"header": True}, "a.jsonl", '{"text": "a"}', "header applies only to tsv, csv; FILE is read as jsonl."),
    (
        "classification",
        {"columns": {"text": "t"}},
        "a.tsv",
        "a\tx\nb\ty\n",
        "expected a column named t; FILE has the columns a, x.",
    ),
    ("classification", {"columns": {"text": 3}}, "a.tsv", "a\tx\n", "a column from 1 to 2; got 3 for FILE."),
    (
        "classification",
        {"columns": {"text": "a"}, "header": False},
        "a.tsv",
        "a\tx\n",
        "expected a column named a; FILE has 2 columns without known names.",
    ),
    ("classification", {"columns": {"words": 3}}, "a.tsv", "a\tx\n", "columns must be among text, pair, label; got words."),
    (
        "classification",
        {"columns": {"text": ["x", "y"]}},
        "a.tsv",
        "a\tx\n",
        "columns must name a single column for text; got x, y.",
    ),
    (
        "classification",
        {"columns": {"text": "t"}},
        "a.jsonl",
        '{"text": "a", "label": "x"}\n',
        "expected a column named t; FILE has the columns text, label.",
    ),
    ("tagging", {"columns": {"tags": 0}}, "a.conll", "a O\n", "column numbers, from 1, for words and tags of FILE; got tags=0."),
]


@pytest.mark.parametrize(
    ("kind", "options", "name", "content", "message"),
    [*((kind, {}, *row) for kind, rows in WRONG.items() for row in rows), *WRONG_OPTIONS],
)
def test_what_cannot_be_read_is_one_sentence_with_file_and_line(write, kind, options, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=re.escape(message.replace("FILE", str(path)))) as raised:
        read_examples(path, kind, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "kind"), [("a.jsonl", "classification"), ("a.json", "questions")])
def test_deeply_nested_json_is_one_sentence(write, name, kind):
    with pytest.raises(ValueError, match=rf"{name}(, line 1)? is nested too deeply\.$"):
        read_examples(write(name, "[" * 100_000), kind)


def test_a_score_larger_than_any_float_is_one_sentence(write):
    path = write("a.jsonl", '{"text": "a", "score": 1' + "0" * 400 + "}")
    with pytest.raises(ValueError, match=r"expected a number as score; got 10+ in .*, line 1\.$"):
        read_examples(path, "regression")


def test_two_questions_may_not_have_one_id(write):
    rows = json.loads(squad({"text": "red", "answer_start": 2}))
    rows["data"] *= 2
    with pytest.raises(ValueError, match=r"q1 occurs in .*data\[0\].* and in .*data\[1\]"):
        read_examples(write("a.json", json.dumps(rows)), "questions")


@pytest.mark.parametrize("name", ["nothing.tsv", ""])
def test_a_missing_file_is_an_error(tmp_path, name):
    with pytest.raises(ValueError, match=r"expected a file of examples; .* (is a folder|does not exist)"):
        read_examples(tmp_path / name, "classification", format="tsv")


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ValueError, match="kind must be one of classification"):
        read_examples("a.tsv", "poems")
