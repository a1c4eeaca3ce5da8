"""Questions in SQuAD's format, and tagged words in CoNLL's columns."""

import json
import re
import string

from keras_bert_rebuild.data.labelled.example_kinds import checked_answers
from keras_bert_rebuild.data.labelled.labelled_examples import Question, TaggedWords
from keras_bert_rebuild.data.text_files import location, read_lines, read_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.reading import check_depth


def labelled_json(path):
    """The content of a .json file of examples.

    Raises:
        ValueError: it is not JSON, or exceeds the limits of `files.limits`.
    """
    try:
        text = read_text(path)
        check_limit("labelled_json_bytes", len(text), str(path))
        check_limit("labelled_json_values", sum(map(text.count, ",:[{")), str(path))
        content = json.loads(text)
        check_depth(content, path)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected JSON; {location(path, error.lineno)} is not, at character {error.colno}: {error.msg}."
        ) from None
    except RecursionError:
        raise ValueError(f"expected JSON; {path} is nested too deeply.") from None
    except ValueError as error:  # an integer with thousands of digits
        raise ValueError(f"expected JSON; {path} is not: {error}") from None
    return content


def read_squad(content, path, labelled=True):
    """The questions of a SQuAD 1.1 or 2.0 file.

    Args:
        content: the content of the file, from `labelled_json`.
        path: the file, for errors.
        labelled: whether every question must have answers or be marked as impossible.

    Returns:
        A list of `Question`; the answers of an impossible question (2.0) are the empty tuple.

    Raises:
        ValueError: a part is missing, an answer does not match the context at its offset, or two questions have the same id.
    """
    questions = []
    for i, article in enumerate(_list(content, "data", path)):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{path}, data[{i}]")):
            where = f"{path}, data[{i}].paragraphs[{j}]"
            context = _string(paragraph, "context", where)
            for k, row in enumerate(_list(paragraph, "qas", where)):
                questions.append(_read_question(row, context, f"{where}.qas[{k}]", labelled))
    if not questions:
        raise ValueError(f"expected at least one question; {path} has none.")
    check_unique_ids(questions)
    return questions


def check_unique_ids(questions):
    """Refuse two questions with one id: answers by id would lose one of them."""
    seen = {}
    for question in questions:
        if question.id in seen:
            both = f"{seen[question.id]} and in {question.where}"
            raise ValueError(f"expected a unique id for every question; {question.id} occurs in {both}.")
        seen[question.id] = question.where


def _read_question(row, context, where, labelled):
    name, text = _string(row, "id", where), _string(row, "question", where)
    if row.get("is_impossible") is True:
        return Question(name, text, context, (), where=where)
    answers = row.get("answers")
    if answers is None or (not answers and "is_impossible" not in row):
        if labelled:
            raise ValueError(f"expected answers or is_impossible; question {name} has neither in {where}.")
        return Question(name, text, context, None, where=where)
    return Question(name, text, context, checked_answers(answers, context, where), where=where)


def _list(value, name, where):
    items = value.get(name) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise ValueError(f"expected a list named {name}, as in SQuAD; got {items!r:.60} in {where}.")
    return items


def _string(value, name, where):
    text = value.get(name) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise ValueError(f"expected a string named {name}, as in SQuAD; got {text!r:.60} in {where}.")
    check_limit("cell_characters", len(text), f"{name} in {where}")
    return text


# The columns of words and tags, in CoNLL-2003 files and in Universal Dependencies files, whose tags are the universal parts of
# speech. Columns are numbered from 1; -1 is the last.
COLUMNS = {"conll": {"words": 1, "tags": -1}, "conllu": {"words": 2, "tags": 4}}
_DOCUMENT = "-DOCSTART-"
_SPACES = re.compile(f"[{string.whitespace}]+")


def read_words(path, format="conll", columns=None, labelled=True):
    """The sentences of a file with one word per line and a blank line between sentences.

    Columns are separated by tabs, or by spaces in lines without tabs. In conllu files, comments, multiword tokens and empty
    nodes are skipped.

    Args:
        path: the file.
        format: "conll" or "conllu".
        columns: `{"words": number, "tags": number}`, from 1.
        labelled: whether every word must have a tag.

    Returns:
        A list of `TaggedWords`, each located at its first line.

    Raises:
        ValueError: a line lacks a column or has more or fewer columns than the first, or there are no words.
    """
    at = {**COLUMNS[format], **(columns or {})}
    for part, number in at.items():
        if part not in ("words", "tags") or not str(number).removeprefix("-").isdecimal() or int(number) == 0:
            raise ValueError(f"expected column numbers, from 1, for words and tags of {path}; got {part}={number}.")
    words_at, tags_at = (int(at[part]) for part in ("words", "tags"))
    sentences, sentence, width = [], [], None

    def close():
        if sentence:
            words, tags = zip(*((word, tag) for _, word, tag in sentence), strict=True)
            sentences.append(TaggedWords(words, None if None in tags else tags, where=location(path, sentence[0][0])))
            sentence.clear()

    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith(_DOCUMENT):
            close()
            continue
        if format == "conllu" and line.startswith("#"):
            continue
        # A no-break or ideographic space is part of a word, or a word.
        cells = line.split("\t") if "\t" in line else [cell for cell in _SPACES.split(line) if cell]
        if width is None:
            width = len(cells), number
            _check_columns(cells, words_at, tags_at, labelled, location(path, number))
        if len(cells) != width[0]:
            raise ValueError(f"expected {width[0]} columns, as in line {width[1]}; {location(path, number)} has {len(cells)}.")
        if format == "conllu" and not cells[0].isdecimal():
            continue
        word = _cell(cells, words_at)
        # If tags may be missing, so may their column; a single column is that of the words.
        tag = _cell(cells, tags_at) if len(cells) >= max(abs(tags_at), 2) else None
        if not word or tag == "":
            raise ValueError(f"expected a word and its tag; one is empty in {location(path, number)}.")
        sentence.append((number, word, tag))
    close()
    if not sentences:
        raise ValueError(f"expected at least one sentence; {path} has no words.")
    return sentences


def _check_columns(cells, words_at, tags_at, labelled, where):
    if max(abs(words_at), abs(tags_at) if labelled else 0) > len(cells) or (labelled and len(cells) < 2):
        raise ValueError(f"expected words in column {words_at} and tags in column {tags_at}; {where} has {len(cells)} columns.")


def _cell(cells, number):
    return cells[number - 1 if number > 0 else number].strip(string.whitespace)
